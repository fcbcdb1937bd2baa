/** Compares the lines of one file of the access log with its heads, for access-log-check.ts. */
import { AccessChain, type LoggedHead } from '../../tree/access-chain.js';
import { AccessLogAltered, AccessLogUnfit, type AccessLogStore } from '../../store/contract/access-log.js';
import { systemCode } from '../../system-code.js';
import { type AccessLine, lineIn, LONGEST_LINE } from '../access-lines.js';
import { finding, type VerifyFinding } from '../../store/findings.js';

/** A head in the log that the lines do not match. */
interface Contradiction extends LoggedHead {
  /** Sequence of its entry. */
  readonly sequence: number;
  /** Number of lines that match the previous head. */
  readonly proved: number;
  /** Number of lines when the head was checked. */
  readonly had: number;
  /** The entry of the first later head that matches the lines. */
  fitsFrom: number | undefined;
}

interface Options {
  readonly file: string;
  readonly log: AccessLogStore;
  /** Whether other roles of a database may have written lines. */
  readonly isShared: boolean;
  /** Receives each line of a command. */
  readonly onLine: (line: AccessLine) => void;
}

export class AccessLogFileCheck {
  readonly findings: VerifyFinding[] = [];
  /** Number of lines covered by a head in the log. */
  covered = 0;
  /** Lines cut short by a crash or a full disk. */
  torn = 0;
  /** The number of lines not written by a command, and the first of them. */
  #foreign = 0;
  #firstForeign = 0;
  readonly #chain = new AccessChain(LONGEST_LINE);
  #pieces: AsyncGenerator<Buffer, void>;
  #piece: Buffer = Buffer.alloc(0);
  #unreadable = false;
  #isClosed = false;
  #contradiction: Contradiction | undefined;

  constructor(private readonly options: Options) {
    this.#pieces = options.log.lines({ lines: 0, at: 0, file: options.file });
  }

  get lines(): number {
    return this.#chain.lines;
  }

  async compare(sequence: number, head: LoggedHead): Promise<void> {
    this.#isClosed ||= head.closes === true;
    await this.#readTo(head.lines);
    const { lines, head: reached } = this.#chain.head;
    if (lines === head.lines && reached === head.head) {
      if (this.#contradiction !== undefined) this.#contradiction.fitsFrom ??= sequence;
      this.covered = lines;
    } else {
      this.#contradiction ??= {
        ...{ ...head, sequence, proved: this.covered, had: lines, fitsFrom: undefined },
      };
    }
  }

  /** Reads the rest, after the last head. @param isEnded whether a later file continues the log. */
  async finish(isEnded: boolean): Promise<void> {
    const { file } = this.options;
    await this.#readTo(Infinity);
    await this.#reportForeign();
    if (this.#contradiction === undefined) {
      if (isEnded && !this.#isClosed) this.findings.push(finding('file_not_closed', { file }, file));
    } else if (!this.#unreadable) this.findings.push(contradicted(file, this.#contradiction));
    const { pending } = this.#chain;
    if (this.torn > 0) this.findings.push(finding('lines_torn', { file }, file, this.torn));
    if (pending > 0) this.findings.push(finding('last_line_torn', { file }, file, pending));
  }

  #line(bytes: Buffer | undefined): void {
    const line = lineIn(bytes);
    if (line === 'torn') this.torn++;
    else if (line !== 'foreign') this.options.onLine(line);
    else if (this.#foreign++ === 0) this.#firstForeign = this.#chain.lines;
  }

  /**
   * In a database, a role may add lines without being able to change the log; the chain covers such lines
   * too.
   */
  async #reportForeign(): Promise<void> {
    if (this.#foreign === 0) return;
    const { file, log, isShared } = this.options;
    const writer = await log.writerOf?.(this.#firstForeign);
    const name = isShared ? 'line_foreign_shared' : 'line_foreign';
    const more = this.#foreign - 1;
    this.findings.push(finding(name, { file }, file, this.#firstForeign, more, writer ?? ''));
  }

  /** Reads until there are `lines` lines, or the end. */
  async #readTo(lines: number): Promise<void> {
    let again = true;
    while (this.#chain.lines < lines && !this.#unreadable) {
      if (this.#piece.length === 0 && !(await this.#readPiece())) {
        // The lines of a head precede it, and may have been appended since reading began.
        if (!again) return;
        again = false;
        this.#chain.rewind();
        const { lines: read, bytes: at } = this.#chain;
        this.#pieces = this.options.log.lines({ lines: read, at, file: this.options.file });
        continue;
      }
      // Stop at the requested line, where the chain is compared.
      let end = 0;
      for (let missing = lines - this.#chain.lines; missing > 0 && end < this.#piece.length; missing--) {
        const feed = this.#piece.indexOf(0x0a, end);
        end = feed < 0 ? this.#piece.length : feed + 1;
      }
      this.#chain.take(this.#piece.subarray(0, end), (bytes) => this.#line(bytes));
      this.#piece = this.#piece.subarray(end);
    }
  }

  async #readPiece(): Promise<boolean> {
    try {
      const next = await this.#pieces.next();
      this.#piece = next.value ?? Buffer.alloc(0);
    } catch (error) {
      // Truncated while being read: the part read so far is compared with the heads.
      if (error instanceof AccessLogAltered) return false;
      this.#unreadable = true;
      const code = systemCode(error);
      if (!(error instanceof AccessLogUnfit) && code === undefined) throw error;
      const why =
        code === undefined ? 'is not a regular file and was not opened' : `cannot be read (${code})`;
      const { file } = this.options;
      this.findings.push(finding('access_log_unreadable', { file }, file, why));
    }
    return this.#piece.length > 0;
  }
}

function contradicted(
  file: string,
  { sequence, lines, proved, had, fitsFrom }: Contradiction,
): VerifyFinding {
  const proof = proved > 0 ? `; the first ${proved} match the head before it` : '';
  const again = fitsFrom === undefined ? '' : `; from entry ${fitsFrom} on the heads match again`;
  const place = { file };
  if (had < lines) return finding('lines_missing', place, file, sequence, lines, had, proof + again);
  if (had > lines) return finding('lines_fewer', place, file, sequence, lines, again);
  const first = Math.min(proved + 1, lines);
  return finding('lines_altered', place, file, sequence, first, lines, proof + again);
}
