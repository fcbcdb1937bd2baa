/** What an answer means for the event that was sent. docs/CLIENT_SPEC.md, "Sending", has the table. */
import type { ErrorDetails } from '@clinical-events/protocol';

export interface Answer {
  readonly status: number;
  /** From the Error body, when there is one. */
  readonly code?: string;
  readonly message?: string;
  readonly details?: ErrorDetails;
  /** What Retry-After asks for. */
  readonly retryAfterMs?: number;
}

/**
 * `stored`: done. `later`: the same again, after a pause that grows. `unwelcome`: the fault is the key's or the
 * address's, so that every event would be answered so; an operator can mend it, and the event is kept and tried again
 * slowly. `not permitted`: the same for events of this kind alone. `refused`: this event will never be taken.
 */
export type Verdict = 'stored' | 'later' | 'unwelcome' | 'not permitted' | 'refused';

/** Failures of a request that speak of whoever sends it, or of where it went. */
const UNWELCOME: ReadonlySet<number> = new Set([401, 404, 405, 407, 421, 426]);

export function verdictOn(status: number): Verdict {
  if (status === 201) return 'stored';
  if (status === 408 || status === 425 || status === 429 || status >= 500) return 'later';
  if (status === 403) return 'not permitted';
  if (status >= 400 && !UNWELCOME.has(status)) return 'refused';
  // Also what a portal or a proxy answers: a collector neither redirects nor says 200.
  return 'unwelcome';
}

/** The fields of an Error body; nothing of a text that is none. */
export function readErrorBody(text: string): Pick<Answer, 'code' | 'message' | 'details'> {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return {};
  }
  if (typeof body !== 'object' || body === null) return {};
  const { code, message, details } = body as Readonly<Record<string, unknown>>;
  return {
    ...(typeof code === 'string' && { code }),
    ...(typeof message === 'string' && { message }),
    ...(typeof details === 'object' && details !== null && { details: details as ErrorDetails }),
  };
}

/** RFC 9110 section 10.2.3: seconds, or a date. Undefined for anything else. */
export function readRetryAfter(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined;
  if (/^\d{1,9}$/.test(value)) return 1000 * Number(value);
  const date = / GMT$/.test(value) ? Date.parse(value) : NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}
