/** What an answer means for the event that was sent. docs/CLIENT_SPEC.md, "Sending", has the table. */
import type { ErrorDetails } from '@clinical-events/protocol';
import { nestsDeeper } from '../nesting.js';

export interface Answer {
  readonly status: number;
  /** Of a 201: whether its body is a collector's. Whatever else says 201 has stored nothing. */
  readonly accepted?: boolean;
  /** From the Error body, when there is one. */
  readonly code?: string;
  readonly message?: string;
  readonly details?: ErrorDetails;
  /** What Retry-After asks for. */
  readonly retryAfterMs?: number;
  /** By which the collector's log names the request: X-Request-Id. */
  readonly requestId?: string;
}

/**
 * `stored`: done. `later`: the same again, after a pause that grows. `unwelcome`: the fault is the key's or the
 * address's, so that every event would be answered so; an operator can mend it, and the event is kept and tried again
 * slowly. `not permitted`: the same for events of this kind alone. `refused`: this event will never be taken.
 */
export type Verdict = 'stored' | 'later' | 'unwelcome' | 'not permitted' | 'refused';

/** Failures of a request that speak of whoever sends it, or of where it went. */
const UNWELCOME: ReadonlySet<number> = new Set([401, 404, 405, 407, 421, 426]);

export function verdictOn({ status, accepted }: Pick<Answer, 'status' | 'accepted'>): Verdict {
  if (status === 201 && accepted) return 'stored';
  if (status === 408 || status === 425 || status === 429 || status >= 500) return 'later';
  if (status === 403) return 'not permitted';
  if (status >= 400 && !UNWELCOME.has(status)) return 'refused';
  // Also what a portal or a proxy answers: a collector neither redirects nor says 200.
  return 'unwelcome';
}

/** As the collector writes it: nothing has to be parsed then. */
const ACCEPTED = Buffer.from('{"status":"accepted"}');

/** Whether this is the body of a collector's 201. */
export function readAccepted(body: Buffer): boolean {
  if (body.equals(ACCEPTED)) return true;
  return parsed(body.toString())?.['status'] === 'accepted';
}

/** What is in `details` beyond so many levels has no meaning in the protocol. */
const MOST_LEVELS = 32;

/** The fields of an Error body; nothing of a text that is none, nor details that nest too deep to be written down. */
export function readErrorBody(text: string): Pick<Answer, 'code' | 'message' | 'details'> {
  const { code, message, details } = parsed(text) ?? {};
  const told = typeof details === 'object' && details !== null && !nestsDeeper(details, MOST_LEVELS);
  return {
    ...(typeof code === 'string' && { code }),
    ...(typeof message === 'string' && { message }),
    ...(told && { details: details as ErrorDetails }),
  };
}

function parsed(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** RFC 9110 section 10.2.3: seconds, or a date. Undefined for anything else. */
export function readRetryAfter(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined;
  if (/^\d{1,9}$/.test(value)) return 1000 * Number(value);
  const date = / GMT$/.test(value) ? Date.parse(value) : NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}
