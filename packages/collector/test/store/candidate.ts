/** Events for the tests of stores. */
import { hash, randomUUID } from 'node:crypto';
import type { Candidate } from '../../src/store/store.js';

const NO_RUN = new Uint8Array(16);

export function uuidBytes(text: string): Uint8Array {
  return Buffer.from(text.replaceAll('-', ''), 'hex');
}

export interface Wanted extends Partial<Omit<Candidate, 'eventId' | 'runId' | 'body' | 'digest'>> {
  readonly eventId?: string;
  readonly runId?: string;
  /** A JSON text, or a value to be written as one. */
  readonly body?: unknown;
}

/** An event that could have passed every check, with what is not asked for made up. */
export function candidate({ eventId = randomUUID(), runId, body = {}, ...more }: Wanted = {}): Candidate {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  return {
    kind: 'outcome',
    profile: 'minimum',
    organisation: 'default',
    keyId: 'abcdefghij23',
    receivedAt: Date.now(),
    ...more,
    eventId: uuidBytes(eventId),
    runId: runId === undefined ? NO_RUN : uuidBytes(runId),
    digest: hash('sha256', bytes, 'hex'),
    body: bytes,
  };
}

/** The text form of a candidate's event id. */
export function idOf({ eventId }: Candidate): string {
  const hex = Buffer.from(eventId).toString('hex');
  return [0, 8, 12, 16, 20].map((start, i, starts) => hex.slice(start, starts[i + 1])).join('-');
}
