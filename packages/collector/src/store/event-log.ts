/**
 * Reading the log: the contract that every driver keeps, and all that readers of events know of one.
 *
 * Batches are asynchronous, and what is in them is not: at 300,000 events a second a promise for each would cost more
 * than the event. Between two batches the event loop has its turn.
 */
import type { EventKind } from '@clinical-events/protocol';
import type { StoredEntry, StoredEvent } from './store.js';

export const ID_BYTES = 16;

/** Where the driver finds an entry again: given out by it, given back to it, and of no meaning to anybody else. */
export interface Place {
  /** Grows with the sequence, and stays the same as long as the ledger lives. */
  readonly at: number;
  /** About how much it takes to read. */
  readonly size: number;
}

/** Where a reading goes on: from the first entry of this sequence or a higher one. */
export interface Cursor {
  readonly sequence: number;
  /** A hint: the `at` of an entry that does not lie behind it, or 0. A wrong one costs time and changes no answer. */
  readonly at: number;
}

export const BEGINNING: Cursor = { sequence: 1, at: 0 };

/** For a reader that knows a sequence alone. */
export function cursorAt(sequence: number): Cursor {
  return { sequence, at: 0 };
}

/** Behind an entry that was passed. */
export function cursorBehind({ sequence, at }: { readonly sequence: number; readonly at: number }): Cursor {
  return { sequence: sequence + 1, at };
}

/** An entry that a pass has come to. The same object for each, valid until the next is asked for. */
export interface PassedEntry extends Place {
  readonly sequence: number;
  /** An entry of the log's own: of it only the sequence and the time are of use. */
  readonly isOwn: boolean;
  /** @throws RangeError for an entry of the log's own. */
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

/** Where an event is that was looked for. */
export interface FoundEvent extends Place {
  readonly sequence: number;
  /** ID_BYTES; all zero when it names no run and opens none. */
  readonly runId: Buffer;
}

/** Which events a scan yields; every condition given must hold. */
export interface EventFilter {
  readonly kinds?: ReadonlySet<EventKind>;
  readonly organisation?: string;
  /** Lower-case text form. */
  readonly runId?: string;
  /** Lower-case text form; each organisation may have an event with this id. */
  readonly eventId?: string;
  /** Inclusive, milliseconds since 1970 UTC, against `receivedAt`. */
  readonly since?: number;
  /** Exclusive. */
  readonly until?: number;
}

/** An id that is looked for in every organisation, or in one. */
export interface SoughtId {
  /** Lower-case text form. */
  readonly eventId: string;
  /** Only the event of this organisation. */
  readonly organisation?: string | undefined;
  /**
   * The organisations that are looked in first when none is asked for. When none of them has the event, the whole log
   * is read; when one has, an event of an organisation that is not among them is not found.
   */
  readonly known: readonly string[];
}

export interface FoundEntries {
  /** One of each organisation that has one, by their sequence and in memory of their own. */
  readonly entries: readonly StoredEntry[];
  /** Behind the last entry that can be read. If more were stored once, the end of the log is damaged. */
  readonly nextSequence: number;
}

/**
 * Every entry is checked as it is read, and is on stable storage before it is shown: a running collector may take back
 * a batch that it failed to flush. All of it may be done beside a running collector.
 */
export interface EventLog {
  /** Of the ledger, in hexadecimal; empty while nothing is stored. */
  readonly ledgerId: string;
  /** About how much there is to pass, in the unit of `Place.size`: for progress bars. A running collector adds to it. */
  readonly extent: number;
  /**
   * Everything that has a sequence, from the cursor on and in its order, in batches that are valid until the next is
   * asked for.
   * @param options.through the last sequence that is wanted, and that the caller knows to be durable. Without it, all
   * that was durable when the pass began.
   * @returns the cursor behind the last one; where the log ends before `from`, behind its end.
   * @throws StoreDamaged behind the last whole entry, at the first place that does not hold what was written.
   */
  pass(
    from?: Cursor,
    options?: { readonly through?: number },
  ): AsyncGenerator<Iterable<PassedEntry>, Cursor, undefined>;
  /** The same, for events that meet a filter, as they stand in the log; valid until the next event is asked for. */
  scan(filter: EventFilter, from?: Cursor): AsyncGenerator<Iterable<StoredEvent>, Cursor, undefined>;
  /** The same for all entries, the log's own among them. */
  entries(from?: Cursor): AsyncGenerator<Iterable<StoredEntry>, Cursor, undefined>;
  /** The cursor behind the last entry that can be read. */
  end(): Promise<Cursor>;
  /**
   * Reads events again, in any order. Neighbours are read with one call. All are in memory together, until two more
   * have been read.
   * @throws StoreDamaged where they are not what was passed.
   */
  read(places: readonly Place[]): Promise<ReadEvents>;
  /**
   * The event of an organisation by its id, anywhere in the log. What the driver's index does not cover is passed the
   * first time, and only what is newer the next time.
   * @param id ID_BYTES.
   * @param before what has this sequence or a higher one may be found or not: it spares looking for what is newer.
   */
  find(organisation: string, id: Uint8Array, before?: number): Promise<FoundEvent | undefined>;
  /** Entries by their id, the log's own among them. */
  withId(sought: SoughtId): Promise<FoundEntries>;
  /** Nothing may be asked of it afterwards. */
  close(): Promise<void>;
}

/** What an entry's leaf is made of. Valid until the next entry is asked for. */
export type CommittedEntry = Pick<StoredEntry, 'sequence' | 'envelope' | 'commitment'>;

/** What a store has committed, as the sequencer reads it. */
export interface Committed {
  /** How many entries are durable. None of them is ever taken back. */
  readonly entries: number;
  /**
   * The entries from the cursor on up to the last that was durable when it began, in batches of a few milliseconds'
   * work; a batch is read to its end before the next is asked for.
   * @returns the cursor behind the last.
   * @throws {@link StoreDamaged} at the first place that does not hold what was written.
   */
  pass(from: Cursor): AsyncGenerator<Iterable<CommittedEntry>, Cursor>;
}
