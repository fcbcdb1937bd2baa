/** Makes events: their ids and times, where they come from, and their bytes, which are fixed once. */
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

/** The largest `--max-body-bytes` that a collector can be given. What more it refuses, it alone knows. */
export const MAX_EVENT_BYTES = 64 << 20;
/** What the default collector takes (docs/SPEC.md, R-312). */
const MAX_LEVELS = 64;
const INT32_MAX = 2 ** 31 - 1;

/** What the caller says of an event beside its payload. */
export interface EventDetails {
  /** The earlier event that this one expands on. */
  readonly parentEventId?: string | undefined;
  /** When it occurred, if that was not now. A text is taken as it is: RFC 3339 with an offset. */
  readonly timestamp?: Date | string | undefined;
  /**
   * How long the reported activity took, in milliseconds; rounded. What is no time (NaN, less than 0) is left out.
   * An output's is measured from the start of its run when it is not given.
   */
  readonly latencyMs?: number | undefined;
  /** More fields of system_metadata. */
  readonly metadata?: SystemMetadata | undefined;
  /** More fields of the event itself. */
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
  /** What the client itself adds to system_metadata. */
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
   * The exact bytes that will be sent.
   * @throws EventInvalid when a collector of the profile would refuse them.
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

/** An id that is no UUID as it stands must not become one, or go missing, by toJSON or by a half that is cut off. */
function asGiven(id: unknown): unknown {
  if (typeof id === 'string') return id.toWellFormed();
  return typeof id === 'object' && id !== null ? {} : id;
}

/** @throws EventInvalid for what is no JSON, nests too deep or is certainly too large. */
function asJson(bytes: number, event: () => object): unknown {
  try {
    return jsonCopy(event(), { bytes, levels: MAX_LEVELS });
  } catch (error) {
    // Not with the error of a getter: it may name values.
    const isOurs = error instanceof NoJson;
    const { code, pointer, message } = isOurs ? error : new NoJson('not_json', '', 'cannot be read');
    const issues = [{ pointer, rule: ruleOf(code), message }];
    throw new EventInvalid(code, `the event is not valid: ${pointer || 'the event'} ${message}`, issues);
  }
}

/** As an int32. An imprecise or absurd time must not cost the record of what happened; what is no number is refused. */
function wholeLatency(latencyMs: unknown): unknown {
  if (typeof latencyMs !== 'number') return latencyMs;
  return latencyMs >= 0 ? Math.min(INT32_MAX, Math.round(latencyMs)) : undefined;
}

/*
 * Ids that sort by the time they were made: UUID version 7 (RFC 9562 section 5.7). Within one source they rise without
 * an exception, also within a millisecond and when the clock is set back a little (section 6.2, method 1: 12 bits of
 * counter in rand_a). The other 62 bits are random, so that two sources do not meet.
 */

/** A clock that is further behind than this has been put right: ids follow it, and once do not rise. */
const LONGEST_STEP_BACK_MS = 10_000;
const COUNTER_END = 0x1000;
const POOL_BYTES = 4000;
const BYTES_AN_ID = 10;

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

  /** In the textual form of section 4, in lower case. */
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

  /** From a random number in the lower half, so that there is room above it. */
  #startCounting(at: number): void {
    this.#counter = this.#pool.readUInt16BE(at + 8) & 0x7ff;
  }
}

/* Why an event was not captured. None of these repeats a value of the event, which may be patient data. */

/** The event is not one that a collector would take. */
export class EventInvalid extends Error {
  override name = 'EventInvalid';
  /**
   * As the collector would have answered; `not_json` for a value that JSON does not have, `unknown_name` for what a call
   * was told under a name that it does not have.
   */
  readonly code: 'validation_failed' | 'body_too_large' | 'nesting_too_deep' | 'not_json' | 'unknown_name';
  /**
   * At least one. With `validation_failed`: the faults, as the collector would have named them. Otherwise one, whose
   * `pointer` is the place in the event of what is at fault, or empty for the event as a whole.
   */
  readonly issues: readonly Issue[];

  constructor(code: EventInvalid['code'], message: string, issues?: readonly Issue[]) {
    super(message);
    this.code = code;
    this.issues = issues ?? [{ pointer: '', rule: ruleOf(code), message }];
  }
}

/** The rule of an issue that no schema has. */
function ruleOf(code: EventInvalid['code']): string {
  return code === 'not_json' ? 'json' : code;
}

/** The client has been closed. */
export class ClientClosed extends Error {
  override name = 'ClientClosed';
}

/** What the event refers to could not be stored, so the event was not captured either. */
export class ContentNotStored extends Error {
  override name = 'ContentNotStored';
}
