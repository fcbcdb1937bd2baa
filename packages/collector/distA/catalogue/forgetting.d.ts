/**
 * What the catalogue has of events that were erased goes with them: the names in their rows, and when their senders
 * sent them. The rows are summed again, from what is left.
 */
import type { SequenceSet } from '../privacy/sequence-set.js';
import { type EventLog } from '../store/contract/events.js';
import type { Tables } from './tables.js';
/**
 * @param erased events of one organisation, all of them taken in.
 * On return no row has a name of theirs; `Names.dropUnused` takes out what is left of them.
 */
export declare function forget(tables: Tables, log: Pick<EventLog, 'pass'>, organisation: string, erased: SequenceSet): Promise<void>;
