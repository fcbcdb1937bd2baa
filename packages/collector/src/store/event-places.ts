/**
 * Where events stand in the log, and how they are found and read there again: for readers that go through the log
 * once, note in a few bytes what they need of each event, and come back for the bodies.
 */
import type { EventKind } from '@clinical-events/protocol';
import type { StoredEvent } from './store.js';

/** Bytes of the log. A place stays the same as long as the ledger lives. */
export interface EventPlace {
  readonly address: number;
  readonly size: number;
}

/** What the collector says of a stored event. Each is a string or a number: none is a view into a buffer. */
export type EventFacts = Pick<
  StoredEvent,
  | 'sequence'
  | 'kind'
  | 'profile'
  | 'organisation'
  | 'keyId'
  | 'receivedAt'
  | 'eventId'
  | 'runId'
  | 'payloadState'
>;

/** Events that were read again. */
export interface ReadEvents {
  /** @param index as in the places that were asked for. */
  facts(index: number): EventFacts;
  /** What its sender wrote; undefined when the payload is encrypted or retired. */
  body(index: number): string | undefined;
  /** Holds all bodies. */
  readonly source: Buffer;
  /** Where the body begins in it; -1 when the payload is encrypted or retired. */
  bodyFrom(index: number): number;
  /** Behind the body. */
  bodyTo(index: number): number;
}

/** An event that a pass has come to. The same object for each, valid until the next is asked for. */
export interface PassedEvent extends EventPlace {
  readonly sequence: number;
  readonly kind: EventKind;
  readonly organisation: string;
  readonly receivedAt: number;
  /** Holds the ids, ID_BYTES each. */
  readonly source: Buffer;
  readonly eventIdAt: number;
  /** All zero when the event names no run and opens none. */
  readonly runIdAt: number;
  /** All zero when the event names no parent. */
  readonly parentIdAt: number;
  /** What its sender wrote; undefined when the payload is encrypted or retired. */
  body(): Buffer | undefined;
}

/** What a follower of the log has come to. */
export interface FollowedEvent extends PassedEvent {
  /** An entry of the log's own: of it only the sequence and the time are of use. */
  readonly isOwn: boolean;
}

export const ID_BYTES = 16;

/** Where an event is that was looked for. */
export interface FoundEvent extends EventPlace {
  /** ID_BYTES, valid until another is looked for; all zero when it names no run and opens none. */
  readonly runId: Buffer;
}

/** Events that are looked for. */
export interface AskedEvents {
  readonly count: number;
  /** Holds the id of each. */
  readonly ids: Buffer;
  at(number: number): number;
  organisation(number: number): string;
}

/** By addresses; `to` is infinite for the last part, and else the `from` of the next. */
export interface LogPart {
  readonly from: number;
  readonly to: number;
}

export interface EventPlaces {
  /** How much there is to pass, about: a running collector adds to it. */
  readonly bytes: number;
  /**
   * Parts that make up the log, at most so many, about as large as each other. All but the last one can be passed by
   * somebody else: what {@link find} has to learn from a pass is in the last.
   */
  parts(most: number): LogPart[];
  /**
   * Passes every event of a part once, by default of all, in the order of their sequences, each checked against its
   * checksum; none of the log's own entries.
   * @returns the sequence behind the last one.
   * @throws StoreDamaged at the first place that does not hold what was written.
   */
  pass(part?: LogPart): Generator<PassedEvent, number>;
  /**
   * Reads events again, in any order. Neighbours are read with one call. All are in memory at
   * once. Valid until two more have been read.
   * @throws StoreDamaged where they are not what was passed.
   */
  read(places: readonly EventPlace[]): ReadEvents;
  /**
   * Finds an event among those passed. Ask only after a pass has ended.
   * @param ids holds the event's id at `at`.
   */
  find(organisation: string, ids: Buffer, at: number): FoundEvent | undefined;
  /** In which order to {@link find} events so that it takes the least time: their numbers. */
  findingOrder(asked: AskedEvents): Uint32Array;
  /** On return all that a pass has shown is on stable storage: a batch may have been on its way there. */
  flush(): void;
  close(): Promise<void>;
}
