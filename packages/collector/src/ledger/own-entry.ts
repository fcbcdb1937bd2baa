/** The log's own entries. They are leaves of the tree like events, but no sender can make them. */
import { randomUUID } from 'node:crypto';
import { SALT_BYTES, type ENTRY_KINDS } from '@clinical-events/protocol';
import { commitmentOf } from '../tree/merkle.js';
import type { Candidate } from '../store/contract/events.js';
import { fillSalt } from './salt.js';
import { uuidBytes } from '../store/text.js';

const NO_ID = new Uint8Array(16);

/**
 * Makes an entry with a new id, received now, without organisation and run.
 * @param writer takes the place of an event's API key id: twelve characters with a zero, which no key id has.
 * @param fields of its JSON body, which begins with its id as `event_id` like every body of the log.
 */
export function ownEntry(
  kind: (typeof ENTRY_KINDS)[keyof typeof ENTRY_KINDS],
  writer: string,
  fields: object,
): Candidate {
  const id = randomUUID();
  const body = Buffer.from(JSON.stringify({ event_id: id, ...fields }));
  const salted = Buffer.concat([Buffer.alloc(SALT_BYTES), body]);
  fillSalt(salted);
  return {
    ...{
      kind,
      profile: 'minimum',
      door: 'endpoint',
      organisation: '',
      keyId: writer,
      receivedAt: Date.now(),
    },
    ...{ eventId: uuidBytes(id), runId: NO_ID, parentId: NO_ID },
    ...{ salted, commitment: commitmentOf(salted) },
  };
}
