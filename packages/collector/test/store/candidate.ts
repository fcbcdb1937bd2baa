/** Events for the tests of stores. */
import { hash, randomBytes, randomUUID } from 'node:crypto';
import { encodeEnvelope, envelopeSize, SALT_BYTES } from '@clinical-events/protocol';
import type { Candidate } from '../../src/store/contract/events.js';

const NO_ID = new Uint8Array(16);

export function uuidBytes(text: string): Uint8Array {
  return Buffer.from(text.replaceAll('-', ''), 'hex');
}

/** A candidate with its body. */
export interface Made extends Candidate {
  readonly body: Buffer;
}

export interface Wanted extends Partial<
  Omit<Candidate, 'eventId' | 'runId' | 'parentId' | 'salted' | 'commitment'>
> {
  readonly eventId?: string;
  readonly runId?: string;
  /** A JSON text, or a value to be written as one. */
  readonly body?: unknown;
}

const BODY = { timestamp: '2026-01-10T00:00:00Z', outcome: {} };

/** An event that could have passed every check, with invented values for the rest, and its parent from its body. */
export function candidate({ eventId = randomUUID(), runId, body = BODY, ...more }: Wanted = {}): Made {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  const parent = /"parent_event_id":"([0-9a-fA-F-]{36})"/.exec(bytes.toString())?.[1];
  const salted = Buffer.concat([randomBytes(SALT_BYTES), bytes]);
  return {
    kind: 'outcome',
    profile: 'minimum',
    door: 'endpoint',
    organisation: 'default',
    keyId: 'abcdefghij23',
    receivedAt: Date.now(),
    ...more,
    eventId: uuidBytes(eventId),
    runId: runId === undefined ? NO_ID : uuidBytes(runId),
    parentId: parent === undefined ? NO_ID : uuidBytes(parent),
    salted,
    commitment: hash('sha256', salted, 'buffer'),
    body: salted.subarray(SALT_BYTES),
  };
}

/** The text form of a candidate's event id. */
export function idOf({ eventId }: Pick<Candidate, 'eventId'>): string {
  const hex = Buffer.from(eventId).toString('hex');
  return [0, 8, 12, 16, 20].map((start, i, starts) => hex.slice(start, starts[i + 1])).join('-');
}

/** The bytes of a candidate's envelope. */
export function envelopeOf(event: Candidate): Buffer {
  const bytes = Buffer.alloc(envelopeSize(event));
  encodeEnvelope(bytes, 0, event);
  return bytes;
}
