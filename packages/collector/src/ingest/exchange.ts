import type { IncomingMessage, ServerResponse } from 'node:http';
import type { EventKind } from '@clinical-events/protocol';
import type { Principal } from '../access/principal.js';
import type { Share } from './fair-share.js';

/**
 * What the client expects before it sends its body (RFC 9110 section 10.1.1): `continue` holds the body back
 * until it is told to go on, `unmet` is an expectation that the collector does not know.
 */
export type Expectation = 'none' | 'continue' | 'unmet';

/** A request on its way through the collector, and what is known of it so far. */
export interface Exchange {
  /** In the answer and in the log line of a refusal. */
  readonly id: string;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Monotonic clock, milliseconds. */
  readonly startedAt: number;
  readonly expectation: Expectation;
  kind: EventKind | undefined;
  principal: Principal | undefined;
  /** Of the key, once the event has a place in the queue; and the bytes that count against it. */
  share: Share | undefined;
  sharedBytes: number;
  /** As received, before decompression. */
  bodyBytes: number;
  /** Decompressed, once the event has a place in the queue, where the options want bodies kept. */
  body: Buffer | undefined;
}
