/** Spans and log records of OpenTelemetry, whichever encoding they came in. */
import type { Fields } from '@clinical-events/protocol/spans';

export type Signal = 'traces' | 'logs';
export type Encoding = 'protobuf' | 'json';

/**
 * What a span and a log record have in common. Ids are hexadecimal digits in lower case, empty where there is none or it
 * is all zeros. Attributes are objects without a prototype at every depth, lists, text, numbers, true, false, null; a
 * number beyond 2^53 is its decimal digits, and bytes are base64.
 */
export interface Decoded {
  readonly traceId: string;
  readonly spanId: string;
  readonly attributes: Fields;
  readonly droppedAttributesCount: number;
  /** The name of the instrumentation scope. */
  readonly scope: string;
  readonly scopeVersion: string;
  /** Attributes of the resource; the same object for all that one resource sent in a request. */
  readonly resource: Fields;
}

export interface DecodedSpan extends Decoded {
  readonly name: string;
  /** Empty for a root. */
  readonly parentSpanId: string;
  /** Undefined where the sender does not say (Span.flags, bits 8 and 9). */
  readonly isParentRemote: boolean | undefined;
  /** Nanoseconds since 1970 UTC; 0 where the sender does not say. */
  readonly start: bigint;
  readonly end: bigint;
  /** 2 is an error. Its message may have words of a patient, and is not kept. */
  readonly status: { readonly code: number };
  readonly events: readonly { readonly name: string; readonly time: bigint; readonly attributes: Fields }[];
}

export interface DecodedLog extends Decoded {
  /** `event_name`, or the attribute `event.name` of older senders, or empty. */
  readonly eventName: string;
  /** When it happened, or else when it was observed; nanoseconds since 1970 UTC, 0 where the sender says neither. */
  readonly time: bigint;
  readonly body: unknown;
}
