/** Makes events: their ids and times, where they come from, and their bytes, which are fixed once. */
import os from 'node:os';
import {
  PROTOCOL_VERSION,
  validateEvent,
  type EventKind,
  type Profile,
  type SystemMetadata,
} from '@clinical-events/protocol';
import { nestsDeeper } from './nesting.js';
import { EventInvalid } from './refusals.js';
import { UuidSource } from './uuid.js';

/** What the default collector takes (docs/SPEC.md, R-312). */
const MAX_EVENT_BYTES = 1 << 20;
const MAX_DEPTH = 64;
const INT32_MAX = 2 ** 31 - 1;

/** What the caller says of an event beside its payload. */
export interface EventDetails {
  /** The earlier event that this one expands on. */
  readonly parentEventId?: string | undefined;
  /** When it occurred, if that was not now. A text is taken as it is: RFC 3339 with an offset. */
  readonly timestamp?: Date | string | undefined;
  /** How long the reported activity took. An output's is measured from the start of its run when it is not given. */
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

  constructor(source: EventSource, profile: Profile) {
    const { hostname = os.hostname(), app_name, proc_id = String(process.pid) } = source;
    this.#source = { hostname, ...(app_name !== undefined && { app_name }), proc_id };
    this.#profile = profile;
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
    let text: string;
    try {
      text = JSON.stringify({
        ...more,
        event_id: eventId,
        run_id: runId,
        parent_event_id: parentEventId,
        timestamp: timestamp ?? new Date(),
        protocol_version: PROTOCOL_VERSION,
        system_metadata: {
          ...this.#source,
          ...(latencyMs !== undefined && { latency_ms: latencyMs }),
          ...metadata,
          ...marks,
        },
        ...payload,
      });
    } catch {
      // The error may name values: a toJSON of the caller's may have thrown it.
      throw new EventInvalid('not_json', 'the event has a cycle, a BigInt, or a toJSON that throws');
    }
    const body = Buffer.from(text);
    if (body.length > MAX_EVENT_BYTES) {
      throw new EventInvalid('body_too_large', `the event has more than ${MAX_EVENT_BYTES} bytes`);
    }
    // What is checked is what will be sent, after every toJSON.
    const sent: unknown = JSON.parse(text);
    if (nestsDeeper(sent, MAX_DEPTH)) {
      throw new EventInvalid('nesting_too_deep', `the event nests more than ${MAX_DEPTH} levels deep`);
    }
    const issues = validateEvent(kind, this.#profile, sent);
    if (issues) {
      const named = issues.map(({ pointer, message }) => `${pointer || 'the event'} ${message}`);
      throw new EventInvalid('validation_failed', `the event is not valid: ${named.join('; ')}`, issues);
    }
    return body;
  }
}

/** Whole milliseconds since a moment of performance.now(), as an int32. */
export function latencySince(startedAt: number): number {
  return Math.min(INT32_MAX, Math.max(0, Math.round(performance.now() - startedAt)));
}
