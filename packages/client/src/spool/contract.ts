/**
 * What the rest of the client may know of the spool: captured events wait in it, in order, until the collector has
 * them. The spool knows nothing of HTTP or of runs. How it lies on the disk is in docs/CLIENT_SPEC.md.
 */
import type { EventKind } from '@clinical-events/protocol';
import type { SpoolFiles } from './files.js';

/**
 * When an append resolves: with `fsync` once the event is on stable storage; with `os` once the operating system has
 * it, so that it outlives this process but not a power loss; with `memory` at once, and it is lost when the process
 * ends, however that happens.
 */
export type Durability = 'fsync' | 'os' | 'memory';

/** What was found damaged when events were read. */
export interface Damage {
  /** The name of the segment. */
  readonly segment: string;
  /** Bytes that are no event, from this offset on; undefined when events are missing of which nothing is left. */
  readonly lost: { readonly offset: number; readonly bytes: number } | undefined;
  /** How many events are missing: see FrameCount. */
  readonly missing: number;
  /** Where the bytes are kept, or the number is noted; undefined for zeros, and for what could not be kept. */
  readonly kept: string | undefined;
}

export type OnDamage = (damage: Damage) => void;

export interface SpoolOptions {
  /** May be left undefined with `memory`, which never touches the disk. */
  readonly directory: string | undefined;
  readonly durability: Durability;
  /** 32 bytes; given, all that is written of an event is sealed by AES-256-GCM. */
  readonly key?: Uint8Array;
  /** When a segment is full, in bytes. 16 MiB, or a quarter of `maxBytes` if that is less. */
  readonly segmentBytes?: number;
  /** An append that would take the spool beyond so many bytes is refused. 8 GiB; with `memory` 64 MiB. */
  readonly maxBytes?: number;
  /** The file layer; tests put another one here. */
  readonly files?: SpoolFiles;
  /** How long a part is watched whose holder cannot be asked, before it is adopted; for tests. 3 minutes. */
  readonly patienceMs?: number;
  /** Told of all that went wrong and that no call could report, each time. Never given anything of an event. */
  readonly onTrouble?: OnTrouble;
  /** Told of damage as it is found, beside `onTrouble`. */
  readonly onDamage?: OnDamage;
  /** Once aborted, the spool reads no further, and gives out what it was given back at most. */
  readonly reading?: AbortSignal;
}

/** Where an event stands. Opaque; within one segment, later events have higher offsets. */
interface Position {
  readonly segment: string;
  readonly offset: number;
}

/** An event that was taken out of the spool and is not done. */
export interface SpooledEvent {
  readonly position: Position;
  readonly kind: EventKind;
  /** The exact bytes captured. */
  readonly body: Uint8Array;
  /** When it was appended, Unix time in milliseconds, by the clock of the host. */
  readonly capturedAt: number;
}

/** Why the collector will never take an event. */
export interface Refusal {
  readonly status: number;
  readonly code?: string;
  readonly message?: string;
  readonly details?: unknown;
  /** By which the collector's log names the request. */
  readonly request_id?: string;
  /** RFC 3339. */
  readonly at: string;
}

export interface SpoolState {
  /** Events that are not done, those taken among them. */
  readonly waiting: number;
  /** What they take, in bytes, with their frames. */
  readonly waitingBytes: number;
  /** Events that this spool has put into quarantine since it was opened. */
  readonly quarantined: number;
  /** RFC 3339; no event that waits was captured before. Undefined when none waits. */
  readonly oldest?: string;
  /** Writes that were cut off before they were acknowledged, in what others have left. */
  readonly cut: number;
  /** Parts whose holder cannot be asked, and that show no sign of life as yet: adopted when they have shown none for long. */
  readonly watched: number;
}

export interface Spool {
  /**
   * Resolves once the event is durable as the mode says. What it costs the caller before it returns is one copy. Events
   * that are written together get the same promise.
   * @throws SpoolFull, SpoolClosed, SpoolUnwritable; then the event is not in the spool, unless `uncertain` says so.
   */
  append(kind: EventKind, body: Uint8Array): Promise<'durable'>;
  /**
   * The next events that are durable and no one has taken, in order, and those that were given back: at most `count` and
   * about `bytes`, and at least one whatever its size. Waits until there is one.
   * @returns an empty array once the spool is closed or the signal aborted; nothing is lost by either.
   */
  take(count: number, bytes: number, signal?: AbortSignal): Promise<SpooledEvent[]>;
  /**
   * The collector has it: it is never given out again once this has been noted, which happens within a second. After a
   * crash before that it is, and the collector knows it for a duplicate.
   */
  done(event: SpooledEvent): void;
  /** It was not sent after all: `take` gives it out again. */
  giveBack(event: SpooledEvent): void;
  /**
   * On return the event stands in the quarantine with its reason, durable as the mode says, and is done.
   * @throws SpoolFull, SpoolUnwritable; then it is as if nothing had been called.
   */
  quarantine(event: SpooledEvent, refusal: Refusal): Promise<void>;
  readonly state: SpoolState;
  /** On return all that was appended before has been made durable or refused, and all that is done is noted. */
  flush(): Promise<void>;
  /** Flushes, and leaves what waits to anyone who opens the directory next. Later appends are refused. */
  close(): Promise<void>;
}

/** There is no room for the event, on the disk or below `maxBytes`. */
export class SpoolFull extends Error {
  override name = 'SpoolFull';
}

/** The spool has been closed. */
export class SpoolClosed extends Error {
  override name = 'SpoolClosed';
}

/** The disk or the directory does not do what the spool needs. */
export class SpoolUnwritable extends Error {
  override name = 'SpoolUnwritable';
  /** True when the event may be in the spool all the same: it could be neither made durable nor taken back. */
  readonly uncertain: boolean;

  constructor(message: string, options: ErrorOptions & { uncertain?: boolean } = {}) {
    super(message, options);
    this.uncertain = options.uncertain ?? false;
  }
}

/** The directory holds events that the given key, or none, does not open. */
export class SpoolKeyWrong extends Error {
  override name = 'SpoolKeyWrong';
}

/** Told of what went wrong and that no call could report. Must not throw. */
export type OnTrouble = (what: string, error: unknown) => void;
