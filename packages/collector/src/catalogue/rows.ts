/** Writes what the catalogue says of records: summaries, what they are nested in, and the events that they await. */
import { type AssembledRun, assembleRun } from '../records/assemble.js';
import { readInstant } from '../records/instant.js';
import { outsideParents } from '../records/record-windows.js';
import type { EventBody, RunEvent } from '../records/run-event.js';
import type { EventLog } from '../store/contract/events.js';
import { uuidBytes, uuidText } from '../store/text.js';
import { type BatchRecords, runInLog } from './batch-records.js';
import { marksOf, packSummary } from './packed-summary.js';
import { CatalogueDamaged, PackedWriter } from './packing.js';
import { type RunSummary, sentAtOf, summaryOf } from './run-summary.js';
import type { Row, Tables } from './tables.js';

/** Where an event is that a record names as a parent. */
export interface Located {
  /** Its run; null when it is of none. */
  readonly run: string | null;
  /** The row of its record. */
  readonly row: number;
}

/** Whose summary is to be written. */
export interface SummedRecord {
  readonly id: number;
  readonly organisation: number;
  /** Whether it is nested in a circle of runs. */
  readonly isCircle: boolean;
  readonly events: readonly RunEvent<EventBody>[];
}

/** The columns that come of a summary and are indexed: they are left alone where none of them did change. */
const INDEXED = [
  'began_received',
  'began_sender',
  'target',
  'user',
  'model',
  'version',
  'application',
] as const;
/** What the row before is asked for, to be settled. */
export const COMPARED = [...INDEXED, 'marks'] as const;
const SUMMED = `marks = ?, summary = ?, settled = NULL, parent = ?`;
const UPDATE = `UPDATE run SET ${SUMMED} WHERE id = ?`;
const UPDATE_ALL = `UPDATE run SET ${INDEXED.map((name) => `${name} = ?`).join(', ')}, ${SUMMED} WHERE id = ?`;
const INSERT = `INSERT INTO run (id, record, organisation, is_run, first_sequence, last_sequence, events, settled,
  ${INDEXED.join(', ')}, marks, summary, parent, entries) VALUES (${new Array(19).fill('?').join(', ')})`;

export interface NewRow {
  readonly id: number;
  readonly organisation: number;
  readonly recordId: Uint8Array;
  readonly isRun: boolean;
  readonly firstSequence: number;
  readonly lastSequence: number;
}

/** What is in a row before there is a summary: nothing that could be taken for one. */
const UNSETTLED: Row = [0, 0, null, null, null, null, null, 0, Buffer.alloc(0), null];

const NOTHING: ReadonlyMap<string, Located> = new Map();

export class Rows {
  readonly #writer = new PackedWriter();

  /**
   * @param before every entry of a lower sequence is taken in.
   * @param batch whose records may have no row yet.
   */
  constructor(
    private readonly tables: Tables,
    private readonly log: EventLog,
    private readonly before: number,
    private readonly batch?: Pick<BatchRecords, 'record' | 'rowOfRun' | 'runOf'>,
  ) {}

  /** Where the parents are that the events name and that are not of their record. */
  async locateOutside(records: readonly SummedRecord[]): Promise<ReadonlyMap<string, Located>[]> {
    const located: ReadonlyMap<string, Located>[] = [];
    for (const { organisation, events } of records) {
      const outside = outsideParents(events);
      if (outside.length === 0) {
        located.push(NOTHING);
        continue;
      }
      const found = new Map<string, Located>();
      located.push(found);
      for (const parent of outside) {
        if (found.has(parent)) continue;
        const place = await this.#locate(
          organisation,
          events[0]?.event.organisation ?? '',
          uuidBytes(parent),
        );
        if (place !== undefined) found.set(parent, place);
      }
    }
    return located;
  }

  async #locate(organisation: number, name: string, id: Uint8Array): Promise<Located | undefined> {
    const { tables } = this;
    const runless = tables.rowOfRunless(organisation, id);
    if (runless !== undefined) {
      const row = this.batch?.record(runless) ?? tables.rowById(runless);
      if (row === undefined) throw new CatalogueDamaged('a row that another names is not there');
      return { run: row.isRun ? uuidText(row.recordId) : null, row: runless };
    }
    const run = await (this.batch?.runOf(name, id) ?? runInLog(this.log, this.before, name, id));
    if (run === undefined) return undefined;
    const row = this.batch?.rowOfRun(organisation, run) ?? tables.rowOf(organisation, run, true)?.id;
    if (row === undefined) throw new CatalogueDamaged('a run of the log has no row');
    return { run: uuidText(run), row };
  }

  /** On return the record has a row of its own. @returns what it is nested in. */
  insert(
    row: NewRow,
    record: SummedRecord,
    located: ReadonlyMap<string, Located>,
    entries: Uint8Array,
  ): number | null {
    const { run, parent } = this.#assembled(record, located);
    const values = this.#valuesOf(summaryOf(run), parent);
    this.#insert(row, record.events.length, null, values, entries);
    return parent;
  }

  /** The same for a record whose summary will be made later. */
  insertUnsettled(row: NewRow, events: number, entries: Uint8Array): void {
    this.#insert(row, events, 0, UNSETTLED, entries);
  }

  #insert(row: NewRow, events: number, settled: number | null, values: Row, entries: Uint8Array): void {
    const { id, recordId, organisation, isRun, firstSequence, lastSequence } = row;
    const own = [id, recordId, organisation, isRun ? 1 : 0, firstSequence, lastSequence, events, settled];
    this.#tally(isRun, values, 1);
    this.tables.run(INSERT, ...own, ...values, entries);
    this.tables.noteRow(recordId);
  }

  /** On return the row says what its events say. @param old its columns of {@link COMPARED}. @returns what it is nested in. */
  settle(record: SummedRecord, old: Row, located: ReadonlyMap<string, Located>): number | null {
    const { run, parent } = this.#assembled(record, located);
    const summary = summaryOf(run);
    const values = this.#valuesOf(summary, parent);
    this.#tally(summary.isRun, old, -1);
    this.#tally(summary.isRun, values, 1);
    const indexed = values.slice(0, INDEXED.length);
    if (indexed.every((value, i) => isSame(value, old[i]))) {
      this.tables.run(UPDATE, ...values.slice(INDEXED.length), record.id);
    } else this.tables.run(UPDATE_ALL, ...values, record.id);
    return parent;
  }

  /** @param values begin with the columns of {@link COMPARED}. */
  #tally(isRun: boolean, values: Row, sign: 1 | -1): void {
    const [beganReceived, marks] = [Number(values[0]), Number(values[INDEXED.length])];
    this.tables.tally.add({ isRun, marks, beganReceived }, sign);
  }

  #assembled(
    { id, organisation, isCircle, events }: SummedRecord,
    located: ReadonlyMap<string, Located>,
  ): { run: AssembledRun; parent: number | null } {
    const run = assembleRun(events, {
      parentRunOf: (eventId) => located.get(eventId)?.run,
      children: [],
      // Of a circle a summary says that there is one, anyone who is in it.
      cycle: isCircle ? [''] : [],
    });
    for (const place of run.parentage.outside) {
      const parentId = run.metadata.events[place]?.parentId ?? '';
      if (typeof located.get(parentId)?.run !== 'string')
        this.tables.await(organisation, uuidBytes(parentId), id);
    }
    const parentId = run.metadata.parent?.event_id;
    const isRun = run.metadata.run_id !== null;
    return {
      run,
      parent: (isRun && parentId !== undefined ? located.get(parentId)?.row : undefined) ?? null,
    };
  }

  /** In the order of the statements above. */
  #valuesOf(summary: RunSummary, parent: number | null): Row {
    const { began, targetId, userId, modelId, modelVersion, application } = summary;
    const target = targetId === null ? null : this.tables.texts.toBytes(targetId);
    const name = (text: string | null) => (text === null ? null : this.tables.nameId(text));
    packSummary(this.#writer, summary);
    return [
      ...[began.received, began.sender, target, name(userId), name(modelId), name(modelVersion)],
      ...[name(application), marksOf(summary), this.#writer.take(), parent],
    ];
  }
}

function isSame(value: Row[number] | undefined, other: Row[number] | undefined): boolean {
  if (!(value instanceof Uint8Array) || !(other instanceof Uint8Array)) return value === other;
  return Buffer.compare(value, other) === 0;
}

/** By the sender's clock; undefined when the payload cannot be read. */
export function sentAtIn({ event, body }: RunEvent<EventBody>): number | undefined {
  return body === undefined ? undefined : sentAtOf({ event, at: readInstant(body.timestamp) });
}

/* Finds the circles in which runs are nested in each other, and notes them in the rows. */

/** A row as a member of circles, and its summary as one that says nothing of that. */
const MARK = 'UPDATE run SET circle = ?, settled = ifnull(settled, events) WHERE id = ?';

export class Circles {
  /** Rows that are in no circle: while no parent changes, nothing that leads to them or from them alone is either. */
  readonly #clear = new Set<number>();

  constructor(private readonly tables: Tables) {}

  /** To be called before a row gets another parent. @returns the rows of its circle, which on return are in none. */
  open(row: number): number[] {
    this.#clear.clear();
    const [, circle] = this.#parentOf(row);
    const members = circle === null ? [] : [...this.#membersFrom(row)];
    for (const member of members) this.tables.run(MARK, null, member);
    return members;
  }

  /** To be called when a row has got another parent. On return the circle that it closes, if it does, is noted. */
  close(row: number): void {
    const [, circle] = this.#parentOf(row);
    if (circle !== null || !this.#isUnderItself(row)) return;
    for (const member of this.#membersFrom(row)) this.tables.run(MARK, 1, member);
  }

  /** The rows of the circle that a row is part of. */
  *#membersFrom(row: number): Generator<number> {
    let at = row;
    do {
      // Before the caller writes to it.
      const [parent] = this.#parentOf(at);
      yield at;
      if (parent === null) throw new CatalogueDamaged('a circle that does not close');
      at = parent;
    } while (at !== row);
  }

  /**
   * Looks up from the row and down from it, a row on each side at a time, and ends where one side ends. What it has seen
   * on that side is clear then. So a look costs what the smaller side costs, and those of a batch visit a row twice.
   */
  #isUnderItself(row: number): boolean {
    const seenBelow: number[] = [row];
    const below = this.#below(row, seenBelow);
    try {
      return this.#isMet(row, below, seenBelow);
    } finally {
      // A statement that was left in the middle would hold what this process sees of the file where it is.
      below.return();
    }
  }

  #isMet(row: number, below: Iterator<number>, seenBelow: readonly number[]): boolean {
    const above: number[] = [row];
    let [at] = this.#parentOf(row);
    while (at !== row) {
      const [parent, circle] = at === null ? [null, null] : this.#parentOf(at);
      const isEndAbove = at === null || circle !== null || this.#clear.has(at);
      if (isEndAbove || below.next().done === true) {
        for (const seen of isEndAbove ? above : seenBelow) this.#clear.add(seen);
        return false;
      }
      above.push(at ?? row);
      at = parent;
    }
    return true;
  }

  *#below(row: number, seen: number[]): Generator<number, void> {
    for (let next = 0; next < seen.length; next++) {
      for (const [child] of this.tables.rows('SELECT id FROM run WHERE parent = ?', seen[next] ?? row)) {
        if (this.#clear.has(Number(child))) continue;
        seen.push(Number(child));
        yield Number(child);
      }
    }
  }

  #parentOf(row: number): [parent: number | null, circle: number | null] {
    const [parent, circle] = this.tables.first('SELECT parent, circle FROM run WHERE id = ?', row) ?? [];
    return [(parent as number | null | undefined) ?? null, (circle as number | null | undefined) ?? null];
  }
}
