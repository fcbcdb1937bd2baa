/** Entries of the log's own: leaves like events, which no sender can make. */
import { randomUUID } from 'node:crypto';
import { SALT_BYTES, type ENTRY_KINDS } from '@clinical-events/protocol';
import { commitmentOf } from '../tree/merkle.js';
import type { Candidate } from '../store/contract/events.js';
import { fillSalt } from './salt.js';
import { uuidBytes } from '../store/text.js';

const NO_ID = new Uint8Array(16);

/**
 * An entry with a new id, received now, of no organisation and no run.
 * @param writer stands where events have the id of their API key: twelve characters with a zero among them, as no key has.
 * @param fields of its JSON body, which has its id as `event_id` in front, as every body of the log has.
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
