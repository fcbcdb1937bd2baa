/**
 * What the caller says, read once: its objects may have getters, which throw, or say something else the next time. No
 * call throws for them: what is wrong is a fault, with which the event is refused.
 */
import type { EventDetails } from './event.js';
import { EventInvalid } from './refusals.js';

export interface AllDetails extends EventDetails {
  readonly runId?: string | undefined;
  readonly content?: unknown;
}

/** For each event: nothing is made but what is returned. */
export function readDetails(details: unknown): { said: AllDetails; fault: EventInvalid | undefined } {
  try {
    const { parentEventId, timestamp, latencyMs, metadata, more, runId, content } = fieldsOf(
      details,
    ) as AllDetails;
    return {
      said: { parentEventId, timestamp, latencyMs, metadata, more, runId, content },
      fault: undefined,
    };
  } catch {
    return { said: {}, fault: unreadable('what is said beside the event') };
  }
}

/** Not with the error that was thrown: it may name values. */
export function unreadable(what: string): EventInvalid {
  return new EventInvalid('not_json', `${what} is no object that can be read`);
}

/** @throws TypeError for what has no fields. */
export function fieldsOf(value: unknown): object {
  if (!isFields(value)) throw new TypeError('not an object');
  return value;
}

/** With the URI of its content, unless it is nothing that could have one: then it is refused as it is. */
export function withUri(fields: unknown, name: string, uri: string | undefined): unknown {
  if (uri === undefined || !(fields === undefined || isFields(fields))) return fields;
  return { ...fields, [name]: uri };
}

export function isFields(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
