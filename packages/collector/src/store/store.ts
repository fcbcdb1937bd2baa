/**
 * The contract of a store: what every driver promises of writing, and all that the rest of the collector knows of one.
 * How events are read is in event-log.ts.
 *
 * The contract is semantic, not transactional. A caller hands over a batch and learns, for each event, one of
 * three outcomes; or that nothing of the batch was stored ({@link NotCommitted}); or that nobody can know
 * ({@link CommitUnknown}), after which the store must be opened anew before it answers anybody.
 */
import type { Envelope, EventKind, Profile } from '@clinical-events/protocol';

/**
 * An event that passed every check and asks to be stored: its envelope, which is all that the collector itself says
 * of it, and its payload. The views are only read during `append`.
 */
export interface Candidate extends Envelope {
  /** The salt, SALT_BYTES, and behind it the exact bytes that the sender wrote (after Content-Encoding is undone). */
  readonly salted: Uint8Array;
  /** SHA-256 of `salted`. */
  readonly commitment: Uint8Array;
  /** Written by the store: how long it took to hold the event against a stored one, in milliseconds. */
  comparedMs?: number;
}

/**
 * `accepted`: stored by this call. `duplicate`: the same organisation has stored the same event id with equal
 * JSON content before, durably. `conflict`: it has, with different content; the first one stands.
 * `unreadable`: the id seems to be stored, but that place cannot be read; nothing was stored for it now.
 */
export type Outcome = 'accepted' | 'duplicate' | 'conflict' | 'unreadable';

/** What happened to a stored event's payload since. */
export type PayloadState = 'plain' | 'encrypted' | 'retired';

/** An event, or an entry of the log's own, as it stands in the log. */
export interface StoredEntry {
  /** 1 for the first entry of a ledger, then counting up without a gap. */
  readonly sequence: number;
  /** A number from FIRST_ENTRY_KIND on for an entry of the log's own. */
  readonly kind: EventKind | number;
  readonly profile: Profile;
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
  /**
   * On return every `accepted` event is durable, and so is every event that a `duplicate` or `conflict` speaks of.
   * The outcomes stand in the order of the batch; sequences are given in that order too.
   * @throws {@link NotCommitted} nothing of the batch is stored, now or after a restart; the store can be used.
   * @throws {@link CommitUnknown} any part of the batch may be stored; the store must not be used again.
   */
  append(batch: readonly Candidate[]): Outcome[] | Promise<Outcome[]>;
  /**
   * To be called about once a second. On return what the store writes to is what it opened, as far as a look can tell.
   * @throws {@link CommitUnknown} as `append` does; events stored since the look before may be gone.
   */
  look(): void;
  /**
   * To be called when a batch was not committed. On return the next one most likely is.
   * @throws {@link NotCommitted}, {@link CommitUnknown} as `append` does.
   */
  prove(): Promise<void>;
  /** Leaves everything so that the next start is quick. The store must not be used afterwards. */
  close(): Promise<void>;
}

/** Nothing of the batch was stored. `cause` says why (ENOSPC, for one). */
export class NotCommitted extends Error {
  override name = 'NotCommitted';
}

/** The batch may be stored or not: a flush to the disk failed. */
export class CommitUnknown extends Error {
  override name = 'CommitUnknown';
}

/** What was stored may be gone from the log, by another hand. The lock is held, so the directory is still this one's. */
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
