/**
 * Settling: rows whose summary is not of all their events get one that is. Each run is read again whole, so a run that
 * grows is settled once an update has come to the end of the log, however many batches it has grown in.
 */
import {
  BASE_FIELDS,
  memberIn,
  sentIn,
  type EventBody,
  type RunEvent,
  ScanningReader,
} from '../records/run-event.js';
import { MemberName } from '../records/json-scan.js';
import { Circles, COMPARED, Rows, type Located, type SummedRecord } from './rows.js';
import type { EventLog } from '../store/contract/events.js';
import { unpackEntries, type EventEntry } from './packed-entries.js';
import type { Row, Tables } from './tables.js';

/** Rows that are read together. */
const MOST_ROWS = 512;
/**
 * Bytes of log that are read with one call; of a record that has more, what a summary asks for is kept of each event.
 */
const READ_BYTES = 4 << 20;
/** Bytes of log whose events are objects at a time (records/record-windows.ts). */
const READER_BYTES = 512 << 10;

interface UnsettledRow extends Omit<SummedRecord, 'events'> {
  readonly parent: number | null;
  /** As it is in the row. */
  readonly compared: Row;
  readonly entries: readonly EventEntry[];
  readonly bytes: number;
}

/** @returns all entries of a row, in the order of the log. */
export function entriesOf(tables: Tables, row: number, inline: Uint8Array): EventEntry[] {
  const parts = tables.all('SELECT entries FROM part WHERE run = ? ORDER BY number', row);
  return unpackEntries([...parts.map(([entries]) => entries as Uint8Array), inline]);
}

/** A record of more events is settled lazily: once it has grown by an eighth, so that all its readings are linear. */
const MANY_EVENTS = 1024;
const GROWN = `(events < ${MANY_EVENTS} OR events * 8 >= settled * 9)`;

/**
 * Settles some rows, those with the lowest ids first.
 * @param before every entry of a lower sequence is taken in.
 * @param isLazy leaves records of many events alone that have hardly grown.
 * @returns whether there may be more.
 */
export async function settleSome(
  tables: Tables,
  log: EventLog,
  before: number,
  isLazy: boolean,
): Promise<boolean> {
  const sql = `SELECT id, organisation, circle, entries, parent, ${COMPARED.join(', ')} FROM run INDEXED BY run_settled
    WHERE settled IS NOT NULL${isLazy ? ` AND ${GROWN}` : ''} ORDER BY id LIMIT ?`;
  const found = tables.all(sql, MOST_ROWS);
  const rows = found.map(([id, organisation, circle, inline, parent, ...compared]): UnsettledRow => {
    const entries = entriesOf(tables, Number(id), inline as Uint8Array);
    const bytes = entries.reduce((sum, { size }) => sum + size, 0);
    const own = {
      id: Number(id),
      organisation: Number(organisation),
      parent: parent as number | null,
      compared,
    };
    return { ...own, isCircle: circle !== null, entries, bytes };
  });
  const settling = new Settling(tables, log, before);
  for (const window of partsOf(rows, READ_BYTES)) await settling.settle(window);
  settling.closeCircles();
  return found.length > 0;
}

class Settling {
  readonly #rows: Rows;
  readonly #circles: Circles;
  readonly #reader = new ScanningReader();
  /** Those that have got another parent. */
  readonly #nested: number[] = [];
  /** Those whose circle was opened. */
  readonly #opened: number[] = [];

  constructor(
    private readonly tables: Tables,
    private readonly log: EventLog,
    before: number,
  ) {
    this.#rows = new Rows(tables, log, before);
    this.#circles = new Circles(tables);
  }

  async settle(window: readonly UnsettledRow[]): Promise<void> {
    const [first] = window;
    if (first !== undefined && first.bytes > READ_BYTES) {
      await this.#write([{ ...first, events: await this.#thinEventsOf(first) }]);
      return;
    }
    const read = await this.log.read(window.flatMap(({ entries }) => entries));
    let index = 0;
    for (const part of partsOf(window, READER_BYTES)) {
      this.#reader.begin(read);
      const records = part.map((row) => ({
        ...row,
        events: row.entries.map(() => this.#reader.event(index++)),
      }));
      await this.#write(records);
    }
  }

  async #thinEventsOf({ entries }: UnsettledRow): Promise<RunEvent<EventBody>[]> {
    const events: RunEvent<EventBody>[] = [];
    for (const part of partsOf(
      entries.map((entry) => ({ ...entry, bytes: entry.size })),
      READER_BYTES,
    )) {
      this.#reader.begin(await this.log.read(part));
      for (const index of part.keys()) events.push(thin(this.#reader.event(index)));
    }
    return events;
  }

  async #write(records: readonly (SummedRecord & UnsettledRow)[]): Promise<void> {
    const located = await this.#rows.locateOutside(records);
    for (const [i, record] of records.entries()) {
      const parent = this.#rows.settle(record, record.compared, located[i] ?? new Map<string, Located>());
      if (parent === record.parent) continue;
      this.#reopen(record.id, record.parent, parent);
      if (parent !== null) this.#nested.push(record.id);
    }
  }

  /** The circle that it was part of is found by the parent that it had. */
  #reopen(row: number, old: number | null, parent: number | null): void {
    if (this.tables.first('SELECT circle FROM run WHERE id = ?', row)?.[0] === null) return;
    const set = 'UPDATE run SET parent = ? WHERE id = ?';
    this.tables.run(set, old, row);
    for (const member of this.#circles.open(row)) this.#opened.push(member);
    this.tables.run(set, parent, row);
  }

  closeCircles(): void {
    // One that was read as a member of a circle, and written once that was open, is settled again.
    const unsettle = 'UPDATE run SET settled = ifnull(settled, events) WHERE id = ?';
    for (const row of this.#opened) this.tables.run(unsettle, row);
    for (const row of this.#nested) this.#circles.close(row);
  }
}

/** Groups of at most that many bytes; one that is larger stands alone. */
export function* partsOf<Sized extends { readonly bytes: number }>(
  all: readonly Sized[],
  most: number,
): Generator<Sized[]> {
  let part: Sized[] = [];
  let bytes = 0;
  for (const each of all) {
    if (part.length > 0 && bytes + each.bytes > most) {
      yield part;
      part = [];
      bytes = 0;
    }
    part.push(each);
    bytes += each.bytes;
  }
  if (part.length > 0) yield part;
}

/** Of each object of an event the members that a summary asks for. */
const ENDED = ['ending', 'status', 'error_name', 'response_model', 'usage'];
const ASKED = Object.entries({
  system_metadata: ['app_name', 'instrumentation'],
  model_instance: ['model_id', 'model_version'],
  user_identity: ['caller_id'],
  target_identity: ['target_id'],
  inputs: [],
  artifact: ENDED,
  output: ['output_uri', ...ENDED],
  outcome: ['outcome_type'],
  feedback: ['feedback_type', 'rating_value', 'direction'],
}).map(([object, members]) => ({
  object: object as Parameters<typeof sentIn>[1],
  members: members.map((name) => new MemberName(name)),
}));

/** The event with what a summary asks for, and nothing that keeps what was read in memory. */
function thin({ event, body }: RunEvent<EventBody>): RunEvent<EventBody> {
  if (body === undefined) return { event, body };
  const kept: Record<string, unknown> = {};
  for (const name of BASE_FIELDS)
    if (name !== 'system_metadata' && name in body) kept[name] = body[name as 'timestamp'];
  for (const { object, members } of ASKED) {
    const sent = sentIn(body, object);
    if (sent === undefined) continue;
    kept[object] = Object.fromEntries(
      members.map((name) => [name.text, memberIn(sent, name)]).filter(([, value]) => value !== undefined),
    );
  }
  return { event, body: kept as unknown as EventBody };
}
