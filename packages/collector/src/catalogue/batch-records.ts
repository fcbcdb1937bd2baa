/**
 * Which record each event of a batch is of. An event that names or opens a run is of that run's record. Another goes
 * where its parent goes, and so on up; where that leads to no run, the events that hang together are a record without a
 * run, known by the event that they hang on, and in a circle by its smallest id.
 *
 * A record without a run awaits at most one event: the parent of the one that it is known by. When that comes the two
 * records are merged, the smaller into the larger, so that a chain of any length in any order takes n log n steps.
 */
import { CatalogueDamaged } from './packing.js';
import { type EventLog, ID_BYTES } from '../store/contract/events.js';
import type { LogBatch } from './packed-entries.js';
import type { FoundRow, Tables } from './tables.js';
import { isNoId } from '../store/text.js';

/** A record that a batch has to do with. */
export interface TouchedRecord {
  readonly id: number;
  readonly organisation: number;
  recordId: Uint8Array;
  readonly isRun: boolean;
  /** Not in the tables yet. */
  readonly isNew: boolean;
  /** Of the events in the batch, in no order. */
  indices: number[];
  /** Of the events before the batch, those of records that were merged into it among them. */
  before: number;
  /** Bytes of the entries in its row, before the batch. */
  inline: number;
  firstSequence: number;
  lastSequence: number;
  /** Whether its id or its first event are no longer those of its row. */
  isMoved: boolean;
}

/** The summary of a row is no longer that of its events. */
const UNSETTLE = 'UPDATE run SET settled = ifnull(settled, events)';

export class BatchRecords {
  readonly #byId = new Map<number, TouchedRecord>();
  readonly #runs = new Map<number, Map<string, TouchedRecord>>();
  readonly #organisations: Uint32Array;
  /** Runs that others may be nested in now that were nested in records without a run. */
  readonly adopted = new Set<number>();

  /** @param before every entry of a lower sequence is in the batch, or was taken in. */
  constructor(
    private readonly tables: Tables,
    private readonly log: EventLog,
    private readonly batch: LogBatch,
    private readonly before: number,
  ) {
    this.#organisations = new Uint32Array(batch.count);
  }

  /** @returns every record that has events in the batch. Rows of records that were merged into others are gone. */
  async place(): Promise<TouchedRecord[]> {
    const { batch } = this;
    const runless: number[] = [];
    let [name, organisation] = ['', 0];
    for (let i = 0; i < batch.count; i++) {
      if (batch.organisation(i) !== name) {
        name = batch.organisation(i);
        organisation = this.tables.nameId(name);
      }
      this.#organisations[i] = organisation;
      const runAt = batch.idsAt(i) + ID_BYTES;
      if (isNoId(batch.source, runAt)) runless.push(i);
      else this.#add(this.#runIn(batch.source, runAt, organisation, batch.sequences[i] ?? 0), i);
    }
    let next = 0;
    for (let i = 0; i < batch.count; i++) {
      if (runless[next] === i) {
        await this.#placeRunless(i);
        next++;
      }
      if (this.tables.mayBeAwaited(batch.source, batch.idsAt(i))) this.#come(i);
    }
    return [...this.#byId.values()];
  }

  /** The number of an event's organisation. */
  organisation(index: number): number {
    return this.#organisations[index] ?? 0;
  }

  /** A record of the batch by its row; undefined when the batch has nothing to do with it. */
  record(row: number): TouchedRecord | undefined {
    return this.#byId.get(row);
  }

  /** The row that a run has or will have; undefined when the batch has nothing to do with it. */
  rowOfRun(organisation: number, runId: Uint8Array): number | undefined {
    return this.#runs.get(organisation)?.get(Buffer.from(runId).toString('latin1'))?.id;
  }

  #id(index: number, place: 0 | 1 | 2): Uint8Array {
    const at = this.batch.idsAt(index) + place * ID_BYTES;
    return this.batch.source.subarray(at, at + ID_BYTES);
  }

  #add(record: TouchedRecord, index: number): void {
    const sequence = this.batch.sequences[index] ?? 0;
    record.indices.push(index);
    record.firstSequence = Math.min(record.firstSequence, sequence);
    record.lastSequence = Math.max(record.lastSequence, sequence);
  }

  /** @param sequence of the first event, where the run is a new one. */
  #runIn(source: Buffer, at: number, organisation: number, sequence: number): TouchedRecord {
    let runs = this.#runs.get(organisation);
    if (runs === undefined) this.#runs.set(organisation, (runs = new Map<string, TouchedRecord>()));
    const key = source.toString('latin1', at, at + ID_BYTES);
    let run = runs.get(key);
    if (run === undefined) {
      const recordId = source.subarray(at, at + ID_BYTES);
      const row = this.tables.rowOf(organisation, recordId, true);
      run = row ? this.#found(row) : this.#begun(sequence, organisation, Buffer.from(recordId), true);
      runs.set(key, run);
    }
    return run;
  }

  #found(row: FoundRow): TouchedRecord {
    const { events, ...rest } = row;
    const known = this.#byId.get(row.id);
    if (known !== undefined) return known;
    const record = { ...rest, before: events, isNew: false, indices: [], isMoved: false };
    this.#byId.set(row.id, record);
    return record;
  }

  #begun(id: number, organisation: number, recordId: Uint8Array, isRun: boolean): TouchedRecord {
    const record: TouchedRecord = {
      id,
      organisation,
      recordId,
      isRun,
      isNew: true,
      indices: [],
      before: 0,
      inline: 0,
      isMoved: false,
      firstSequence: Infinity,
      lastSequence: 0,
    };
    this.#byId.set(id, record);
    return record;
  }

  #byRow(id: number): TouchedRecord {
    const touched = this.#byId.get(id);
    if (touched !== undefined) return touched;
    const row = this.tables.rowById(id);
    if (row === undefined) throw new CatalogueDamaged('a row that another names is not there');
    return this.#found(row);
  }

  async #placeRunless(index: number): Promise<void> {
    const organisation = this.#organisations[index] ?? 0;
    const parent = this.#id(index, 2);
    const id = this.#id(index, 0);
    const hasParent = !isNoId(parent);
    let record = hasParent ? await this.#recordOfParent(index, organisation, parent) : undefined;
    if (record === undefined) {
      record = this.#begun(this.batch.sequences[index] ?? 0, organisation, Buffer.from(id), false);
      if (hasParent) this.tables.await(organisation, parent, record.id);
    }
    this.#add(record, index);
    this.tables.addRunless(organisation, id, hasParent ? parent : null, record.id);
  }

  /** @returns undefined while the parent is not there. */
  async #recordOfParent(
    index: number,
    organisation: number,
    parent: Uint8Array,
  ): Promise<TouchedRecord | undefined> {
    const row = this.tables.rowOfRunless(organisation, parent);
    if (row !== undefined) return this.#byRow(row);
    // What comes later in the batch without a run finds that it is awaited.
    const run = await this.runOf(this.batch.organisation(index), parent);
    return run && this.#runIn(run, 0, organisation, this.batch.sequences[index] ?? 0);
  }

  /**
   * The run that an event names or opens, if it does; undefined too where the event is behind the batch or not there.
   */
  async runOf(organisation: string, event: Uint8Array): Promise<Buffer | undefined> {
    const { batch } = this;
    const index = batch.find(organisation, event);
    if (index >= 0) {
      const runAt = batch.idsAt(index) + ID_BYTES;
      return isNoId(batch.source, runAt) ? undefined : batch.source.subarray(runAt, runAt + ID_BYTES);
    }
    return runInLog(this.log, this.before, organisation, event);
  }

  /** An event has come that may be awaited. */
  #come(index: number): void {
    const organisation = this.#organisations[index] ?? 0;
    const id = this.#id(index, 0);
    const { tables } = this;
    const waiting = tables.waitingFor(organisation, id);
    if (waiting.length === 0) return;
    const awaiting = 'SELECT run FROM awaited WHERE event = ? AND organisation = ?';
    tables.run(`${UNSETTLE} WHERE is_run = 1 AND id IN (${awaiting})`, id, organisation);
    for (const row of waiting) {
      const waits = this.#byId.get(row) ?? tables.rowById(row);
      // A new run of the batch is looked at when all of the batch is in its place.
      if (waits?.isRun === false) this.#hang(this.#byRow(row), this.#recordOf(index), id);
    }
    if (this.#recordOf(index).isRun) {
      tables.run('DELETE FROM awaited WHERE event = ? AND organisation = ?', id, organisation);
    }
  }

  #recordOf(index: number): TouchedRecord {
    const { source, sequences } = this.batch;
    const organisation = this.#organisations[index] ?? 0;
    const runAt = this.batch.idsAt(index) + ID_BYTES;
    if (!isNoId(source, runAt)) return this.#runIn(source, runAt, organisation, sequences[index] ?? 0);
    return this.#byRow(this.tables.rowOfRunless(organisation, this.#id(index, 0)) ?? 0);
  }

  /** Hangs a record without a run on an event that it has awaited. */
  #hang(record: TouchedRecord, on: TouchedRecord, event: Uint8Array): void {
    this.tables.run(
      'DELETE FROM awaited WHERE event = ? AND organisation = ? AND run = ?',
      ...[event, record.organisation, record.id],
    );
    if (record === on) {
      record.recordId = this.#smallestOfCircle(record.organisation, event);
      record.isMoved = true;
    } else if (on.isRun || sizeOf(on) >= sizeOf(record)) this.#merge(record, on);
    else {
      const { recordId } = on;
      this.#merge(on, record);
      record.recordId = recordId;
    }
  }

  #smallestOfCircle(organisation: number, event: Uint8Array): Uint8Array {
    const first = Buffer.from(event);
    let smallest = first;
    let at = first;
    do {
      const sql = 'SELECT parent FROM runless WHERE event = ? AND organisation = ?';
      const parent = this.tables.first(sql, at, organisation)?.[0];
      if (!(parent instanceof Uint8Array)) throw new CatalogueDamaged('a circle that does not close');
      at = Buffer.from(parent);
      if (at.compare(smallest) < 0) smallest = at;
    } while (!at.equals(first));
    return smallest;
  }

  /** On return all that was of `from` is of `into`. */
  #merge(from: TouchedRecord, into: TouchedRecord): void {
    const { tables } = this;
    if (into.isRun) {
      // What was of no run is of one now, which is seen by the rows whose events name it as a parent.
      const members = 'SELECT event, organisation FROM runless WHERE run = ?';
      const awaiting = `SELECT a.run FROM (${members}) AS r CROSS JOIN awaited AS a USING (event, organisation)`;
      tables.run(`${UNSETTLE} WHERE id IN (${awaiting})`, from.id);
      tables.run(`DELETE FROM awaited WHERE (event, organisation) IN (${members})`, from.id);
      this.adopted.add(into.id);
    }
    tables.run('UPDATE runless SET run = ? WHERE run = ?', into.id, from.id);
    tables.run('UPDATE OR REPLACE awaited SET run = ? WHERE run = ?', into.id, from.id);
    tables.run('UPDATE run SET parent = nullif(?, id) WHERE parent = ?', into.id, from.id);
    tables.run('UPDATE part SET run = ? WHERE run = ?', into.id, from.id);
    if (!from.isNew) {
      tables.run('INSERT INTO part (run, entries) SELECT ?, entries FROM run WHERE id = ?', into.id, from.id);
      tables.deleteRow(from.id);
    }
    if (from.indices.length > into.indices.length)
      [from.indices, into.indices] = [into.indices, from.indices];
    for (const index of from.indices) into.indices.push(index);
    from.indices = [];
    into.before += from.before;
    into.firstSequence = Math.min(into.firstSequence, from.firstSequence);
    into.lastSequence = Math.max(into.lastSequence, from.lastSequence);
    into.isMoved = true;
    this.#byId.delete(from.id);
  }
}

/** The same of what has a lower sequence than `before`. */
export async function runInLog(
  log: EventLog,
  before: number,
  organisation: string,
  event: Uint8Array,
): Promise<Buffer | undefined> {
  const found = await log.find(organisation, event, before);
  const isThere = found !== undefined && found.sequence < before && !isNoId(found.runId);
  return isThere ? Buffer.from(found.runId) : undefined;
}

function sizeOf({ before, indices }: TouchedRecord): number {
  return before + indices.length;
}
