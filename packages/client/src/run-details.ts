/**
 * What the caller says, read once: its objects may have getters, which throw, or say something else the next time. No
 * call throws for them: what is wrong is a fault, with which the event is refused.
 */
import type { EventKind } from '@clinical-events/protocol';
import type { EventDetails } from './event.js';
import { unknownName } from './known-names.js';
import { EventInvalid } from './refusals.js';

export interface AllDetails extends EventDetails {
  readonly runId?: string | undefined;
  readonly content?: unknown;
}

const OF_EVENT = ['parentEventId', 'timestamp', 'latencyMs', 'metadata', 'more'];
const WITH_CONTENT = [...OF_EVENT, 'content'];

/** What the details of an event may say, by its kind. */
const DETAIL_NAMES: Readonly<Record<EventKind, readonly string[]>> = {
  'inference-start': [...WITH_CONTENT, 'runId'],
  'internal-artifact': WITH_CONTENT,
  'human-output': WITH_CONTENT,
  outcome: WITH_CONTENT,
  'user-feedback': OF_EVENT,
};

/** For each event: nothing is made but what is returned. */
export function readDetails(
  kind: EventKind,
  details: unknown,
): { said: AllDetails; fault: EventInvalid | undefined } {
  try {
    const given = fieldsOf(details) as AllDetails;
    const { parentEventId, timestamp, latencyMs, metadata, more, runId, content } = given;
    return {
      said: { parentEventId, timestamp, latencyMs, metadata, more, runId, content },
      fault: slip(`the details of ${kind}`, given, DETAIL_NAMES[kind]),
    };
  } catch {
    return { said: {}, fault: unreadable('what is said beside the event') };
  }
}

/** The fault of saying something under a name that nobody reads. */
export function slip(what: string, fields: object, known: readonly string[]): EventInvalid | undefined {
  const sentence = unknownName(what, fields, known);
  return sentence === undefined ? undefined : new EventInvalid('unknown_name', sentence);
}

/** Not with the error that was thrown: it may name values. */
export function unreadable(what: string): EventInvalid {
  return new EventInvalid('not_json', `${what} is not an object that can be read`);
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
