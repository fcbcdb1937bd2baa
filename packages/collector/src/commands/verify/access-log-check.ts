/**
 * Whether `access.log` is the one whose heads stand in the log (tree/access-chain.ts), for `verify` and `doctor`. It is
 * read beside the log: what a head speaks of was on the disk before the head was.
 */
import { counted } from '../../quantity.js';
import { AccessChain, headIn, type AccessHead } from '../../tree/access-chain.js';
import { AccessLogAltered, AccessLogUnfit, type AccessLogStore } from '../../store/contract/access-log.js';
import { systemCode } from '../../system-code.js';
import { lineIn, LONGEST_LINE } from '../access-lines.js';
import { finding, type VerifyFinding } from '../../store/findings.js';

export interface AccessLogState {
  /** Whole lines; an access has two. */
  readonly lines: number;
  /** How many of them come to a head in the log. */
  readonly covered: number;
  /** Heads in the log. */
  readonly heads: number;
  /** Accesses by others without a logged end: they still run, or were killed. */
  readonly unended: number;
  /** Lines that a crash or a full disk has cut short. */
  readonly torn: number;
  /** When the last access began: an instant, RFC 3339 in UTC. */
  readonly last: string | undefined;
  /** Notes among them. */
  readonly findings: readonly VerifyFinding[];
}

/** A head in the log that the lines do not come to. */
interface Contradiction extends AccessHead {
  /** Of its entry. */
  readonly sequence: number;
  /** How many lines before come to the head before it. */
  readonly proved: number;
  /** How many lines there were when it was looked for. */
  readonly had: number;
  /** The entry of the first head behind it that the lines come to. */
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
  /** Heads that the lines were not held against yet. */
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
  /** How many lines no command has written, and which is the first. */
  #foreign = 0;
  #firstForeign = 0;

  /**
   * @param ownAccesses how many of the accesses are of the command that asks, and cannot have ended.
   * @param isMirror whether the log is a copy of one in a database, where others than commands have put lines before now.
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
   * Takes the next head of the log.
   * @param body of the entry with it; it is copied.
   */
  head(sequence: number, body: Buffer): void {
    this.#queued.push({ sequence, body: Buffer.from(body) });
  }

  /** Holds the lines against the heads that were taken. */
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

  /** To be called once, behind the last head. @returns undefined when there is neither a line nor a head. */
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

  /** Reads on until there are so many lines, or no more. */
  async #readTo(lines: number): Promise<void> {
    let again = true;
    while (this.#chain.lines < lines && !this.#unreadable) {
      if (this.#piece.length === 0 && !(await this.#readPiece())) {
        // What a head speaks of was there before the head, and may have come since the lines were begun to be read.
        if (!again) return;
        again = false;
        this.#chain.rewind();
        this.#pieces = this.#log.lines({ lines: this.#chain.lines, at: this.#chain.bytes });
        continue;
      }
      // Up to the line that is wanted: the chain has to be looked at there.
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
      // Cut while it is read: what was read of it is held against the heads.
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
      // A back-up was copied before the end of its own access could be logged.
      if (line.command === 'restore' && this.#backup !== undefined) {
        this.#ended++;
        this.#backup = undefined;
      }
      this.#begun++;
      this.#last = line.at;
      if (line.command === 'backup') this.#backup = line.reading;
    }
  }

  /** In a database a role that may add a line may not change the log: the chain covers such a line too. */
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

/** On a line of a person's: how far the log is under heads, and what is not known of its accesses. */
export function accessLogText({ lines, covered, unended, last }: AccessLogState): string {
  if (lines === 0) return 'no access was logged';
  return [
    `${counted(lines, 'line')}${covered >= lines ? '' : `, ${lines - covered} of them under no head in the log`}`,
    ...(unended === 0 ? [] : [`${counted(unended, 'access', 'accesses')} without a logged end`]),
    ...(last === undefined ? [] : [`the last began at ${last}`]),
  ].join('; ');
}
