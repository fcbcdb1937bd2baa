/**
 * The order of a record's events: by the sender's timestamp as an instant, then by kind (what was shown comes after the
 * start, where a clock tells whole seconds), then by event id. When they arrived does not count, so the same events make
 * the same record.
 */
import { EVENT_KINDS } from '@clinical-events/protocol';
import { compareInstants, instantOf, readInstant, type Instant } from './instant.js';
import type { EventBody } from './event-body.js';
import type { RunEvent } from './run-event.js';

export interface TimedEvent<Body extends EventBody = EventBody> extends RunEvent<Body> {
  /** By the sender's clock; for a payload that cannot be read, when it was received. */
  readonly at: Instant;
  /** The parent in lower case; null when it names none, or cannot be read. */
  readonly parentId: string | null;
}

/** @returns the events, each once, in canonical order. */
export function inCanonicalOrder<Body extends EventBody>(
  events: readonly RunEvent<Body>[],
): TimedEvent<Body>[] {
  const ordered = events.map(timed);
  // Most runs are stored in their order, and then sorting would be the larger part of the work.
  return ordered.every((event, i) => i === 0 || compare(ordered[i - 1] ?? event, event) <= 0)
    ? ordered
    : ordered.sort(compare);
}

function timed<Body extends EventBody>({ event, body }: RunEvent<Body>): TimedEvent<Body> {
  const at = body === undefined ? instantOf(event.receivedAt) : readInstant(body.timestamp);
  return { event, body, at, parentId: body?.parent_event_id?.toLowerCase() ?? null };
}

function compare(a: TimedEvent, b: TimedEvent): number {
  const order =
    compareInstants(a.at, b.at) || EVENT_KINDS.indexOf(a.event.kind) - EVENT_KINDS.indexOf(b.event.kind);
  if (order !== 0) return order;
  if (a.event.eventId === b.event.eventId) return 0;
  return a.event.eventId < b.event.eventId ? -1 : 1;
}
