/**
 * The events of a log by the record that they are part of, however large the log is.
 *
 * 1. One pass over the log, of which threads can take a part each (log-pass.ts), notes each event in 32 bytes
 *    (run-entry.ts), in one of some temporary files, by the hash of its run; so a run is in the files of one number.
 *    Events that name no run are kept aside, and noted once the pass has ended and their parents can be found
 *    (membership.ts).
 * 2. Each number is read whole, by one of these threads, its entries put together by run, and the runs that are asked for written to
 *    another file in the order of their first event. What is nested in what is noted on the way.
 * 3. Those files are merged: the runs come in the order of their first event in the log. So who reads their bodies
 *    goes through the log once more, mostly forward, and only late events are fetched from far ahead.
 *
 * Memory: for each thread the entries of one number (a quarter of a gigabyte of log is some 10 MB of them) and the
 * buffers of its files (16 MB), and what has no bound but its number: some 150 bytes for each event that names no run and
 * 200 for each run that is nested in another. None of it is objects, which every collection of garbage would go through.
 * The events of one run are in memory together, because a record is. The temporary files take at most 64 bytes an event,
 * and hold ids and no payload.
 */
import type { Place } from '../store/event-log.js';
import type { EventPlaces } from '../store/event-places.js';
import { GroupMaker, type GroupingOptions } from './group-maker.js';
import type { RunSelection } from './log-pass.js';
import type { EventRecords } from './event-records.js';
import { Nesting, UNLINKED, type RunLinks } from './nesting.js';
import { ENTRY_BYTES, entryFlags, entryId, entryOrganisation, FLAG, idBytes } from './run-entry.js';
import { MergedRuns, RunList, runsIn } from './sorted-runs.js';

export type { GroupingOptions, RunSelection };

/** Where the events of one record are. */
export interface RunPlaces {
  /** Where there is an entry of the record. */
  readonly entries: Buffer;
  readonly at: number;
  /** By address, at least one. */
  readonly places: readonly Place[];
}

export class RunGroups {
  /** The sequence behind the last event that was passed. */
  readonly nextSequence: number;
  /** How many records there are among those asked for. */
  readonly records: number;
  /** How many events they have, and how many bytes these take in the log. */
  readonly events: number;
  readonly bytes: number;
  readonly #sorted: readonly string[];
  readonly #bufferBytes: number;
  readonly #organisations: readonly string[];
  readonly #eventRecords: EventRecords;
  readonly #nesting: Nesting;

  private constructor(made: GroupMaker, eventRecords: EventRecords) {
    this.nextSequence = made.nextSequence;
    this.records = made.records;
    this.events = made.events;
    this.bytes = made.bytes;
    this.#sorted = made.sorted;
    this.#bufferBytes = made.bufferBytes;
    this.#organisations = made.organisations;
    this.#eventRecords = eventRecords;
    this.#nesting = new Nesting(made.nested);
  }

  /** @throws the signal's reason once it is aborted, at the latest after 50 milliseconds. */
  static async of(log: EventPlaces, selection: RunSelection, options: GroupingOptions): Promise<RunGroups> {
    const maker = new GroupMaker(log, selection, options);
    await maker.pass();
    const eventRecords = maker.placeRunless();
    await maker.sort(eventRecords);
    return new RunGroups(maker, eventRecords);
  }

  /** The records asked for, by the address of their first event. This or {@link lists} can be asked for once. */
  *runs(): Generator<RunPlaces> {
    for (const { entries } of this.lists(1024, 1 << 20)) {
      for (const { at, places } of runsIn(entries)) yield { entries, at, places };
    }
  }

  /**
   * The records asked for, in the same order, so many to a list.
   * @param logBytes a list ends with the run with which its events have so many bytes in the log.
   */
  *lists(mostRuns: number, logBytes: number): Generator<RunList> {
    const merged = new MergedRuns(this.#sorted, this.#bufferBytes);
    let list = new RunList();
    let events = 0;
    while (merged.take(list)) {
      if (list.runs < mostRuns && list.logBytes < logBytes) continue;
      events += list.count;
      yield list;
      list = new RunList();
    }
    if (events + list.count !== this.events)
      throw new Error('temporary files are shorter than what was written');
    if (list.runs > 0) yield list;
  }

  /** Of the runs in a list those that others are nested in, or that are nested in a circle, by their number in it. */
  linkedIn({ entries }: RunList): Linked[] {
    const linked: Linked[] = [];
    let run = -1;
    for (let at = 0; at < entries.length; at += ENTRY_BYTES) {
      if ((entryFlags(entries, at) & FLAG.first) === 0) continue;
      run++;
      const children = this.#nesting.childrenOf(entries, at);
      const cycle = this.#nesting.cycleOf(entries, at);
      if (children.length > 0 || cycle.length > 0) linked.push([run, children, cycle]);
    }
    return linked;
  }

  /** What the record has to know of the rest of the log. */
  linksOf(run: RunPlaces | undefined): RunLinks {
    if (run === undefined) return UNLINKED;
    const { entries, at } = run;
    const organisation = entryOrganisation(entries, at);
    return {
      parentRunOf: (eventId) => this.#runOf(organisation, eventId),
      children: this.#nesting.childrenOf(entries, at),
      cycle: this.#nesting.cycleOf(entries, at),
    };
  }

  /** The run of an event; null when it is of none, undefined when the log does not have it. */
  runOf(organisation: string, eventId: string): string | null | undefined {
    return this.#runOf(this.#organisations.indexOf(organisation), eventId);
  }

  #runOf(organisation: number, eventId: string): string | null | undefined {
    const record = this.#eventRecords.of(organisation, idBytes(eventId));
    if (record === undefined) return undefined;
    return (entryFlags(record, 0) & FLAG.runless) === 0 ? entryId(record, 0) : null;
  }
}

/** The number of a run, and what links it. */
export type Linked = readonly [run: number, children: RunLinks['children'], cycle: RunLinks['cycle']];
