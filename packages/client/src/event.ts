/** Builds events: ids, times, origin, and the exact bytes. */
import { validateEvent } from '@clinical-events/protocol/validate';
import { randomFillSync } from 'node:crypto';
import os from 'node:os';
import {
  type EventKind,
  type Issue,
  type Profile,
  PROTOCOL_VERSION,
  type SystemMetadata,
} from '@clinical-events/protocol';
import { jsonCopy, membersOf, NoJson } from './json-value.js';

/** The largest `--max-body-bytes` of a collector. */
export const MAX_EVENT_BYTES = 64 << 20;
/** The collector's default limit of nesting (docs/SPEC.md, R-312). */
const MAX_LEVELS = 64;
const INT32_MAX = 2 ** 31 - 1;

/** Details of an event in addition to its payload. */
export interface EventDetails {
  /** An earlier event that this one continues. */
  readonly parentEventId?: string | undefined;
  /** Time of occurrence, by default now. A string must be RFC 3339 with an offset. */
  readonly timestamp?: Date | string | undefined;
  /**
   * Duration of the reported activity in milliseconds, rounded; NaN and negative values are omitted. Default
   * for an output: the time since its run began.
   */
  readonly latencyMs?: number | undefined;
  /** Additional fields of system_metadata. */
  readonly metadata?: SystemMetadata | undefined;
  /** Additional fields of the event. */
  readonly more?: Readonly<Record<string, unknown>> | undefined;
}

export interface EventSource {
  readonly hostname?: string | undefined;
  readonly app_name?: string | undefined;
  readonly proc_id?: string | undefined;
}

export interface UnfinishedEvent {
  readonly kind: EventKind;
  readonly eventId: string;
  readonly runId: string | undefined;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly details: EventDetails;
  /** Fields that the client adds to system_metadata. */
  readonly marks: Readonly<Record<string, unknown>>;
}

export class EventMaker {
  readonly #ids = new UuidSource();
  readonly #source: SystemMetadata;
  readonly #profile: Profile;
  readonly #maxBytes: number;

  constructor(source: EventSource, profile: Profile, maxBytes: number = MAX_EVENT_BYTES) {
    const { hostname = os.hostname(), app_name, proc_id = String(process.pid) } = source;
    this.#source = { hostname, ...(app_name !== undefined && { app_name }), proc_id };
    this.#profile = profile;
    this.#maxBytes = maxBytes;
  }

  newId(): string {
    return this.#ids.next();
  }

  /**
   * The exact bytes to send.
   * @throws EventInvalid if a collector with this profile would refuse them.
   */
  finish({ kind, eventId, runId, payload, details, marks }: UnfinishedEvent): Uint8Array {
    const { parentEventId, timestamp, latencyMs, metadata, more } = details;
    const latency = wholeLatency(latencyMs);
    const sent = asJson(this.#maxBytes, () => ({
      ...membersOf('', more),
      event_id: eventId,
      run_id: asGiven(runId),
      parent_event_id: asGiven(parentEventId),
      timestamp: timestamp ?? new Date(),
      protocol_version: PROTOCOL_VERSION,
      system_metadata: {
        ...this.#source,
        ...(latency !== undefined && { latency_ms: latency }),
        ...membersOf('system_metadata', metadata),
        ...marks,
      },
      ...payload,
    }));
    const body = Buffer.from(JSON.stringify(sent));
    if (body.length > this.#maxBytes) {
      throw new EventInvalid('body_too_large', `the event has more than ${this.#maxBytes} bytes`);
    }
    const issues = validateEvent(kind, this.#profile, sent);
    if (issues) {
      const named = issues.map(({ pointer, message }) => `${pointer || 'the event'} ${message}`);
      throw new EventInvalid('validation_failed', `the event is not valid: ${named.join('; ')}`, issues);
    }
    return body;
  }
}

/**
 * Prevents toJSON and the removal of half a surrogate pair from turning an invalid id into a valid or missing
 * one.
 */
function asGiven(id: unknown): unknown {
  if (typeof id === 'string') return id.toWellFormed();
  return typeof id === 'object' && id !== null ? {} : id;
}

/**
 * @throws EventInvalid for a value that JSON cannot represent, that nests too deeply, or that is too large.
 */
function asJson(bytes: number, event: () => object): unknown {
  try {
    return jsonCopy(event(), { bytes, levels: MAX_LEVELS });
  } catch (error) {
    // The error of a getter is not reported, because it may contain values.
    const isOurs = error instanceof NoJson;
    const { code, pointer, message } = isOurs ? error : new NoJson('not_json', '', 'cannot be read');
    const issues = [{ pointer, rule: ruleOf(code), message }];
    throw new EventInvalid(code, `the event is not valid: ${pointer || 'the event'} ${message}`, issues);
  }
}

/**
 * An int32. An invalid duration must not prevent the capture of an event; values that are not numbers are
 * refused.
 */
function wholeLatency(latencyMs: unknown): unknown {
  if (typeof latencyMs !== 'number') return latencyMs;
  return latencyMs >= 0 ? Math.min(INT32_MAX, Math.round(latencyMs)) : undefined;
}

/** If the clock goes back further than this, ids follow it, and one id does not exceed its predecessor. */
const LONGEST_STEP_BACK_MS = 10_000;
const COUNTER_END = 0x1000;
const POOL_BYTES = 4000;
const BYTES_AN_ID = 10;

/**
 * UUIDs of version 7 (RFC 9562 section 5.7) that strictly increase, even within a millisecond and when the
 * clock is set back a little: rand_a is a counter of 12 bits (section 6.2, method 1). The other 62 bits are
 * random.
 */
export class UuidSource {
  readonly #now: () => number;
  readonly #pool = Buffer.alloc(POOL_BYTES);
  #at = POOL_BYTES;
  #milliseconds = -Infinity;
  #counter = 0;

  /** @param now Unix time in milliseconds. */
  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** The next id, in lower case. */
  next(): string {
    if (this.#at === POOL_BYTES) {
      randomFillSync(this.#pool);
      this.#at = 0;
    }
    const at = this.#at;
    this.#at += BYTES_AN_ID;
    const now = this.#now();
    if (now > this.#milliseconds || now < this.#milliseconds - LONGEST_STEP_BACK_MS) {
      this.#milliseconds = now;
      this.#startCounting(at);
    } else if (++this.#counter === COUNTER_END) {
      this.#milliseconds++;
      this.#startCounting(at);
    }
    // The variant, 10xx.
    this.#pool[at] = 0x80 | ((this.#pool[at] as number) & 0x3f);
    const time = this.#milliseconds.toString(16).padStart(12, '0');
    const counter = (0x7000 | this.#counter).toString(16);
    const random = this.#pool.toString('hex', at, at + 8);
    return `${time.slice(0, 8)}-${time.slice(8)}-${counter}-${random.slice(0, 4)}-${random.slice(4)}`;
  }

  /** Starts the counter at a random number in its lower half. */
  #startCounting(at: number): void {
    this.#counter = this.#pool.readUInt16BE(at + 8) & 0x7ff;
  }
}

/* Errors of captures. Their messages contain no value of the event, which may be patient data. */

/** A collector would refuse the event. */
export class EventInvalid extends Error {
  override name = 'EventInvalid';
  /**
   * A code of the collector; `not_json` for a value that JSON cannot represent, `unknown_name` for an unknown
   * argument.
   */
  readonly code: 'validation_failed' | 'body_too_large' | 'nesting_too_deep' | 'not_json' | 'unknown_name';
  /**
   * At least one. With `validation_failed`, the issues of the collector; otherwise one, whose `pointer` may
   * be empty.
   */
  readonly issues: readonly Issue[];

  constructor(code: EventInvalid['code'], message: string, issues?: readonly Issue[]) {
    super(message);
    this.code = code;
    this.issues = issues ?? [{ pointer: '', rule: ruleOf(code), message }];
  }
}

/** The rule of an issue that does not come from a schema. */
function ruleOf(code: EventInvalid['code']): string {
  return code === 'not_json' ? 'json' : code;
}

/** The client is closed. */
export class ClientClosed extends Error {
  override name = 'ClientClosed';
}

/** The content of the event could not be stored, so the event was not captured. */
export class ContentNotStored extends Error {
  override name = 'ContentNotStored';
}
