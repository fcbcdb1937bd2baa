/**
 * The spool as the rest of the client sees it: captured events wait in it, in order, until the collector has
 * stored them. It knows nothing of HTTP or runs. docs/CLIENT_SPEC.md describes its files.
 */
import type { EventKind } from '@clinical-events/protocol';
import type { SpoolFiles } from './files.js';

/**
 * When an append resolves. `fsync`: the event is on stable storage. `os`: the operating system has it, so it
 * survives the process but not a power loss. `memory`: immediately, and it is lost when the process ends.
 */
export type Durability = 'fsync' | 'os' | 'memory';

/** Damage found while reading events. */
export interface Damage {
  /** Name of the segment. */
  readonly segment: string;
  /** Bytes that are not a frame; undefined if the segment only lacks events. */
  readonly lost: { readonly offset: number; readonly bytes: number } | undefined;
  /** Number of events whose frames are missing. */
  readonly missing: number;
  /** File in `damaged/` with the bytes or the number; undefined for zeros, and if it could not be written. */
  readonly kept: string | undefined;
}

/** Default limit of a spool on disk. */
export const MAX_BYTES = 8 * 2 ** 30;

export type OnDamage = (damage: Damage) => void;

/** Receives problems that no call can report, without event contents. Must not throw. */
export type OnTrouble = (what: string, error: unknown) => void;

export interface SpoolOptions {
  /** Not needed with `memory`. */
  readonly directory: string | undefined;
  readonly durability: Durability;
  /** 32 bytes. With a key, events are encrypted with AES-256-GCM. */
  readonly key?: Uint8Array;
  /** Size of a full segment. Default 16 MiB, or a quarter of `maxBytes` if that is less. */
  readonly segmentBytes?: number;
  /** An append that would exceed this size is refused. Default 8 GiB; with `memory` 64 MiB. */
  readonly maxBytes?: number;
  /** Replaced in tests. */
  readonly files?: SpoolFiles;
  /**
   * How long `owner` must be unchanged before adoption when the lock does not show whether the holder is
   * alive. Default 3 minutes; less in tests.
   */
  readonly patienceMs?: number;
  readonly onTrouble?: OnTrouble;
  /** Called for damage in addition to `onTrouble`. */
  readonly onDamage?: OnDamage;
  /** Once aborted, the spool reads no further events from disk. */
  readonly reading?: AbortSignal;
}

/** Place of an event. Within a segment, later events have higher offsets. */
interface Position {
  readonly segment: string;
  readonly offset: number;
}

/** An event taken out of the spool and not done. */
export interface SpooledEvent {
  readonly position: Position;
  readonly kind: EventKind;
  /** The exact bytes captured. */
  readonly body: Uint8Array;
  /** Time of the append, Unix time in milliseconds, by the clock of the host. */
  readonly capturedAt: number;
}

/** The answer by which the collector refused an event permanently. */
export interface Refusal {
  readonly status: number;
  readonly code?: string;
  readonly message?: string;
  readonly details?: unknown;
  /** Id of the request in the collector's log. */
  readonly request_id?: string;
  /** RFC 3339. */
  readonly at: string;
}

export interface SpoolState {
  /** Events that are not done, including those taken. */
  readonly waiting: number;
  /** Their size in bytes, with frames. */
  readonly waitingBytes: number;
  /** Events put into quarantine since the spool was opened. */
  readonly quarantined: number;
  /** RFC 3339; no waiting event was captured earlier. Undefined when none waits. */
  readonly oldest?: string;
  /** Interrupted writes of other processes. Their events were never acknowledged. */
  readonly cut: number;
  /** Parts under observation because their lock does not show whether their holder is alive. */
  readonly watched: number;
}

export interface Spool {
  /**
   * Resolves once the event is as durable as the mode says. The body is copied before this returns. Events
   * written together share one promise.
   * @throws SpoolFull, SpoolClosed, SpoolUnwritable; then the event is not in the spool, unless `uncertain`
   * is set.
   */
  append(kind: EventKind, body: Uint8Array): Promise<'durable'>;
  /**
   * Waits for durable events that are not taken, and returns them in order: at most `count` and about
   * `bytes`, and at least one of any size. One call at a time.
   * @returns an empty array once the spool is closed or the signal is aborted; then nothing is taken.
   */
  take(count: number, bytes: number, signal?: AbortSignal): Promise<SpooledEvent[]>;
  /**
   * The collector has stored the event. A mark is written within a second; after a crash before that, the
   * event is sent again, and the collector recognises the duplicate.
   */
  done(event: SpooledEvent): void;
  /** The event was not sent: `take` returns it again. */
  giveBack(event: SpooledEvent): void;
  /**
   * On return the event and its refusal are in quarantine, as durable as the mode says, and the event is
   * done.
   * @throws SpoolFull, SpoolUnwritable; then nothing has changed.
   */
  quarantine(event: SpooledEvent, refusal: Refusal): Promise<void>;
  readonly state: SpoolState;
  /** On return all earlier appends are durable or refused, and the marks of all done events are on disk. */
  flush(): Promise<void>;
  /** Flushes, and leaves waiting events to the next spool on the directory. Later appends are refused. */
  close(): Promise<void>;
}

/** The disk is full, or the event would exceed `maxBytes`. */
export class SpoolFull extends Error {
  override name = 'SpoolFull';
}

/** The spool is closed. */
export class SpoolClosed extends Error {
  override name = 'SpoolClosed';
}

/** The disk or the directory cannot be used. */
export class SpoolUnwritable extends Error {
  override name = 'SpoolUnwritable';
  /** The event could be neither made durable nor removed, so it may be in the spool. */
  readonly uncertain: boolean;

  constructor(message: string, options: ErrorOptions & { uncertain?: boolean } = {}) {
    super(message, options);
    this.uncertain = options.uncertain ?? false;
  }
}

/** The given key, or the lack of one, does not open the events in the directory. */
export class SpoolKeyWrong extends Error {
  override name = 'SpoolKeyWrong';
}
