/**
 * What the grouping of runs by temporary files asks of the log, without promises. Goes away with `records/run-groups.ts`;
 * everybody else reads by `EventLog` (event-log.ts).
 */
import type { EventLog, FoundEvent, PassedEntry, Place, ReadEvents } from './event-log.js';

/** Events that are looked for. */
export interface AskedEvents {
  readonly count: number;
  /** Holds the id of each. */
  readonly ids: Buffer;
  at(number: number): number;
  organisation(number: number): string;
}

/** By places; `to` is infinite for the last part, and else the `from` of the next. */
export interface LogPart {
  readonly from: number;
  readonly to: number;
}

export interface EventPlaces extends Pick<EventLog, 'extent' | 'read' | 'close'> {
  /** Parts that make up the log, at most so many. What {@link findPassed} has to learn from a pass is in the last. */
  parts(most: number): LogPart[];
  /** Passes every event of a part once, by default of all. @returns the sequence behind the last entry. */
  passPart(part?: LogPart): Generator<PassedEntry, number>;
  readNow(places: readonly Place[]): ReadEvents;
  /** Finds an event among those passed; valid until the next. @param ids holds the event's id at `at`. */
  findPassed(organisation: string, ids: Buffer, at: number): FoundEvent | undefined;
  /** In which order to find events so that it takes the least time: their numbers. */
  findingOrder(asked: AskedEvents): Uint32Array;
}
