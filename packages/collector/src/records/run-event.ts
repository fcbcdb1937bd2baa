/** An event as a record is made of it: what the collector says of it, and what the sender said. */
import type { BaseEvent } from '@clinical-events/protocol';
import type { EventFacts } from '../store/event-places.js';
import type { StoredEvent } from '../store/store.js';
import { parseExact } from './raw-json.js';

export interface RunEvent {
  readonly event: EventFacts;
  /** The body with exact numbers (raw-json.ts); undefined when the payload is encrypted or retired. */
  readonly body: BaseEvent | undefined;
}

/** Reads a stored event. Nothing of the result is a view, so it outlives the scan that yielded the event. */
export function runEventOf(stored: StoredEvent): RunEvent {
  const { sequence, kind, profile, organisation, keyId, receivedAt, eventId, runId, payloadState } = stored;
  return runEvent(
    { sequence, kind, profile, organisation, keyId, receivedAt, eventId, runId, payloadState },
    payloadState === 'plain' ? stored.body.toString() : undefined,
  );
}

/** @param text what its sender wrote; undefined when the payload is encrypted or retired. */
export function runEvent(event: EventFacts, text: string | undefined): RunEvent {
  // The schema of its kind has accepted every body that is stored.
  return { event, body: text === undefined ? undefined : (parseExact(text) as BaseEvent) };
}
