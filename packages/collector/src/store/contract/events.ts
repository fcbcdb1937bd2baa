/**
 * The contract of a store: what every driver promises of writing, and all that the rest of the collector knows of one.
 * How events are read follows below.
 *
 * The contract is semantic, not transactional. A caller hands over a batch and learns, for each event, one of
 * three outcomes; or that nothing of the batch was stored ({@link NotCommitted}); or that no one can know
 * ({@link CommitUnknown}), after which the store must be opened again before it answers again.
 */
import type { KeyObject } from 'node:crypto';
import type { Door, Envelope, EventKind, Profile } from '@clinical-events/protocol';
import type { Actions, Erasure } from '../../privacy/actions.js';
import type { NameCipher } from '../../privacy/name-cipher.js';
import { systemCode } from '../../system-code.js';

/**
 * An event that passed every check and asks to be stored: its envelope, which is all that the collector itself says
 * of it, and its payload. The views are only read during `append`.
 */
export interface Candidate extends Envelope {
  /** The salt, SALT_BYTES, and behind it the exact bytes that the sender wrote (after Content-Encoding is undone). */
  readonly salted: Uint8Array;
  /** SHA-256 of `salted`. */
  readonly commitment: Uint8Array;
  /** Of an entry that is copied from another log: its payload was destroyed there, and `salted` is as many zeros as a salt. */
  readonly isErased?: true;
  /** Written by the store: how long it took to hold the event against a stored one, in milliseconds. */
  comparedMs?: number;
}

/**
 * `accepted`: stored by this call. `duplicate`: the same organisation has stored the same event id with equal
 * JSON content before, durably; or of the same kind and both by the door `otlp`, whatever the content, because their id is
 * that of one span and the first words made of it stand. `conflict`: it has, with different content; the first one stands.
 * `erased`: it was stored, and its payload was destroyed since (privacy/actions.ts), so that no one can tell whether this
 * one says the same; nothing was stored for it now.
 * `unreadable`: the id seems to be stored, but that place cannot be read; nothing was stored for it now.
 */
export type Outcome = 'accepted' | 'duplicate' | 'conflict' | 'erased' | 'unreadable';

/** What happened to a stored event's payload since. */
export type PayloadState = 'plain' | 'encrypted' | 'erased';

/** An event, or an entry of the log's own, as it stands in the log. */
export interface StoredEntry {
  /** 1 for the first entry of a ledger, then counting up without a gap. */
  readonly sequence: number;
  /** A number from FIRST_ENTRY_KIND on for an entry of the log's own. */
  readonly kind: EventKind | number;
  readonly profile: Profile;
  readonly door: Door;
  readonly organisation: string;
  readonly keyId: string;
  readonly receivedAt: number;
  /** Lower-case text form (RFC 9562). */
  readonly eventId: string;
  /** Lower-case text form, or undefined when the event names no run and opens none. */
  readonly runId: string | undefined;
  /** Lower-case text form, or undefined when the event names no parent. */
  readonly parentId: string | undefined;
  readonly payloadState: PayloadState;
  // The views below are valid until the next event is asked for.
  /** The envelope as it was encoded when the event came (protocol, leaf.ts). */
  readonly envelope: Buffer;
  /** SHA-256 of salt and plain body, whatever has become of these since. */
  readonly commitment: Buffer;
  /** The salt and behind it the body when `payloadState` is `plain`. */
  readonly salted: Buffer;
  /** The exact body when `payloadState` is `plain`: `salted` without its salt. */
  readonly body: Buffer;
}

export interface StoredEvent extends StoredEntry {
  readonly kind: EventKind;
}

/** Where events are kept. */
export interface Store {
  /** How many batches may be on their way at a time. */
  readonly concurrency: number;
  /** Whether it can be used after {@link CommitUnknown}: what became of a batch shows when it is sent again. */
  readonly outlivesDoubt: boolean;
  /**
   * On return every `accepted` event is durable, and so is every event that a `duplicate` or `conflict` speaks of.
   * The outcomes stand in the order of the batch; once its events have sequences, these do too.
   * @throws {@link NotCommitted} nothing of the batch is stored, now or after a restart; the store can be used.
   * @throws {@link CommitUnknown} any part of the batch may be stored; the store must not be used again, unless it
   *   outlives doubt.
   */
  append(batch: readonly Candidate[]): Outcome[] | Promise<Outcome[]>;
  /**
   * To be called about once a second. On return what the store writes to is what it opened, as a look can show.
   * @throws {@link CommitUnknown} as `append` does; events stored since the look before may be gone.
   */
  look(): void;
  /**
   * To be called when a batch was not committed. On return the next one most likely is.
   * @throws {@link NotCommitted}, {@link CommitUnknown} as `append` does.
   */
  prove(): Promise<void>;
  /**
   * To be called at the start. On return a key of payloads can be made durable, as far as a write of its kind shows.
   * @throws {@link NotCommitted}
   */
  proveKeys(): Promise<void>;
  /** Leaves everything so that the next start is quick. The store must not be used afterwards. */
  close(): Promise<void>;
}

/** Why nothing can be stored, in one of these words: a promise to whoever reads `/readyz`. */
export type StorageReason =
  | 'keys_unwritable'
  | 'index_unwritable'
  | 'disk_full'
  | 'read_only'
  | 'permission_denied'
  | 'database_unavailable'
  | 'write_failed';

const REASON_OF_CODE: Readonly<Record<string, StorageReason>> = {
  ...{ ENOSPC: 'disk_full', EDQUOT: 'disk_full', EROFS: 'read_only' },
  ...{ EACCES: 'permission_denied', EPERM: 'permission_denied' },
};

/** Nothing of the batch was stored. `cause` says why (ENOSPC, for one). */
export class NotCommitted extends Error {
  override name = 'NotCommitted';
  readonly reason: StorageReason;

  constructor(message: string, { cause, reason }: ErrorOptions & { readonly reason?: StorageReason } = {}) {
    super(message, { cause });
    this.reason = reason ?? REASON_OF_CODE[systemCode(cause) ?? ''] ?? 'write_failed';
  }
}

/** No key of payloads can be made durable, so that no event may be. */
export function keysUnwritable(cause: unknown): NotCommitted {
  return new NotCommitted('the keys of payloads cannot be written', { cause, reason: 'keys_unwritable' });
}

/** The batch may be stored or not: a flush to the disk failed. */
export class CommitUnknown extends Error {
  override name = 'CommitUnknown';
}

/**
 * What was stored may be gone from the log, by another hand. The lock is held, so the directory is still this one's.
 */
export class LogChanged extends CommitUnknown {
  override name = 'LogChanged';
}

/** The log does not hold what was once written there. */
export class StoreDamaged extends Error {
  override name = 'StoreDamaged';
  /** @param place in the driver's words, for a person; the sequence that is due there, where one is. */
  constructor(
    readonly place: { readonly where: string; readonly sequence?: number },
    reason: string,
  ) {
    const due = place.sequence === undefined ? '' : `, where event ${place.sequence} is due`;
    super(`${reason} in ${place.where}${due}`);
  }
}

/*
 * Reading the log: the contract that every driver keeps, and all that readers of events know of one.
 *
 * Batches are asynchronous, and what is in them is not: at 300,000 events a second a promise for each would cost more
 * than the event. Between two batches the event loop has its turn.
 */

export const ID_BYTES = 16;

/** Where the driver finds an entry again: given out by it, given back to it, and of no meaning to others. */
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
  /** The tag of the bucket whose key it is encrypted by; undefined when it is plain or was erased from the file. */
  readonly bucket?: number | undefined;
  /** What its sender wrote; undefined when the payload is encrypted or erased. */
  body(): Buffer | undefined;
}

/** What the collector says of a stored event. Each is a string or a number: none is a view into a buffer. */
export type EventFacts = Pick<
  StoredEvent,
  | 'sequence'
  | 'kind'
  | 'profile'
  | 'door'
  | 'organisation'
  | 'keyId'
  | 'receivedAt'
  | 'eventId'
  | 'runId'
  | 'payloadState'
> & {
  /** By what the payload was erased, where that is known. */
  readonly erasure?: Erasure | undefined;
};

/** Events that were read again. */
export interface ReadEvents {
  /** @param index as in the places that were asked for. */
  facts(index: number): EventFacts;
  /** What its sender wrote; undefined when the payload is encrypted or erased. */
  body(index: number): string | undefined;
  /** Holds all bodies. */
  readonly source: Buffer;
  /** Where the body begins in it; -1 when the payload is encrypted or erased. */
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
  /** How derived files have to write names, by the newest key that is there now; undefined where they may write them as they are. */
  readonly names?: NameCipher | undefined;
  /** By an older key, while it is replaced; undefined where it is not here, or not any more. */
  olderNames?(id: string): NameCipher | undefined;
  /** The key of a legal hold's record; undefined where it is destroyed, or is not here. */
  holdKey?(action: string): KeyObject | undefined;
  /** The actions that are in the log by now; undefined where there are none in a log of this kind. */
  actions?(): Actions;
  /**
   * The tags of the buckets whose keys events are encrypted by; undefined for one that is plain. It counts as a reading.
   * @throws StoreDamaged where they are not what was passed.
   */
  buckets?(places: readonly Place[]): (number | undefined)[];
  /**
   * About how much there is to pass, in the unit of `Place.size`: for progress bars. A running collector adds to it.
   */
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

/** What a driver of a log in a database promises: readers that ask more have a copy of it. */
export type EntryLog = Pick<
  EventLog,
  'ledgerId' | 'extent' | 'actions' | 'entries' | 'end' | 'withId' | 'close'
>;

/** An entry as the tree needs it. Valid until the next entry is asked for. */
export interface CommittedEntry {
  readonly sequence: number;
  /** Writes the 32 bytes of the hash of its leaf (RFC 6962 section 2.1) into `target`. */
  hashLeaf(target: Buffer, at: number): void;
}

/** Told how a store fares that other processes write to as well. Times are in milliseconds. */
export interface SharedGauges {
  /** A batch of events was stored: from when it was sent until it was known to be durable. */
  committed(ms: number): void;
  /** Whether what was stored last is known to be replicated. Not called where it need not be. */
  replicated(isKnown: boolean): void;
  /**
   * Of all processes: how many batches have no place in the log yet, and the age of the oldest. `months` that come have
   * tables.
   */
  waits(batches: number, oldestMs: number, months: number): void;
  /** Committed batches cannot be given their places, and this is the age of the oldest; 0 when they can. */
  stalled?(oldestMs: number): void;
}

/** What has to be asked for where other processes write too. */
export interface SharedCommits {
  /** Another one each time that what is read from now on may come from another server. */
  readonly epoch: number;
  /**
   * Gives all that was committed its sequence. On return `entries` is up to date.
   * @returns false when another process is at it, which will have it signed.
   * @throws when it could not be done; it can be tried again.
   */
  sequence(): Promise<boolean>;
  /** On return `entries` is up to date. */
  look(): Promise<void>;
}

/** What a store has committed, as the sequencer reads it. */
export interface Committed {
  /** How many entries are durable and have their sequence. None of them is ever taken back. */
  readonly entries: number;
  /** Undefined where this process alone writes: then `entries` is always what there is. */
  readonly shared?: SharedCommits;
  /**
   * The entries from the cursor on up to the last that was durable when it began, in batches of a few milliseconds'
   * work; a batch is read to its end before the next is asked for.
   * @returns the cursor behind the last.
   * @throws {@link StoreDamaged} at the first place that does not hold what was written.
   */
  pass(from: Cursor): AsyncGenerator<Iterable<CommittedEntry>, Cursor>;
}
