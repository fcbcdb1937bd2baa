/** An event as a record is made of it: what the collector says of it, and what the sender said. */
import type { BaseEvent } from '@clinical-events/protocol';
import type { EventFacts, ReadEvents } from '../store/event-log.js';
import type { StoredEvent } from '../store/store.js';
import type { EventBody } from './event-body.js';
import { parseExact } from './raw-json.js';

export interface RunEvent<Body extends EventBody = BaseEvent> {
  readonly event: EventFacts;
  /** Undefined when the payload is encrypted or retired. */
  readonly body: Body | undefined;
}

/** How events become what a record is made of. */
export interface EventReader<Body extends EventBody> {
  /** Begins a batch. The events of the one before stay valid until the next begins. */
  begin(read: ReadEvents): void;
  /** @param index as in the places that were asked for. */
  event(index: number): RunEvent<Body>;
}

/** Reads events as objects, with exact numbers (raw-json.ts). */
export class ParsingReader implements EventReader<BaseEvent> {
  #read: ReadEvents | undefined;

  begin(read: ReadEvents): void {
    this.#read = read;
  }

  event(index: number): RunEvent {
    if (this.#read === undefined) throw new TypeError('nothing was read');
    return runEvent(this.#read.facts(index), this.#read.body(index));
  }
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
