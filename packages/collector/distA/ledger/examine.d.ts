import { type ErrorCode, type EventKind, type Profile } from '@clinical-events/protocol';
import { type JsonFault } from './strict-json.js';
/** Why a body is refused. No member ever holds a value of the body, nor the name of an unknown field. */
export interface Fault {
    readonly code: ErrorCode;
    /** In place of the code's own. */
    readonly message?: string;
    readonly details?: Record<string, unknown>;
}
/** What the ledger needs to know of a good body. */
export interface Examined {
    readonly eventId: Uint8Array;
    readonly runId: Uint8Array;
    readonly parentId: Uint8Array;
}
/**
 * Checks one body: UTF-8, depth, JSON, no repeated keys, then the schema of its kind in its profile.
 * @param body the exact bytes; not kept.
 * @returns the ids, or the fault that the sender is answered.
 */
export declare function examine(body: Buffer, kind: EventKind, profile: Profile, maxDepth: number): Examined | Fault;
/** @param body of an event or line; not UTF-8. */
export declare function notUtf8(body: Uint8Array): Fault;
export declare function faultOf({ code, ...found }: JsonFault): Fault;
export declare function isFault(result: Examined | Fault): result is Fault;
