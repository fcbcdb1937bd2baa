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
  /** Under the ids of the parents. */
  readonly parents = new EntryList();

  /** @param eventId holds the id at `at`. @param parentId undefined when it names none. */
  add(eventId: Buffer, at: number, parentId: Buffer | undefined, place: RunEntry): void {
    const flags = parentId === undefined ? place.flags : place.flags | FLAG.hasParent;
    const event = this.events.next();
    writeEntry(this.events.target, event, eventId, at, { ...place, flags });
    const parent = this.parents.next();
    const { organisation } = place;
    writeEntry(this.parents.target, parent, parentId ?? NO_ID, 0, {
      address: 0,
      size: 0,
      organisation,
      flags: 0,
    });
  }
}

function* asTheyCome(entries: Buffer): Generator<number> {
  for (let at = 0; at < entries.length; at += ENTRY_BYTES) yield at;
}

const NO_ID = Buffer.alloc(ID_BYTES);
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
   * @param inOrder where the entries are of a list, in the order in which it is asked for the runs of these ids.
   */
  constructor(
    { events, parents }: RunlessEvents,
    runOf: RunOfEvent,
    inOrder: (entries: Buffer) => Iterable<number> = asTheyCome,
  ) {
    this.#events = events.entries;
    this.#byId = new RunTable(this.#events);
    // An event has its parent there until it is placed.
    this.records = parents.entries;
    this.#state = new Uint8Array(this.#events.length / ENTRY_BYTES);
    for (const at of inOrder(this.records)) {
      if (this.#namesParent(at) && this.#parentOf(at) === NONE) this.#placeTop(at, runOf);
    }
    for (const at of asTheyCome(this.#events)) if (this.#stateAt(at) === UNSEEN) this.#place(at);
  }

  /** @param source has an entry under the id of an event at `at`. @returns where its record is in `records`, or -1. */
  recordOf(source: Buffer, at: number): number {
    const event = this.#byId.find(source, at);
    return event < 0 ? NONE : this.#byId.first(event);
  }

  #place(start: number): void {
    // Every event between here and the first one whose record is known.
    const path: number[] = [];
    let next = start;
    for (; next !== NONE && this.#stateAt(next) === UNSEEN; next = this.#parentOf(next)) {
      this.#state[next / ENTRY_BYTES] = ON_PATH;
      path.push(next);
    }
    const last = path.at(-1) ?? start;
    if (next === NONE) this.#placeAs(last, last);
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
    const run = runOf(entryOrganisation(this.records, at), this.records, at);
    this.#state[at / ENTRY_BYTES] = PLACED;
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
