/**
 * The hash chain over the lines of the access log: h(0) is 32 zero bytes, and h(n) is SHA-256(h(n-1) ‖ line
 * n), where a line is its bytes without the line feed. The lines do not contain it: anyone can compute it
 * from them. Pure.
 *
 * Entries of the log hold heads of the chain: a number of lines n, and h(n) in hexadecimal. The log has a
 * file for each year (docs/internals/formats.md), and each file a chain of its own.
 */
import { createHash, hash, type Hash } from 'node:crypto';
import { isObject } from '@clinical-events/protocol';

const HASH_BYTES = 32;
const LINE_FEED = 0x0a;
/**
 * Lines up to this size are copied after the previous hash and hashed there, which takes a third of the time.
 */
const SHORT = 4096;
const FORMAT = 'clinical-events/access-log-head/v1';
const CLOSING = 'clinical-events/access-log-closed/v1';
/** The first file of an access log, and the whole log of a database. */
export const FIRST_FILE = 'access.log';
/** A later file: the name has its year. */
const FILE_OF_YEAR = /^access-\d{4}\.log$/;
const HEAD = /^[0-9a-f]{64}$/;

/**
 * Receives the bytes of a line without the line feed, valid until the next line; undefined if it is too long.
 */
type OnLine = (bytes: Buffer | undefined) => void;

export interface AccessHead {
  readonly lines: number;
  /** 64 hexadecimal digits. */
  readonly head: string;
}

/** A head as an entry of the log has it. */
export interface LoggedHead extends AccessHead {
  /** The file that has the lines; undefined for {@link FIRST_FILE}. */
  readonly file?: string | undefined;
  /** Whether the lines are all of the file, because a later one continues the log. */
  readonly closes?: boolean | undefined;
}

export class AccessChain {
  lines = 0;
  /** Offset of the next line. */
  bytes = 0;
  readonly #scratch = Buffer.alloc(HASH_BYTES + SHORT);
  /** Hash of an incomplete line. */
  #hash: Hash | undefined;
  #begun: Buffer[] = [];
  #pending = 0;

  /** @param limit size of the longest line that is passed to `onLine`; a longer line is only hashed. */
  constructor(private readonly limit = 0) {}

  get head(): AccessHead {
    return { lines: this.lines, head: this.#scratch.toString('hex', 0, HASH_BYTES) };
  }

  /** Number of bytes after the last line feed. */
  get pending(): number {
    return this.#pending;
  }

  /** Appends a piece, and hashes the lines that end in it. */
  take(piece: Buffer, onLine: OnLine = () => undefined): void {
    let at = 0;
    for (let end = piece.indexOf(LINE_FEED); end >= 0; end = piece.indexOf(LINE_FEED, at)) {
      this.#line(piece.subarray(at, end), onLine);
      at = end + 1;
    }
    if (at === piece.length) return;
    const rest = piece.subarray(at);
    this.#hash ??= createHash('sha256').update(this.#scratch.subarray(0, HASH_BYTES));
    this.#hash.update(rest);
    this.#pending += rest.length;
    if (this.#pending <= this.limit) this.#begun.push(Buffer.from(rest));
  }

  /** Discards an incomplete line: the next piece begins at `bytes`. */
  rewind(): void {
    this.#hash = undefined;
    this.#begun = [];
    this.#pending = 0;
  }

  #line(rest: Buffer, onLine: OnLine): void {
    const length = this.#pending + rest.length;
    const scratch = this.#scratch;
    if (this.#hash === undefined && rest.length <= SHORT) {
      rest.copy(scratch, HASH_BYTES);
      scratch.write(hash('sha256', scratch.subarray(0, HASH_BYTES + rest.length), 'binary'), 'latin1');
    } else {
      const long = this.#hash ?? createHash('sha256').update(scratch.subarray(0, HASH_BYTES));
      long.update(rest).digest().copy(scratch);
    }
    let bytes: Buffer | undefined;
    if (length <= this.limit) bytes = this.#pending === 0 ? rest : Buffer.concat([...this.#begun, rest]);
    this.rewind();
    this.lines++;
    this.bytes += length + 1;
    onLine(bytes);
  }
}

/** The body of an entry that holds a head, to be written as JSON. */
export function headFields({ lines, head, file = FIRST_FILE, closes = false }: LoggedHead): object {
  if (closes) return { format: CLOSING, file, lines, head };
  return { format: FORMAT, ...(file !== FIRST_FILE && { file }), lines, head };
}

/** The head in the body of such an entry; undefined if the body has another format. */
export function headIn(body: Buffer): LoggedHead | undefined {
  let read: unknown;
  try {
    read = JSON.parse(body.toString());
  } catch {
    return undefined;
  }
  if (!isObject(read)) return undefined;
  const { format, lines, head, file } = read;
  const closes = format === CLOSING;
  if (!closes && format !== FORMAT) return undefined;
  if (!Number.isSafeInteger(lines) || Number(lines) < 0) return undefined;
  if (typeof head !== 'string' || !HEAD.test(head)) return undefined;
  const found = { lines: Number(lines), head, ...(closes && { closes }) };
  if (file === undefined) return closes ? undefined : found;
  if (typeof file !== 'string' || !isAccessLogName(file)) return undefined;
  return file === FIRST_FILE ? found : { ...found, file };
}

export function isAccessLogName(name: string): boolean {
  return name === FIRST_FILE || FILE_OF_YEAR.test(name);
}

/** Orders the names of files by their years. */
export function inOrderOfYears(names: Iterable<string>): string[] {
  const later = [...names].filter((name) => name !== FIRST_FILE).sort();
  return [...names].includes(FIRST_FILE) ? [FIRST_FILE, ...later] : later;
}
