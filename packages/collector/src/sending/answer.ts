/** The answer to one request (RFC 9112), as far as a sender acts on it. Bounded in all that the other side may send. */

export interface Answer {
  readonly status: number;
  /** From the Error body; undefined when there is none, or none of the protocol. */
  readonly code: string | undefined;
  readonly details: Readonly<Record<string, unknown>> | undefined;
  /** What Retry-After asks for, in milliseconds. */
  readonly retryAfterMs: number | undefined;
}

interface Read {
  readonly answer: Answer;
  /** Whether another request may follow on the connection. */
  readonly keepsOpen: boolean;
}

const LONGEST_HEAD = 16 << 10;
const LONGEST_BODY = 64 << 10;
const HEAD_END = '\r\n\r\n';

/** The code of an answer that has one. */
export function nameOf({ status, code }: Answer): string {
  return code ?? `status ${status}`;
}

/**
 * @param bytes all that has come since the request. @param ended nothing more comes.
 * @returns undefined while the answer is not whole.
 * @throws Error for what is no answer, or too long; the message repeats nothing of it.
 */
export function readAnswer(bytes: Buffer, ended: boolean): Read | undefined {
  const end = bytes.indexOf(HEAD_END);
  if ((end < 0 ? bytes.length : end) > LONGEST_HEAD) throw new Error('the head of the answer is too long');
  if (end < 0) return undefined;
  const head = `${bytes.toString('latin1', 0, end)}\r\n`;
  const rest = bytes.subarray(end + HEAD_END.length);
  const [, minor, code] = /^HTTP\/1\.([01]) ([1-5]\d\d)[ \r]/.exec(head) ?? [];
  if (code === undefined) throw new Error('the answer does not begin as HTTP/1.1 does');
  const status = Number(code);
  // 100, 102, 103: the answer is still to come.
  if (status < 200) return readAnswer(rest, ended);
  const length = /\r\nContent-Length:[ \t]*(\d{1,9})[ \t]*\r\n/i.exec(head)?.[1];
  const body = bodyIn(rest, length, /\r\nTransfer-Encoding:[ \t]*chunked/i.test(head), ended);
  if (body === undefined) return undefined;
  const closes = minor === '0' || length === undefined || /\r\nConnection:[^\r]*\bclose\b/i.test(head);
  const exact = rest.length === Number(length);
  return { answer: answerOf(status, head, body), keepsOpen: !closes && exact };
}

/** RFC 9112 section 6.3. */
function bodyIn(
  rest: Buffer,
  length: string | undefined,
  chunked: boolean,
  ended: boolean,
): Buffer | undefined {
  if (rest.length > 2 * LONGEST_BODY || Number(length ?? 0) > LONGEST_BODY) {
    throw new Error('the answer is too long');
  }
  if (chunked) return dechunked(rest);
  if (length === undefined) return ended ? rest : undefined;
  return rest.length >= Number(length) ? rest.subarray(0, Number(length)) : undefined;
}

/** RFC 9112 section 7.1. What follows the last chunk is not needed: the connection is not used again. */
function dechunked(rest: Buffer): Buffer | undefined {
  const pieces: Buffer[] = [];
  for (let at = 0; ;) {
    const lineEnd = rest.indexOf('\r\n', at);
    if (lineEnd < 0) return undefined;
    const size = /^[0-9a-f]{1,6}(?=$|[ \t;])/i.exec(rest.toString('latin1', at, lineEnd))?.[0];
    if (size === undefined) throw new Error('a chunk of the answer has no size');
    const length = parseInt(size, 16);
    if (length === 0) return Buffer.concat(pieces);
    pieces.push(rest.subarray(lineEnd + 2, lineEnd + 2 + length));
    at = lineEnd + 2 + length + 2;
  }
}

function answerOf(status: number, head: string, body: Buffer): Answer {
  const said = jsonIn(body);
  if (status === 201) {
    if (said['status'] !== 'accepted') throw new Error('201 came without the body of a collector');
    return { status, code: undefined, details: undefined, retryAfterMs: undefined };
  }
  const { code, details } = said;
  const retryAfter = /\r\nRetry-After:[ \t]*(\d{1,5})[ \t]*\r\n/i.exec(head)?.[1];
  return {
    status,
    // It is printed: nothing but a word like those of the protocol's table.
    code: typeof code === 'string' && /^[a-z_]{1,40}$/.test(code) ? code : undefined,
    details: isObject(details) ? details : undefined,
    retryAfterMs: retryAfter === undefined ? undefined : 1000 * Number(retryAfter),
  };
}

function jsonIn(body: Buffer): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(body.toString());
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
