/** An event as a record is made of it: what the collector says of it, and what the sender said. */
import type { BaseEvent } from '@clinical-events/protocol';
import type { StoredEvent } from '../store/store.js';
import { parseExact } from './raw-json.js';

/** What the collector says of a stored event. Each is a string or a number: none is a view into a buffer. */
type EventFacts = Pick<
  StoredEvent,
  | 'sequence'
  | 'kind'
  | 'profile'
  | 'organisation'
  | 'keyId'
  | 'receivedAt'
  | 'eventId'
  | 'runId'
  | 'payloadState'
>;

export interface RunEvent {
  readonly event: EventFacts;
  /** The body with exact numbers (raw-json.ts); undefined when the payload is encrypted or retired. */
  readonly body: BaseEvent | undefined;
}

/** Reads a stored event. Nothing of the result is a view, so it outlives the scan that yielded the event. */
export function runEventOf(stored: StoredEvent): RunEvent {
  const { sequence, kind, profile, organisation, keyId, receivedAt, eventId, runId, payloadState } = stored;
  return {
    event: { sequence, kind, profile, organisation, keyId, receivedAt, eventId, runId, payloadState },
    // The schema of its kind has accepted every body that is stored.
    body: payloadState === 'plain' ? (parseExact(stored.body.toString()) as BaseEvent) : undefined,
  };
}
