import { type ENTRY_KINDS } from '@clinical-events/protocol';
import type { Candidate } from '../store/contract/events.js';
/**
 * An entry with a new id, received now, of no organisation and no run.
 * @param writer stands where events have the id of their API key: twelve characters with a zero among them, as no key has.
 * @param fields of its JSON body, which has its id as `event_id` in front, as every body of the log has.
 */
export declare function ownEntry(kind: (typeof ENTRY_KINDS)[keyof typeof ENTRY_KINDS], writer: string, fields: object): Candidate;
