import type { Duplex } from 'node:stream';
import { type ErrorCode } from '@clinical-events/protocol';
import type { Fault } from '../ledger/examine.js';
import { type Exchange } from './request.js';
/** The event is durable. The same for a new event and for an exact repeat. */
export declare function accept({ reply, id }: Exchange): void;
/**
 * Answers with an Error body; the status follows from the code, and so does whether there is a Retry-After.
 * @param waitSeconds what it says then.
 * @returns the status.
 */
export declare function refuse({ request, reply, expectation, id }: Exchange, { code, details, message }: Fault, headers: readonly string[], waitSeconds?: number): number;
/** The answer to bytes that are no request at all: there is no response object to write it through. */
export declare function refuseOnSocket(socket: Duplex, code: ErrorCode, headers?: string): void;
/** Ends a connection after these last bytes, so that the client can read what it was sent. */
export declare function endSocket(socket: Duplex, last?: string): void;
