/** Answers to events: what they mean for the event (docs/CLIENT_SPEC.md, "Sending"), and their heads. */
import type { ErrorCode, ErrorDetails } from '@clinical-events/protocol';

export interface Answer {
  readonly status: number;
  /** For a 201: whether its body is a collector's. Other servers that answer 201 have stored nothing. */
  readonly accepted?: boolean;
  /** From the error body, if there is one. */
  readonly code?: string;
  readonly message?: string;
  readonly details?: ErrorDetails;
  /** From Retry-After. */
  readonly retryAfterMs?: number;
  /** From X-Request-Id: names the request in the collector's log. */
  readonly requestId?: string;
}

/**
 * `stored`: the event is done. `later`: send it again after a growing pause. `unwelcome`: key or address is
 * wrong, so every event would get this answer; keep it and try again slowly. `not permitted`: the same for
 * events of this kind only. `erased`: the collector has erased the event, so no copy may remain. `refused`:
 * permanently refused.
 */
export type Verdict = 'stored' | 'later' | 'unwelcome' | 'not permitted' | 'erased' | 'refused';

/** Statuses that concern the sender or the address, not the event. */
const UNWELCOME: ReadonlySet<number> = new Set([401, 404, 405, 407, 421, 426]);

export function verdictOn({ status, accepted, code }: Pick<Answer, 'status' | 'accepted' | 'code'>): Verdict {
  if (status === 201 && accepted) return 'stored';
  if (status === 409 && code === ('event_erased' satisfies ErrorCode)) return 'erased';
  if (status === 408 || status === 425 || status === 429 || status >= 500) return 'later';
  if (status === 403) return 'not permitted';
  if (status >= 400 && !UNWELCOME.has(status)) return 'refused';
  // The answer may come from a portal or proxy: a collector neither redirects nor answers 200.
  return 'unwelcome';
}

/** The exact body of a collector, which needs no parsing. */
const ACCEPTED = Buffer.from('{"status":"accepted"}');

/** Whether the body is the body of a collector's 201. */
export function readAccepted(body: Buffer): boolean {
  if (body.equals(ACCEPTED)) return true;
  return parsed(body.toString())?.['status'] === 'accepted';
}

/** Deeper `details` are not part of the protocol. */
const MOST_LEVELS = 32;

/** The fields of an error body. Empty for other text. Omits `details` that nest too deeply. */
export function readErrorBody(text: string): Pick<Answer, 'code' | 'message' | 'details'> {
  const { code, message, details } = parsed(text) ?? {};
  const kept = typeof details === 'object' && details !== null && !nestsDeeper(details, MOST_LEVELS);
  return {
    ...(typeof code === 'string' && { code }),
    ...(typeof message === 'string' && { message }),
    ...(kept && { details: details as ErrorDetails }),
  };
}

/** Whether arrays and objects nest more than `levels` deep. The recursion is bounded by `levels`. */
function nestsDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  // for-in allocates nothing: this runs for each refused event.
  const inner = value as Readonly<Record<string, unknown>>;
  for (const name in inner) if (nestsDeeper(inner[name], levels - 1)) return true;
  return false;
}

function parsed(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** Seconds or a date (RFC 9110 section 10.2.3). Undefined for other values. */
export function readRetryAfter(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined;
  if (/^\d{1,9}$/.test(value)) return 1000 * Number(value);
  const date = / GMT$/.test(value) ? Date.parse(value) : NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

/*
 * Heads of answers (RFC 9112). Parsing is strict, because the result decides whether an event is deleted: a
 * head that two parsers could read differently is rejected.
 */

export interface AnswerHead {
  readonly status: number;
  /**
   * How the body ends: after this number of bytes, with its last chunk, or with the connection (section 6.3).
   */
  readonly body: number | 'chunked' | 'until closed';
  /** Whether another request may follow on the connection. */
  readonly keepsOpen: boolean;
  readonly retryAfter: string | undefined;
  readonly requestId: string | undefined;
}

/** The bytes are not a valid HTTP/1.1 answer. The message repeats none of them. */
export class AnswerMalformed extends Error {
  override name = 'AnswerMalformed';
}

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?$/;
const FIELD = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)$/;
/** Ids that are safe in a log. Others are ignored. */
const REQUEST_ID = /^[\w.:+/=-]{1,128}$/;
/** At most 15 digits, so below 2^53. */
const LENGTH = /^\d{1,15}$/;

/**
 * @param text from the status line to the last field, without the empty line; one character for each byte.
 * @throws AnswerMalformed
 */
export function readAnswerHead(text: string): AnswerHead {
  const lines = text.split('\r\n');
  const [, minor, code] = STATUS_LINE.exec(lines[0] ?? '') ?? [];
  if (code === undefined) throw new AnswerMalformed('the answer is not HTTP/1.1');
  const status = Number(code);
  let length: number | undefined;
  let chunked = false;
  let keepsOpen = minor === '1';
  let retryAfter: string | undefined;
  let requestId: string | undefined;
  for (let i = 1; i < lines.length; i++) {
    const [, name, value] = FIELD.exec(lines[i] as string) ?? [];
    if (name === undefined || value === undefined)
      throw new AnswerMalformed('a header field of the answer is invalid');
    switch (name.toLowerCase()) {
      case 'content-length':
        if (length !== undefined || !LENGTH.test(value.trimEnd())) {
          throw new AnswerMalformed('the Content-Length of the answer is invalid');
        }
        length = Number(value);
        break;
      case 'transfer-encoding':
        if (chunked || value.trimEnd().toLowerCase() !== 'chunked') {
          throw new AnswerMalformed('the Transfer-Encoding of the answer is not supported');
        }
        chunked = true;
        break;
      case 'connection':
        if (/(?:^|[ \t,])close(?:$|[ \t,])/i.test(value)) keepsOpen = false;
        break;
      case 'retry-after':
        retryAfter = value.trimEnd();
        break;
      case 'x-request-id':
        requestId = readRequestId(value.trimEnd());
        break;
    }
  }
  if (chunked && (length !== undefined || minor === '0')) {
    throw new AnswerMalformed('the answer states its length in two ways');
  }
  const fields = { status, retryAfter, requestId };
  if (status < 200 || status === 204 || status === 304) return { ...fields, body: 0, keepsOpen };
  const body = chunked ? 'chunked' : (length ?? 'until closed');
  return { ...fields, body, keepsOpen: keepsOpen && body !== 'until closed' };
}

/** @returns undefined for an id that is not safe in a log. */
export function readRequestId(value: string): string | undefined {
  return REQUEST_ID.test(value) ? value : undefined;
}
