/**
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
