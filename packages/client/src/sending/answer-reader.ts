/** Reads the answers of a connection from pieces of any size, within fixed limits. */
import {
  type Answer,
  type AnswerHead,
  AnswerMalformed,
  readAccepted,
  readAnswerHead,
  readErrorBody,
  readRequestId,
  readRetryAfter,
} from './answer.js';

/** A longer body is an error. */
const LONGEST_ANSWER = 64 << 10;
/** Limit of all heads of an answer, including the heads of status 1xx before it. */
const LONGEST_HEAD = 16 << 10;
/** Limit of each line of a chunked body. */
const LONGEST_LINE = 1024;
const HEAD_END = Buffer.from('\r\n\r\n');
const CHUNK_SIZE = /^([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/;
const STORED: Answer = { status: 201, accepted: true };
const NO_BYTES = Buffer.alloc(0);

type Phase = 'head' | 'bytes' | 'chunk size' | 'chunk' | 'after chunk' | 'trailer' | 'until closed' | 'whole';

/** Cache of the last head: within a second, a collector's heads differ in the request id only. */
let latest: { text: string; head: AnswerHead } | undefined;
const ID_LINE = '\r\nX-Request-Id: ';

function headOf(text: string): AnswerHead {
  const at = text.indexOf(ID_LINE);
  if (at < 0) return headWithoutId(text);
  const end = text.indexOf('\r\n', at + ID_LINE.length);
  const last = end < 0 ? text.length : end;
  const requestId = readRequestId(text.slice(at + ID_LINE.length, last));
  if (requestId === undefined) return readAnswerHead(text);
  return { ...headWithoutId(text.slice(0, at) + text.slice(last)), requestId };
}

function headWithoutId(text: string): AnswerHead {
  if (latest?.text !== text) latest = { text, head: readAnswerHead(text) };
  return latest.head;
}

export class AnswerReader {
  #phase: Phase = 'head';
  #head: AnswerHead | undefined;
  /** The received part of an incomplete head or line. */
  #partial = '';
  #headBytes = 0;
  /** Remaining bytes of the body or chunk. */
  #left = 0;
  #bodyBytes = 0;
  #body: Buffer[] = [];
  #keepsOpen = false;

  /** Whether no byte of the answer has arrived. */
  get untouched(): boolean {
    return this.#phase === 'head' && this.#headBytes === 0 && this.#partial === '';
  }

  /** Whether no byte of the final answer has arrived; answers of status 1xx may have. */
  get waits(): boolean {
    return this.#phase === 'head' && this.#partial === '';
  }

  /** Undefined until the head is complete. */
  get status(): number | undefined {
    return this.#head?.status;
  }

  /** Whether the connection can be used again after the answer. */
  get keepsOpen(): boolean {
    return this.#keepsOpen;
  }

  /**
   * Consumes received bytes, which may be overwritten afterwards.
   * @returns whether the answer is complete.
   * @throws AnswerMalformed
   */
  take(bytes: Buffer): boolean {
    let at = 0;
    while (at < bytes.length && this.#phase !== 'whole')
      at += this.#step(at === 0 ? bytes : bytes.subarray(at));
    // Bytes after the answer belong to no request.
    if (at < bytes.length) this.#keepsOpen = false;
    return this.#phase === 'whole';
  }

  /** Whether the end of the connection completes the answer. */
  get ended(): boolean {
    return this.#phase === 'until closed';
  }

  /** The complete answer. Resets the reader for the next one. */
  answer(): Answer {
    const { status, retryAfter, requestId } = this.#head as AnswerHead;
    const pieces = this.#body;
    const body = pieces.length > 1 ? Buffer.concat(pieces) : (pieces[0] ?? NO_BYTES);
    [this.#phase, this.#head, this.#headBytes, this.#partial] = ['head', undefined, 0, ''];
    this.#body = [];
    const named = requestId === undefined ? undefined : { requestId };
    if (status === 201) {
      if (!readAccepted(body)) return { status, accepted: false, ...named };
      return named ? { ...STORED, ...named } : STORED;
    }
    const retryAfterMs = readRetryAfter(retryAfter, Date.now());
    return {
      status,
      ...readErrorBody(body.toString()),
      ...(retryAfterMs !== undefined && { retryAfterMs }),
      ...named,
    };
  }

  /** @returns the number of bytes consumed: at least one. */
  #step(bytes: Buffer): number {
    switch (this.#phase) {
      case 'head':
        return this.#takeHead(bytes);
      case 'bytes':
      case 'chunk':
        return this.#takeSized(bytes);
      case 'until closed':
        this.#keep(bytes);
        return bytes.length;
      default:
        return this.#takeLine(bytes);
    }
  }

  #takeHead(bytes: Buffer): number {
    // A head in pieces is rare. The search resumes three characters before the new piece.
    const before = this.#partial;
    const end = before === '' ? bytes.indexOf(HEAD_END) : -1;
    let text: string;
    let used: number;
    if (end >= 0) {
      text = bytes.toString('latin1', 0, end);
      used = end + HEAD_END.length;
    } else {
      const all = before + bytes.toString('latin1', 0, Math.min(bytes.length, LONGEST_HEAD));
      const found = before === '' ? -1 : all.indexOf('\r\n\r\n', Math.max(0, before.length - 3));
      if (found < 0) {
        if (this.#headBytes + all.length >= LONGEST_HEAD) {
          throw new AnswerMalformed('the head of the answer is too long');
        }
        this.#partial = all;
        return bytes.length;
      }
      text = all.slice(0, found);
      used = found + HEAD_END.length - before.length;
    }
    this.#partial = '';
    this.#headBytes += text.length + HEAD_END.length;
    if (this.#headBytes > LONGEST_HEAD) throw new AnswerMalformed('the head of the answer is too long');
    this.#begin(headOf(text));
    return used;
  }

  #begin(head: AnswerHead): void {
    const { status, body } = head;
    if (status === 101) throw new AnswerMalformed('the answer is of another protocol');
    // 100, 102 and 103 precede the final answer.
    if (status < 200) return;
    this.#head = head;
    this.#keepsOpen = head.keepsOpen;
    this.#bodyBytes = 0;
    if (body === 'chunked') this.#phase = 'chunk size';
    else if (body === 'until closed') this.#phase = 'until closed';
    else {
      this.#left = body;
      this.#phase = body === 0 ? 'whole' : 'bytes';
    }
  }

  #takeSized(bytes: Buffer): number {
    const used = Math.min(this.#left, bytes.length);
    this.#keep(used === bytes.length ? bytes : bytes.subarray(0, used));
    this.#left -= used;
    if (this.#left === 0) this.#phase = this.#phase === 'bytes' ? 'whole' : 'after chunk';
    return used;
  }

  #keep(bytes: Buffer): void {
    this.#bodyBytes += bytes.length;
    if (this.#bodyBytes > LONGEST_ANSWER) throw new AnswerMalformed('the answer is too long');
    this.#body.push(Buffer.from(bytes));
  }

  #takeLine(bytes: Buffer): number {
    const end = bytes.indexOf(10);
    const used = end < 0 ? bytes.length : end + 1;
    const line = this.#partial + bytes.toString('latin1', 0, Math.min(used, LONGEST_LINE + 1));
    if (line.length > LONGEST_LINE) throw new AnswerMalformed('a line of the answer is too long');
    if (end < 0) {
      this.#partial = line;
      return used;
    }
    this.#partial = '';
    if (!line.endsWith('\r\n')) throw new AnswerMalformed('a line of the answer does not end with CRLF');
    this.#endLine(line.slice(0, -2));
    return used;
  }

  #endLine(line: string): void {
    if (this.#phase === 'after chunk') {
      if (line !== '') throw new AnswerMalformed('a chunk of the answer is longer than its size');
      this.#phase = 'chunk size';
    } else if (this.#phase === 'chunk size') {
      const size = CHUNK_SIZE.exec(line)?.[1];
      if (size === undefined) throw new AnswerMalformed('a chunk of the answer has no size');
      this.#left = parseInt(size, 16);
      this.#phase = this.#left === 0 ? 'trailer' : 'chunk';
    } else if (line === '') this.#phase = 'whole';
    else {
      // Trailer fields are ignored.
      this.#headBytes += line.length;
      if (this.#headBytes > LONGEST_HEAD) throw new AnswerMalformed('the head of the answer is too long');
    }
  }
}
