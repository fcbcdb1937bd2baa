/**
 * Checks for `verify` and `doctor` that `access.log` matches its heads in the log (tree/access-chain.ts). It
 * is read at the same time as the log: the lines that a head covers were on disk before the head.
 */
import { counted } from '../../quantity.js';
import { AccessChain, headIn, type AccessHead } from '../../tree/access-chain.js';
import { AccessLogAltered, AccessLogUnfit, type AccessLogStore } from '../../store/contract/access-log.js';
import { systemCode } from '../../system-code.js';
import { lineIn, LONGEST_LINE } from '../access-lines.js';
import { finding, type VerifyFinding } from '../../store/findings.js';

export interface AccessLogState {
  /** Complete lines; an access has two. */
  readonly lines: number;
  /** Number of lines covered by a head in the log. */
  readonly covered: number;
  /** Heads in the log. */
  readonly heads: number;
  /** Accesses of other commands without a logged end: still running, or killed. */
  readonly unended: number;
  /** Lines cut short by a crash or a full disk. */
  readonly torn: number;
  /** Beginning of the last access: an instant, RFC 3339 in UTC. */
  readonly last: string | undefined;
  /** Faults and notes. */
  readonly findings: readonly VerifyFinding[];
}

/** A head in the log that the lines do not match. */
interface Contradiction extends AccessHead {
  /** Sequence of its entry. */
  readonly sequence: number;
  /** Number of lines that match the previous head. */
  readonly proved: number;
  /** Number of lines when the head was checked. */
  readonly had: number;
  /** The entry of the first later head that matches the lines. */
  fitsFrom: number | undefined;
}

const LOG = 'access.log';
const PLACE = { file: LOG };

export class AccessLogCheck {
  readonly #chain = new AccessChain(LONGEST_LINE);
  readonly #findings: VerifyFinding[] = [];
  readonly #log: AccessLogStore;
  #pieces: AsyncGenerator<Buffer, void>;
  #piece: Buffer = Buffer.alloc(0);
  /** Heads not yet compared with the lines. */
  #queued: { readonly sequence: number; readonly body: Buffer }[] = [];
  #unreadable = false;
  #heads = 0;
  #covered = 0;
  #contradiction: Contradiction | undefined;
  #torn = 0;
  #begun = 0;
  #ended: number;
  /** The newest access by `collector backup` that has not ended. */
  #backup: string | undefined;
  #last: string | undefined;
  /** The number of lines not written by a command, and the first of them. */
  #foreign = 0;
  #firstForeign = 0;

  /**
   * @param ownAccesses the number of accesses of the calling command, which cannot have ended.
   * @param isMirror whether the log is a copy of a log in a database, where other roles may have written
   *   lines.
   */
  constructor(
    log: AccessLogStore,
    ownAccesses = 0,
    private readonly isMirror = false,
  ) {
    this.#log = log;
    this.#pieces = this.#log.lines();
    this.#ended = ownAccesses;
  }

  /**
   * Queues the next head of the log.
   * @param body of its entry; it is copied.
   */
  head(sequence: number, body: Buffer): void {
    this.#queued.push({ sequence, body: Buffer.from(body) });
  }

  /** Compares the queued heads with the lines. */
  async settle(): Promise<void> {
    const queued = this.#queued;
    this.#queued = [];
    for (const { sequence, body } of queued) await this.#settle(sequence, body);
  }

  async #settle(sequence: number, body: Buffer): Promise<void> {
    const head = headIn(body);
    if (head === undefined) {
      this.#findings.push(finding('head_unknown', { sequence }, sequence));
      return;
    }
    this.#heads++;
    await this.#readTo(head.lines);
    const { lines, head: reached } = this.#chain.head;
    if (lines === head.lines && reached === head.head) {
      if (this.#contradiction !== undefined) this.#contradiction.fitsFrom ??= sequence;
      this.#covered = lines;
    } else {
      this.#contradiction ??= {
        ...{ ...head, sequence, proved: this.#covered, had: lines, fitsFrom: undefined },
      };
    }
  }

  /**
   * Ends the check; call once, after the last head. @returns undefined if there are neither lines nor heads.
   */
  async finish(): Promise<AccessLogState | undefined> {
    await this.settle();
    await this.#readTo(Infinity);
    await this.#reportForeign();
    this.#report();
    const { lines } = this.#chain;
    if (lines === 0 && this.#heads === 0 && this.#findings.length === 0) return undefined;
    return {
      ...{ lines, covered: this.#covered, heads: this.#heads, torn: this.#torn, last: this.#last },
      unended: Math.max(0, this.#begun - this.#ended),
      findings: this.#findings,
    };
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
        this.#pieces = this.#log.lines({ lines: this.#chain.lines, at: this.#chain.bytes });
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
      this.#findings.push(finding('access_log_unreadable', PLACE, LOG, why));
    }
    return this.#piece.length > 0;
  }

  #line(bytes: Buffer | undefined): void {
    const line = lineIn(bytes);
    if (line === 'torn') this.#torn++;
    else if (line === 'foreign') {
      if (this.#foreign++ === 0) this.#firstForeign = this.#chain.lines;
    } else if (line.state === 'ended') {
      this.#ended++;
      if (line.reading === this.#backup) this.#backup = undefined;
    } else {
      // A back-up contains the log as it was before the end of its own access was logged.
      if (line.command === 'restore' && this.#backup !== undefined) {
        this.#ended++;
        this.#backup = undefined;
      }
      this.#begun++;
      this.#last = line.at;
      if (line.command === 'backup') this.#backup = line.reading;
    }
  }

  /**
   * In a database, a role may add lines without being able to change the log; the chain covers such lines
   * too.
   */
  async #reportForeign(): Promise<void> {
    if (this.#foreign === 0) return;
    const isShared = this.isMirror || this.#log.writerOf !== undefined;
    const writer = await this.#log.writerOf?.(this.#firstForeign);
    const name = isShared ? 'line_foreign_shared' : 'line_foreign';
    this.#findings.push(finding(name, PLACE, LOG, this.#firstForeign, this.#foreign - 1, writer ?? ''));
  }

  #report(): void {
    const { pending } = this.#chain;
    if (this.#contradiction !== undefined && !this.#unreadable)
      this.#findings.push(contradicted(this.#contradiction));
    if (this.#torn > 0) this.#findings.push(finding('lines_torn', PLACE, LOG, this.#torn));
    if (pending > 0) this.#findings.push(finding('last_line_torn', PLACE, LOG, pending));
  }
}

function contradicted({ sequence, lines, proved, had, fitsFrom }: Contradiction): VerifyFinding {
  const proof = proved > 0 ? `; the first ${proved} match the head before it` : '';
  const again = fitsFrom === undefined ? '' : `; from entry ${fitsFrom} on the heads match again`;
  if (had < lines) return finding('lines_missing', PLACE, LOG, sequence, lines, had, proof + again);
  if (had > lines) return finding('lines_fewer', PLACE, LOG, sequence, lines, again);
  const first = Math.min(proved + 1, lines);
  return finding('lines_altered', PLACE, LOG, sequence, first, lines, proof + again);
}

/** A one-line summary for people: lines, lines without a head, and accesses without an end. */
export function accessLogText({ lines, covered, unended, last }: AccessLogState): string {
  if (lines === 0) return 'no access was logged';
  return [
    covered >= lines
      ? counted(lines, 'line')
      : `${counted(lines, 'line')}, ${lines - covered} of them not covered by a head in the log`,
    ...(unended === 0 ? [] : [`${counted(unended, 'access', 'accesses')} without a logged end`]),
    ...(last === undefined ? [] : [`the last began at ${last}`]),
  ].join('; ');
}
