/**
 * Removes data of erased events from the catalogue: the names in their rows, and the senders' times. The rows
 * are summed again from the remaining events.
 */
import type { SequenceSet } from '../privacy/sequence-set.js';
import { cursorAt, ID_BYTES, type EventLog } from '../store/contract/events.js';
import { isNoId, latin1 } from '../store/text.js';
import { NAME_COLUMNS } from './columns.js';
import type { Tables } from './tables.js';

const NAMELESS = NAME_COLUMNS.filter((column) => column !== 'organisation').map(
  (column) => `${column} = NULL`,
);
const FORGOTTEN = `UPDATE run SET ${NAMELESS.join(', ')}, summed = iif(summed > 0, -1, summed) WHERE id = ?`;

/**
 * On return no row has a name of these events; `Names.dropUnused` removes the texts.
 * @param erased events of one organisation, all of them in the catalogue.
 */
export async function forget(
  tables: Tables,
  log: Pick<EventLog, 'pass'>,
  organisation: string,
  erased: SequenceSet,
): Promise<void> {
  const { statements, names, runs } = tables;
  const owner = names.idOf(organisation);
  const stretches = [...erased];
  const [first = 1, end = 1] = [stretches.at(0)?.first, stretches.at(-1)?.end];
  const rows = new Set<number>();
  for await (const batch of log.pass(cursorAt(first), { through: end - 1 })) {
    for (const { sequence, source, eventIdAt, runIdAt } of batch) {
      if (!erased.has(sequence)) continue;
      const row = isNoId(source, runIdAt)
        ? tables.rowOfRunless(owner, source.subarray(eventIdAt, eventIdAt + ID_BYTES))
        : runs.find(owner, latin1(source, runIdAt, runIdAt + ID_BYTES));
      if (row === undefined) continue;
      rows.add(row);
      statements.run('UPDATE event SET sent = NULL WHERE run = ? AND sequence = ?', row, sequence);
    }
  }
  for (const row of rows) {
    statements.run(FORGOTTEN, row);
    statements.run('DELETE FROM call WHERE run = ?', row);
  }
}
