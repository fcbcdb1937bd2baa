/**
 * What the catalogue has of events that were retired goes with them: their names, and when their senders sent them. The
 * rows are settled again, from what is left.
 */
import type { SequenceSet } from '../privacy/sequence-set.js';
import { cursorAt, ID_BYTES, type EventLog } from '../store/contract/events.js';
import { isNoId } from '../store/text.js';
import { MOST_INLINE, packAgain } from './packed-entries.js';
import { PackedWriter } from './packing.js';
import { entriesOf } from './settling.js';
import type { Tables } from './tables.js';

const FORGOTTEN = `UPDATE run SET target = NULL, user = NULL, model = NULL, version = NULL, application = NULL,
  entries = ?, settled = 0 WHERE id = ?`;

/**
 * @param retired events of one organisation, all of them taken in.
 * On return no row has a name of theirs; `Tables.dropNames` takes out what is left of them.
 */
export async function forget(
  tables: Tables,
  log: EventLog,
  organisation: string,
  retired: SequenceSet,
): Promise<void> {
  const runs = new Set<string>();
  const rows = new Set<number>();
  const owner = tables.nameId(organisation);
  const stretches = [...retired];
  const [first = 1, end = 1] = [stretches.at(0)?.first, stretches.at(-1)?.end];
  for await (const batch of log.pass(cursorAt(first), { through: end - 1 })) {
    for (const { sequence, source, eventIdAt, runIdAt } of batch) {
      if (!retired.has(sequence)) continue;
      // A run has several events, and is looked for once.
      if (!isNoId(source, runIdAt)) runs.add(source.toString('latin1', runIdAt, runIdAt + ID_BYTES));
      else addRow(tables.rowOfRunless(owner, source.subarray(eventIdAt, eventIdAt + ID_BYTES)));
    }
  }
  for (const run of runs) addRow(tables.rowOf(owner, Buffer.from(run, 'latin1'), true)?.id);
  const writer = new PackedWriter();
  for (const row of rows) forgetRow(tables, writer, row, retired);

  function addRow(row: number | undefined): void {
    if (row !== undefined) rows.add(row);
  }
}

function forgetRow(tables: Tables, writer: PackedWriter, row: number, retired: SequenceSet): void {
  const found = tables.first('SELECT entries FROM run WHERE id = ?', row);
  if (found === undefined) return;
  const [inline] = found;
  const entries = entriesOf(tables, row, inline as Uint8Array);
  packAgain(
    writer,
    entries.map((entry) => (retired.has(entry.sequence) ? { ...entry, sentAt: undefined } : entry)),
  );
  const packed = writer.take();
  tables.run('DELETE FROM part WHERE run = ?', row);
  tables.run(FORGOTTEN, packed.length > MOST_INLINE ? Buffer.alloc(0) : packed, row);
  if (packed.length > MOST_INLINE) tables.run('INSERT INTO part (run, entries) VALUES (?, ?)', row, packed);
}
