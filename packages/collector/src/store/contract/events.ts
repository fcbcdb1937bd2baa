/**
 * The contract of a store: writing, then reading. The rest of the collector depends on nothing else of a
 * driver.
 *
 * The contract is semantic, not transactional. A caller passes a batch and gets an outcome for each event.
 * Otherwise nothing of the batch was stored ({@link NotCommitted}), or it is unknown what was stored ({@link
 * CommitUnknown}), and the store must be opened again.
 */
import type { KeyObject } from 'node:crypto';
import type { Door, Envelope, EventKind, Profile } from '@clinical-events/protocol';
import type { Actions, Erasure } from '../../privacy/actions.js';
import type { NameCipher } from '../../privacy/name-cipher.js';
import { systemCode } from '../../system-code.js';

/** A checked event to store: its envelope and its payload. The views are only read during `append`. */
export interface Candidate extends Envelope {
  /** The salt, SALT_BYTES, then the exact bytes of the sender (after Content-Encoding is undone). */
  readonly salted: Uint8Array;
  /** SHA-256 of `salted`. */
  readonly commitment: Uint8Array;
  /**
   * Set for an entry copied from another log whose payload was destroyed there; `salted` is then SALT_BYTES
   * zeros.
   */
  readonly isErased?: true;
  /** Set by the store: duration of the comparison with a stored event. */
  comparedMs?: number;
}

/**
 * `accepted`: stored by this call. `duplicate`: the same organisation has already stored the same event id
 * with equal JSON content, durably; or with the same kind by the door `otlp`, where the id identifies a span
 * and the first version counts. `conflict`: it has, with different content. `erased`: it has, but the
 * payload was destroyed later (privacy/actions.ts), so the contents cannot be compared. `unreadable`: the id
 * seems to be stored, but that entry cannot be read. Except for `accepted`, nothing is stored.
 */
export type Outcome = 'accepted' | 'duplicate' | 'conflict' | 'erased' | 'unreadable';

/** The state of the payload of a stored event. */
export type PayloadState = 'plain' | 'encrypted' | 'erased';

/** An event in the log, or one of the log's own entries. */
export interface StoredEntry {
  /** 1 for the first entry of a ledger, then consecutive. */
  readonly sequence: number;
  /** A number from FIRST_ENTRY_KIND on for the log's own entries. */
  readonly kind: EventKind | number;
  readonly profile: Profile;
  readonly door: Door;
  readonly organisation: string;
  readonly keyId: string;
  readonly receivedAt: number;
  /** Lower-case text form (RFC 9562). */
  readonly eventId: string;
  /** Lower-case text form; undefined if the event names no run and opens none. */
  readonly runId: string | undefined;
  /** Lower-case text form; undefined if the event names no parent. */
  readonly parentId: string | undefined;
  readonly payloadState: PayloadState;
  // The views below are valid until the next event is requested.
  /** The encoded envelope (protocol, leaf.ts). */
  readonly envelope: Buffer;
  /** SHA-256 of salt and plain body. */
  readonly commitment: Buffer;
  /** The salt, then the body, if `payloadState` is `plain`. */
  readonly salted: Buffer;
  /** The exact body, which is `salted` without its salt, if `payloadState` is `plain`. */
  readonly body: Buffer;
}

export interface StoredEvent extends StoredEntry {
  readonly kind: EventKind;
}

/** A store of events, for writing. */
export interface Store {
  /** Maximum number of concurrent batches. */
  readonly concurrency: number;
  /**
   * Whether the store can be used after {@link CommitUnknown}: a repeat of the batch then shows its outcomes.
   */
  readonly outlivesDoubt: boolean;
  /**
   * Stores a batch. On return every `accepted` event is durable, and so is the stored event that any other
   * outcome refers to.
   * @returns outcomes in the order of the batch; the sequences of its events are in this order too.
   * @throws {@link NotCommitted} if nothing of the batch is stored, now or after a restart; the store can be
   * used.
   * @throws {@link CommitUnknown} if parts of the batch may be stored; the store must not be used again
   *   unless it outlives doubt.
   */
  append(batch: readonly Candidate[]): Outcome[] | Promise<Outcome[]>;
  /**
   * Checks, about once a second, that the store still writes to the files that it opened.
   * @throws {@link CommitUnknown} as `append` does; events stored since the last check may be lost.
   */
  look(): void;
  /**
   * Tries to write after a batch was not committed. On return the next batch is likely to succeed.
   * @throws {@link NotCommitted}, {@link CommitUnknown} as `append` does.
   */
  prove(): Promise<void>;
  /**
   * Checks at a start, by a trial write, that payload keys can be made durable.
   * @throws {@link NotCommitted}
   */
  proveKeys(): Promise<void>;
  /** Closes the store, prepared for a quick start. It must not be used afterwards. */
  close(): Promise<void>;
}

/** Why nothing can be stored; shown by `/readyz`, where clients rely on these words. */
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

/** Thrown if nothing of the batch was stored. `cause` is the reason, such as ENOSPC. */
export class NotCommitted extends Error {
  override name = 'NotCommitted';
  readonly reason: StorageReason;

  constructor(message: string, { cause, reason }: ErrorOptions & { readonly reason?: StorageReason } = {}) {
    super(message, { cause });
    this.reason = reason ?? REASON_OF_CODE[systemCode(cause) ?? ''] ?? 'write_failed';
  }
}

/** The error if no event may be stored, because payload keys cannot be made durable. */
export function keysUnwritable(cause: unknown): NotCommitted {
  return new NotCommitted('the payload keys cannot be written', { cause, reason: 'keys_unwritable' });
}

/** Thrown if it is unknown whether the batch is stored, because a flush to the disk failed. */
export class CommitUnknown extends Error {
  override name = 'CommitUnknown';
}

/** Thrown if another process changed the log, although this one holds the lock; stored events may be lost. */
export class LogChanged extends CommitUnknown {
  override name = 'LogChanged';
}

/** Thrown if the log is damaged: stored bytes have changed or are missing. */
export class StoreDamaged extends Error {
  override name = 'StoreDamaged';
  /** @param place the location in the driver's words, and the sequence that is expected there, if known. */
  constructor(
    readonly place: { readonly where: string; readonly sequence?: number },
    reason: string,
  ) {
    const event = place.sequence === undefined ? '' : `, event ${place.sequence}`;
    super(`${place.where}${event}: ${reason}`);
  }
}

/*
 * Reading. Batches are asynchronous, their entries are not: at 300,000 events a second a promise for each
 * would cost more than the event. The event loop gets a turn between two batches.
 */

export const ID_BYTES = 16;

/** The address of an entry, opaque to all but the driver. */
export interface Place {
  /** Grows with the sequence and never changes. */
  readonly at: number;
  /** Approximate size to read. */
  readonly size: number;
}

/** A position to read from: the first entry with this sequence or a higher one. */
export interface Cursor {
  readonly sequence: number;
  /**
   * A hint: the `at` of an entry at or before the position, or 0. A wrong hint costs time but changes no
   * result.
   */
  readonly at: number;
}

export const BEGINNING: Cursor = { sequence: 1, at: 0 };

/** A cursor without a hint. */
export function cursorAt(sequence: number): Cursor {
  return { sequence, at: 0 };
}

/** The cursor after an entry. */
export function cursorBehind({ sequence, at }: { readonly sequence: number; readonly at: number }): Cursor {
  return { sequence: sequence + 1, at };
}

/** An entry in a pass. The object is reused for the next entry. */
export interface PassedEntry extends Place {
  readonly sequence: number;
  /** Whether it is one of the log's own entries; then only sequence and time are meaningful. */
  readonly isOwn: boolean;
  /** @throws RangeError for one of the log's own entries. */
  readonly kind: EventKind;
  readonly organisation: string;
  readonly receivedAt: number;
  /** Contains the ids, ID_BYTES each. */
  readonly source: Buffer;
  readonly eventIdAt: number;
  /** All zero if the event names no run and opens none. */
  readonly runIdAt: number;
  /** All zero if the event names no parent. */
  readonly parentIdAt: number;
  /** The tag of the bucket of its key; undefined if it is plain or was erased from the file. */
  readonly bucket?: number | undefined;
  /** The body as its sender wrote it; undefined if the payload is encrypted or erased. */
  body(): Buffer | undefined;
}

/** The facts that the collector recorded about a stored event, without views into buffers. */
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
  /** The action that erased the payload, if known. */
  readonly erasure?: Erasure | undefined;
};

/** Events read by place. */
export interface ReadEvents {
  /** @param index the index of a requested place. */
  facts(index: number): EventFacts;
  /** The body as its sender wrote it; undefined if the payload is encrypted or erased. */
  body(index: number): string | undefined;
  /** Contains all bodies. */
  readonly source: Buffer;
  /** Start of the body in `source`; -1 if the payload is encrypted or erased. */
  bodyFrom(index: number): number;
  /** End of the body in `source`. */
  bodyTo(index: number): number;
}

/** The place of an event that was found by its id. */
export interface FoundEvent extends Place {
  readonly sequence: number;
  /** ID_BYTES; all zero if it names no run and opens none. */
  readonly runId: Buffer;
}

/** The conditions of a scan; an event must meet all of them. */
export interface EventFilter {
  readonly kinds?: ReadonlySet<EventKind>;
  readonly organisation?: string;
  /** Lower-case text form. */
  readonly runId?: string;
  /** Lower-case text form; several organisations may have an event with this id. */
  readonly eventId?: string;
  /** Lower bound of `receivedAt`, inclusive, in milliseconds since 1970 UTC. */
  readonly since?: number;
  /** Upper bound, exclusive. */
  readonly until?: number;
}

/** An id to look up, in every organisation or in one. */
export interface SoughtId {
  /** Lower-case text form. */
  readonly eventId: string;
  /** The organisation of the event; by default any. */
  readonly organisation?: string | undefined;
  /**
   * The organisations to try first if none is given. If one of them has the event, events of other
   * organisations are not found; otherwise the whole log is read.
   */
  readonly known: readonly string[];
}

export interface FoundEntries {
  /** At most one entry of each organisation, by sequence, copied. */
  readonly entries: readonly StoredEntry[];
  /** The sequence after the last readable entry. If more were stored, the end of the log is damaged. */
  readonly nextSequence: number;
}

/**
 * The log, for reading, even while a collector runs. Every entry is checked when it is read, and only durable
 * entries are shown, because a collector may take back a batch that it failed to flush.
 */
export interface EventLog {
  /** Id of the ledger, in hexadecimal; empty while nothing is stored. */
  readonly ledgerId: string;
  /**
   * The cipher of the newest names key, for derived files; undefined if names may be written in plain text.
   */
  readonly names?: NameCipher | undefined;
  /** The cipher of an older names key during its replacement; undefined if it is not available. */
  olderNames?(id: string): NameCipher | undefined;
  /** The key of a legal hold's record; undefined if it is destroyed or not available. */
  holdKey?(action: string): KeyObject | undefined;
  /** The current actions; undefined if a log of this kind has none. */
  actions?(): Actions;
  /**
   * The tags of the buckets of the events' keys; undefined for a plain event. It counts as a read (see
   * `read`).
   * @throws StoreDamaged if the entries have changed since the pass.
   */
  buckets?(places: readonly Place[]): (number | undefined)[];
  /** Approximate size of the log in the unit of `Place.size`, for progress bars. It may grow. */
  readonly extent: number;
  /**
   * Yields all entries from a cursor on, in order, in batches. A batch is valid until the next one is
   * requested.
   * @param options.through the last wanted sequence, which must be durable; by default everything durable at
   * the start.
   * @returns the cursor after the last entry.
   * @throws StoreDamaged after the last valid entry, at the first damaged one.
   */
  pass(
    from?: Cursor,
    options?: { readonly through?: number },
  ): AsyncGenerator<Iterable<PassedEntry>, Cursor, undefined>;
  /**
   * Like `pass`, but yields decoded events that match a filter. Each is valid until the next one is
   * requested.
   */
  scan(filter: EventFilter, from?: Cursor): AsyncGenerator<Iterable<StoredEvent>, Cursor, undefined>;
  /** Like `scan`, for all entries, including the log's own. */
  entries(from?: Cursor): AsyncGenerator<Iterable<StoredEntry>, Cursor, undefined>;
  /** The cursor after the last readable entry. */
  end(): Promise<Cursor>;
  /**
   * Reads events by place, in any order. The result holds all of them in memory; it is valid until the second
   * next read.
   * @throws StoreDamaged if the entries have changed since the pass.
   */
  read(places: readonly Place[]): Promise<ReadEvents>;
  /**
   * Finds the event of an organisation by its id. The first call passes the entries that the driver's index
   * does not cover, later calls only newer ones.
   * @param id ID_BYTES.
   * @param before entries from this sequence on need not be searched.
   */
  find(organisation: string, id: Uint8Array, before?: number): Promise<FoundEvent | undefined>;
  /** Finds entries by id, including the log's own. */
  withId(sought: SoughtId): Promise<FoundEntries>;
  /** Closes the log, which must not be used afterwards. */
  close(): Promise<void>;
}

/** The part of {@link EventLog} that a log in a database offers; other readers use a mirror. */
export type EntryLog = Pick<
  EventLog,
  'ledgerId' | 'extent' | 'actions' | 'entries' | 'end' | 'withId' | 'close'
>;

/** An entry for the tree. Valid until the next entry is requested. */
export interface CommittedEntry {
  readonly sequence: number;
  /** Writes the 32 bytes of the hash of its leaf (RFC 6962 section 2.1) into `target`. */
  hashLeaf(target: Buffer, at: number): void;
}

/** Receives figures of a store that several processes write to. Times are in milliseconds. */
export interface SharedGauges {
  /**
   * Called when a batch of events was stored; `ms` is the time from sending until it was known to be durable.
   */
  committed(ms: number): void;
  /** Whether the last batch is known to be replicated. Not called if replication is not required. */
  replicated(isKnown: boolean): void;
  /**
   * The number of batches of all processes without a position in the log, the age of the oldest, and the
   * number of future months that have tables.
   */
  waits(batches: number, oldestMs: number, months: number): void;
  /** The age of the oldest committed batch if batches cannot be sequenced; 0 if they can. */
  stalled?(oldestMs: number): void;
}

/** Sequencing in a store that several processes write to. */
export interface SharedCommits {
  /** Changes whenever later reads may come from another server. */
  readonly epoch: number;
  /**
   * Assigns sequences to all committed batches. On return `entries` is up to date.
   * @returns false if another process is doing it and will sign the result.
   * @throws if it failed; it may be repeated.
   */
  sequence(): Promise<boolean>;
  /** On return `entries` is up to date. */
  look(): Promise<void>;
}

/** The committed entries of a store, for the sequencer. */
export interface Committed {
  /** Number of entries that are durable and have a sequence. They are never taken back. */
  readonly entries: number;
  /** Undefined if only this process writes: then `entries` is always current. */
  readonly shared?: SharedCommits;
  /**
   * Yields the entries from a cursor to the last one that is durable at the start, in batches of a few
   * milliseconds of work. A batch must be consumed before the next one is requested.
   * @returns the cursor after the last entry.
   * @throws {@link StoreDamaged} at the first damaged entry.
   */
  pass(from: Cursor): AsyncGenerator<Iterable<CommittedEntry>, Cursor>;
}
