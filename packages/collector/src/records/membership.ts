/**
 * Which record an event is part of. An event that names a run, or opens one, is part of that run's
 * record. Any other event goes where its parent goes, and so on up; where that leads to no run, the events that hang
 * together are a record without a run, known by the event that they hang on.
 *
 * All is in lists of entries (run-entry.ts), of which there may be millions: objects and texts would take six times the
 * memory, and every collection of garbage would go through them.
 */
import {
  ENTRY_BYTES,
  entryFlags,
  entryOrganisation,
  FLAG,
  ID_BYTES,
  isNoId,
  setFlag,
  type RunEntry,
  writeEntry,
} from './run-entry.js';
import { EntryList } from './entry-list.js';
import { RunTable } from './run-table.js';

/**
 * The run that an event of the log names or opens: all zero when there is none, undefined when the log does not have the
 * event. Whoever answers may use what it returned again.
 */
export type RunOfEvent = (organisation: number, ids: Buffer, at: number) => Uint8Array | undefined;

/** Events that name no run and open none, and the parents that they state, in the same order. */
export class RunlessEvents {
  /** Under the ids of the events; what names a parent has FLAG.hasParent. */
  readonly events = new EntryList();
  /** Under the ids of the parents, or of the runs that these are of (parent-runs.ts). */
  readonly parents = new EntryList();

  /** @param ids holds the event's id at `at` and its parent's at `parentAt`, which is all zero when it names none. */
  add(ids: Buffer, at: number, parentAt: number, place: RunEntry): void {
    const flags = isNoId(ids, parentAt) ? place.flags : place.flags | FLAG.hasParent;
    const event = this.events.next();
    writeEntry(this.events.target, event, ids, at, { ...place, flags });
    const parent = this.parents.next();
    const { organisation } = place;
    writeEntry(this.parents.target, parent, ids, parentAt, {
      address: 0,
      size: 0,
      organisation,
      flags: 0,
    });
  }
}

const NONE = -1;
const UNSEEN = 0;
const ON_PATH = 1;
const PLACED = 2;

/** The records of all events that name no run. Takes time and memory by their number, however long their chains. */
export class Membership {
  /** In the order of the events, under the id of the record; FLAG.runless when that is no run. */
  readonly records: Buffer;
  readonly #events: Buffer;
  readonly #byId: RunTable;
  readonly #state: Uint8Array;

  /**
   * @param runless all such events, its own from now on: of one left out, it looks as if the log did not have it. Their
   *   order makes no difference.
   * @param runOf is asked about parents in whose place no run has been put.
   */
  constructor({ events, parents }: RunlessEvents, runOf: RunOfEvent) {
    this.#events = events.entries;
    this.#byId = new RunTable(this.#events);
    // An event has its parent there until it is placed.
    this.records = parents.entries;
    this.#state = new Uint8Array(this.#events.length / ENTRY_BYTES);
    for (let at = 0; at < this.records.length; at += ENTRY_BYTES) {
      if ((entryFlags(this.records, at) & FLAG.ofRun) !== 0) this.#state[at / ENTRY_BYTES] = PLACED;
    }
    for (let at = 0; at < this.#events.length; at += ENTRY_BYTES) {
      if (this.#state[at / ENTRY_BYTES] === UNSEEN) this.#place(at, runOf);
    }
  }

  /** @param source has an entry under the id of an event at `at`. @returns where its record is in `records`, or -1. */
  recordOf(source: Buffer, at: number): number {
    const event = this.#byId.find(source, at);
    return event < 0 ? NONE : this.#byId.first(event);
  }

  #place(start: number, runOf: RunOfEvent): void {
    // Every event between here and the first one whose record is known.
    const path: number[] = [];
    let next = start;
    for (; next !== NONE && this.#stateAt(next) === UNSEEN; next = this.#parentOf(next)) {
      this.#state[next / ENTRY_BYTES] = ON_PATH;
      path.push(next);
    }
    const last = path.at(-1) ?? start;
    if (next === NONE) this.#placeTop(last, runOf);
    else if (this.#stateAt(next) === PLACED) this.records.copyWithin(last, next, next + ENTRY_BYTES);
    // A circle hangs on nothing; its smallest id is the same from wherever one comes to it.
    else this.#placeAs(last, this.#smallest(path.slice(path.indexOf(next))));
    for (const at of path) {
      if (at !== last) this.records.copyWithin(at, last, last + ENTRY_BYTES);
      this.#state[at / ENTRY_BYTES] = PLACED;
    }
  }

  /** What hangs on none of these events is in the run of its parent, or else a record of its own. */
  #placeTop(at: number, runOf: RunOfEvent): void {
    const organisation = entryOrganisation(this.records, at);
    const run = this.#namesParent(at) ? runOf(organisation, this.records, at) : undefined;
    if (run === undefined || isNoId(run, 0)) this.#placeAs(at, at);
    else this.records.set(run.subarray(0, ID_BYTES), at);
  }

  /** In the record without a run that is known by an event. */
  #placeAs(at: number, event: number): void {
    this.#events.copy(this.records, at, event, event + ID_BYTES);
    setFlag(this.records, at, FLAG.runless);
  }

  /** Among these events; else -1. */
  #parentOf(at: number): number {
    return this.#namesParent(at) ? this.recordOf(this.records, at) : NONE;
  }

  #namesParent(at: number): boolean {
    return (entryFlags(this.#events, at) & FLAG.hasParent) !== 0;
  }

  #stateAt(at: number): number {
    return this.#state[at / ENTRY_BYTES] ?? PLACED;
  }

  #smallest(events: readonly number[]): number {
    const ids = this.#events;
    return events.reduce((a, b) => (ids.compare(ids, b, b + ID_BYTES, a, a + ID_BYTES) <= 0 ? a : b));
  }
}
