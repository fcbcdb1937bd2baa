/** What an answer means for the event that was sent. docs/CLIENT_SPEC.md, "Sending", has the table. */
import type { ErrorCode, ErrorDetails } from '@clinical-events/protocol';

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
 * address's, so that every event would be answered so; an operator can fix it, and the event is kept and tried again
 * slowly. `not permitted`: the same for events of this kind alone. `erased`: it was stored and has been erased there, so
 * nobody may keep it here. `refused`: this event will never be taken.
 */
export type Verdict = 'stored' | 'later' | 'unwelcome' | 'not permitted' | 'erased' | 'refused';

/** Failures of a request that speak of anyone who sends it, or of where it went. */
const UNWELCOME: ReadonlySet<number> = new Set([401, 404, 405, 407, 421, 426]);

export function verdictOn({ status, accepted, code }: Pick<Answer, 'status' | 'accepted' | 'code'>): Verdict {
  if (status === 201 && accepted) return 'stored';
  if (status === 409 && code === ('event_erased' satisfies ErrorCode)) return 'erased';
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

/**
 * Whether more than so many arrays and objects stand inside each other, the outermost one counted. Bounded by `levels`,
 * however deep the value is.
 */
function nestsDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  // Nothing is made on the way: this is gone through for each event.
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

/** RFC 9110 section 10.2.3: seconds, or a date. Undefined for anything else. */
export function readRetryAfter(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined;
  if (/^\d{1,9}$/.test(value)) return 1000 * Number(value);
  const date = / GMT$/.test(value) ? Date.parse(value) : NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

/*
 * The head of an answer: status line and fields (RFC 9112). Strict, because what is read here decides whether an event
 * leaves the spool: what two readers could understand differently is no answer.
 */

export interface AnswerHead {
  readonly status: number;
  /**
   * How the body ends: after so many bytes, with its last chunk, or with the connection. RFC 9112 section 6.3.
   */
  readonly body: number | 'chunked' | 'until closed';
  /** Whether another request may follow on the connection. */
  readonly keepsOpen: boolean;
  readonly retryAfter: string | undefined;
  readonly requestId: string | undefined;
}

/** Not an answer as HTTP/1.1 has them. The message repeats nothing of it. */
export class AnswerMalformed extends Error {
  override name = 'AnswerMalformed';
}

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?$/;
const FIELD = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)$/;
/** What may stand in a log for a request; anything else that is sent as its id is passed over. */
const REQUEST_ID = /^[\w.:+/=-]{1,128}$/;
/** Below 2^53, and so many digits that a leading zero more does no harm. */
const LENGTH = /^\d{1,15}$/;

/**
 * @param text from the status line to the last field, without the empty line; a character for each byte.
 * @throws AnswerMalformed
 */
export function readAnswerHead(text: string): AnswerHead {
  const lines = text.split('\r\n');
  const [, minor, code] = STATUS_LINE.exec(lines[0] ?? '') ?? [];
  if (code === undefined) throw new AnswerMalformed('the answer does not begin as HTTP/1.1 does');
  const status = Number(code);
  let length: number | undefined;
  let chunked = false;
  let keepsOpen = minor === '1';
  let retryAfter: string | undefined;
  let requestId: string | undefined;
  for (let i = 1; i < lines.length; i++) {
    const [, name, value] = FIELD.exec(lines[i] as string) ?? [];
    if (name === undefined || value === undefined)
      throw new AnswerMalformed('a header of the answer is none');
    switch (name.toLowerCase()) {
      case 'content-length':
        if (length !== undefined || !LENGTH.test(value.trimEnd())) {
          throw new AnswerMalformed('the answer does not say how long it is');
        }
        length = Number(value);
        break;
      case 'transfer-encoding':
        if (chunked || value.trimEnd().toLowerCase() !== 'chunked') {
          throw new AnswerMalformed('the answer has an encoding that was not asked for');
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
    throw new AnswerMalformed('the answer says in two ways how long it is');
  }
  const said = { status, retryAfter, requestId };
  if (status < 200 || status === 204 || status === 304) return { ...said, body: 0, keepsOpen };
  const body = chunked ? 'chunked' : (length ?? 'until closed');
  return { ...said, body, keepsOpen: keepsOpen && body !== 'until closed' };
}

/** @returns undefined for what may not stand in a log. */
export function readRequestId(value: string): string | undefined {
  return REQUEST_ID.test(value) ? value : undefined;
}
