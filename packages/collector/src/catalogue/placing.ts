/**
 * Assigns each event of the log to a record. An event that names or opens a run belongs to the run's record.
 * Another event belongs to the record of its parent, and so on upwards. If that leads to no run, connected
 * events are a record without a run; its id is the id of its topmost event, or the smallest id in a circle.
 *
 * A record without a run awaits at most one event: the parent of its topmost event. When that arrives the two
 * records are merged, the smaller into the larger, so that a chain in any order takes n log n steps.
 */
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { type EventLog, ID_BYTES, type PassedEntry } from '../store/contract/events.js';
import { isNoId, latin1 } from '../store/text.js';
import { Circles } from './circles.js';
import { CatalogueDamaged } from './faults.js';
import { type EventRow, NewRun, type Tables } from './tables.js';

/** Inserts the row of a record, whose events are counted when they are added. */
const NEW_RECORD = `
  INSERT INTO run (id, record, organisation, is_run, first_sequence, last_sequence, events, summed)
  VALUES (?1, ?2, ?3, ?4, ?1, ?1, 0, 0)`;
/** Marks a row that no longer matches its events, although their number is the same. */
const STALE = 'UPDATE run SET summed = -1 WHERE summed > 0';
/** The records that await an event. */
const AWAITING = 'FROM awaited WHERE event = ? AND organisation = ?';
const KINDS = new Map(EVENT_KINDS.map((kind, place) => [kind, place]));

function kindNumber(kind: EventKind): number {
  const number = KINDS.get(kind);
  if (number === undefined) throw new TypeError(`an event of an unknown kind`);
  return number;
}

export class Placing {
  readonly #circles: Circles;
  /** By row, the number of its events that its column `events` does not count yet. */
  readonly #added = new Map<number, number>();
  #organisation: readonly [name: string, id: number] = ['', 0];

  constructor(
    private readonly tables: Tables,
    private readonly log: Pick<EventLog, 'find'>,
  ) {
    this.#circles = new Circles(tables.statements);
  }

  /**
   * On return, or when the returned promise resolves, the event belongs to a record that is due to be summed.
   * @param entry an event.
   */
  place(entry: PassedEntry): Promise<void> | undefined {
    const { source, runIdAt } = entry;
    const organisation = this.#organisationOf(entry.organisation);
    if (isNoId(source, runIdAt))
      return this.#rowOfRunless(entry, organisation).then((row) => this.#add(entry, organisation, row));
    const key = latin1(source, runIdAt, runIdAt + ID_BYTES);
    this.#add(entry, organisation, this.#rowOfRun(key, organisation, entry));
    return undefined;
  }

  #add(entry: PassedEntry, organisation: number, row: number): void {
    const { source, eventIdAt, sequence, at, size, kind, receivedAt } = entry;
    const event: EventRow = { sequence, at, size, kind: kindNumber(kind), received: receivedAt };
    const newRun = this.tables.newRuns.get(row);
    if (newRun !== undefined) newRun.add(event);
    else {
      this.tables.addEvent(row, event, null);
      const added = this.#added.get(row);
      this.#added.set(row, added === undefined ? 1 : added + 1);
    }
    if (this.tables.mayBeAwaited(source, eventIdAt))
      this.#come(source.subarray(eventIdAt, eventIdAt + ID_BYTES), organisation, row);
  }

  /** On return all written rows have their number of events. */
  flush(): void {
    const { statements } = this.tables;
    for (const [row, added] of this.#added)
      statements.run('UPDATE run SET events = events + ? WHERE id = ?', added, row);
    this.#added.clear();
  }

  #organisationOf(name: string): number {
    if (this.#organisation[0] !== name) this.#organisation = [name, this.tables.names.idOf(name)];
    return this.#organisation[1];
  }

  #rowOfRun(key: string, organisation: number, entry: PassedEntry): number {
    const known = this.tables.runs.find(organisation, key);
    if (known !== undefined) return known;
    const { sequence: row } = entry;
    this.tables.newRuns.set(row, new NewRun(organisation, key));
    this.tables.runs.add(organisation, key, row);
    return row;
  }

  /** Writes the row of a new run, which is due to be summed. */
  #writeNew(row: number): void {
    const run = this.tables.newRuns.get(row);
    if (run === undefined) return;
    this.tables.newRuns.delete(row);
    this.tables.statements.run(NEW_RECORD, row, Buffer.from(run.id, 'latin1'), run.organisation, 1);
    const events = run.events();
    for (const event of events) this.tables.addEvent(row, event, null);
    this.#added.set(row, events.length);
  }

  async #rowOfRunless(entry: PassedEntry, organisation: number): Promise<number> {
    const { source, eventIdAt, parentIdAt, sequence } = entry;
    const id = Buffer.from(source.subarray(eventIdAt, eventIdAt + ID_BYTES));
    const parent = isNoId(source, parentIdAt)
      ? null
      : Buffer.from(source.subarray(parentIdAt, parentIdAt + ID_BYTES));
    let row = parent === null ? undefined : await this.#rowOfParent(entry, organisation, parent);
    if (row === undefined) {
      row = sequence;
      this.tables.statements.run(NEW_RECORD, row, id, organisation, 0);
      if (parent !== null) this.tables.await(organisation, parent, row);
    }
    this.tables.statements.run(
      'INSERT INTO runless (event, organisation, parent, run) VALUES (?, ?, ?, ?)',
      ...[id, organisation, parent, row],
    );
    return row;
  }

  /** @returns undefined while the parent is missing. */
  async #rowOfParent(entry: PassedEntry, organisation: number, parent: Buffer): Promise<number | undefined> {
    const runless = this.tables.rowOfRunless(organisation, parent);
    if (runless !== undefined) return runless;
    const { sequence } = entry;
    const found = await this.log.find(entry.organisation, parent, sequence);
    if (found === undefined || found.sequence >= sequence || isNoId(found.runId)) return undefined;
    const row = this.tables.runs.find(organisation, found.runId.toString('latin1'));
    if (row === undefined) throw new CatalogueDamaged('a run of the log has no row');
    return row;
  }

  /** Handles the arrival of an event that records may await. */
  #come(id: Uint8Array, organisation: number, row: number): void {
    const { statements } = this.tables;
    let of = row;
    let isAwaited = false;
    for (let isHung = true; isHung;) {
      isHung = false;
      for (const [each] of statements.all(`SELECT run ${AWAITING}`, id, organisation)) {
        const waits = Number(each);
        isAwaited = true;
        // A merge moves awaits from the smaller record to the larger one: check again.
        if (statements.first(`SELECT 1 ${AWAITING} AND run = ?`, id, organisation, waits) === undefined)
          continue;
        if (this.#isRun(waits)) statements.run(`${STALE} AND id = ?`, waits);
        else {
          of = this.#hang(waits, of, id, organisation);
          isHung = true;
        }
      }
    }
    if (isAwaited && this.#isRun(of)) statements.run(`DELETE ${AWAITING}`, id, organisation);
  }

  #isRun(row: number): boolean {
    if (this.tables.newRuns.has(row)) return true;
    const found = this.tables.statements.first('SELECT is_run FROM run WHERE id = ?', row);
    if (found === undefined) throw new CatalogueDamaged('a row that another row names is missing');
    return found[0] === 1;
  }

  /** Attaches a record without a run to an event that it awaited. @returns the row of that event. */
  #hang(record: number, on: number, event: Uint8Array, organisation: number): number {
    const { statements } = this.tables;
    statements.run(
      'DELETE FROM awaited WHERE event = ? AND organisation = ? AND run = ?',
      ...[event, organisation, record],
    );
    this.#writeNew(on);
    this.flush();
    if (record === on) {
      statements.run(`${STALE} AND id = ?`, record);
      return on;
    }
    const sizeOf = (row: number) =>
      Number(statements.first('SELECT count(*) FROM event WHERE run = ?', row)?.[0]);
    const isRun = this.#isRun(on);
    const [from, into] = isRun || sizeOf(on) >= sizeOf(record) ? [record, on] : [on, record];
    this.#merge(from, into, isRun);
    return into;
  }

  /** Moves all events of `from` to `into`. */
  #merge(from: number, into: number, isRun: boolean): void {
    const { statements, tally } = this.tables;
    if (isRun) {
      // Events without a run now have one: rows whose events name them as parents are stale.
      const members = 'SELECT event, organisation FROM runless WHERE run = ?';
      const awaiting = `SELECT a.run FROM (${members}) AS r
        CROSS JOIN awaited AS a USING (event, organisation)`;
      statements.run(`${STALE} AND id IN (${awaiting})`, from);
      statements.run(`DELETE FROM awaited WHERE (event, organisation) IN (${members})`, from);
    }
    statements.run('UPDATE event SET run = ? WHERE run = ?', into, from);
    statements.run('UPDATE runless SET run = ? WHERE run = ?', into, from);
    statements.run('UPDATE OR REPLACE awaited SET run = ? WHERE run = ?', into, from);
    statements.run('UPDATE run SET parent = nullif(?, id) WHERE parent = ?', into, from);
    const first = '(SELECT first_sequence FROM run WHERE id = ?)';
    statements.run(
      `UPDATE run SET summed = iif(summed > 0, -1, summed), first_sequence = min(first_sequence, ${first})
       WHERE id = ?`,
      ...[from, into],
    );
    tally.takeOut(from);
    statements.run('DELETE FROM call WHERE run = ?', from);
    statements.run('DELETE FROM run WHERE id = ?', from);
    this.#circles.close(into);
  }
}
