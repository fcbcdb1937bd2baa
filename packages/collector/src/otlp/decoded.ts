/** Spans and log records of OpenTelemetry, decoded from either encoding. */
import type { Fields } from '@clinical-events/protocol/spans';

export type Signal = 'traces' | 'logs';
export type Encoding = 'protobuf' | 'json';

/**
 * The common members of a span and a log record. Ids are hexadecimal digits in lower case, empty when absent
 * or all zeros. Attributes are objects without a prototype at every depth, arrays, strings, numbers, true,
 * false and null; a number beyond 2^53 is a string of its decimal digits, and bytes are base64.
 */
export interface Decoded {
  readonly traceId: string;
  readonly spanId: string;
  readonly attributes: Fields;
  readonly droppedAttributesCount: number;
  /** The name of the instrumentation scope. */
  readonly scope: string;
  readonly scopeVersion: string;
  /** Attributes of the resource; one object for everything that a resource sent in a request. */
  readonly resource: Fields;
}

export interface DecodedSpan extends Decoded {
  readonly name: string;
  /** Empty for a root span. */
  readonly parentSpanId: string;
  /** Undefined when the sender does not state it (Span.flags, bits 8 and 9). */
  readonly isParentRemote: boolean | undefined;
  /** Nanoseconds since 1970 UTC; 0 when unstated. */
  readonly start: bigint;
  readonly end: bigint;
  /** 2 is an error. Its message may contain patient data and is not kept. */
  readonly status: { readonly code: number };
  readonly events: readonly { readonly name: string; readonly time: bigint; readonly attributes: Fields }[];
}

export interface DecodedLog extends Decoded {
  /** `event_name`, or the attribute `event.name` of older senders, or empty. */
  readonly eventName: string;
  /** Time of the event, or else of its observation; nanoseconds since 1970 UTC, 0 when neither is stated. */
  readonly time: bigint;
  readonly body: unknown;
}
