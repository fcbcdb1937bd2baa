/**
 * Checks for `verify` and `doctor` that the access log matches its heads in the log (tree/access-chain.ts).
 * It is read at the same time as the log: the lines that a head covers were on disk before the head.
 */
import { counted } from '../../quantity.js';
import { FIRST_FILE, headIn, inOrderOfYears, type LoggedHead } from '../../tree/access-chain.js';
import type { AccessLogStore } from '../../store/contract/access-log.js';
import { openClosedLog } from '../../store/open-access-log.js';
import type { AccessLine, ClosedFiles } from '../access-lines.js';
import { finding, type VerifyFinding } from '../../store/findings.js';
import { AccessLogFileCheck } from './access-log-file-check.js';

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
  /** Closed files that were moved away and not given, with the number of their lines. */
  readonly unchecked: readonly { readonly file: string; readonly lines: number }[];
  /** Faults and notes. */
  readonly findings: readonly VerifyFinding[];
}

export interface AccessLogCheckOptions {
  /** The number of accesses of the calling command, which cannot have ended. */
  readonly ownAccesses?: number | undefined;
  /** Whether the log is a copy of a log in a database, where other roles may have written lines. */
  readonly isMirror?: boolean;
  /** None has the name of a file of the log. */
  readonly closedFiles?: ClosedFiles | undefined;
}

/** The heads of a file that is not here. */
interface MissingFile {
  /** The first over the most lines. */
  most: { readonly sequence: number; readonly head: LoggedHead };
  isClosed: boolean;
  /** About the first head that contradicts one before it. */
  contradiction: VerifyFinding | undefined;
}

export class AccessLogCheck {
  readonly #findings: VerifyFinding[] = [];
  readonly #log: AccessLogStore;
  readonly #isMirror: boolean;
  readonly #given: ClosedFiles;
  readonly #files = new Map<string, AccessLogFileCheck>();
  readonly #missing = new Map<string, MissingFile>();
  /** Heads not yet compared with the lines. */
  #queued: { readonly sequence: number; readonly body: Buffer }[] = [];
  #heads = 0;
  #begun = 0;
  #ended: number;
  /** The newest access by `collector backup` that has not ended. */
  #backup: string | undefined;
  /** The beginning of the last access in each file. */
  readonly #last = new Map<string, string>();

  constructor(log: AccessLogStore, options: AccessLogCheckOptions = {}) {
    const { ownAccesses = 0, isMirror = false, closedFiles = new Map() } = options;
    this.#log = log;
    this.#ended = ownAccesses;
    this.#isMirror = isMirror;
    this.#given = closedFiles;
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
    for (const { sequence, body } of queued) {
      const head = headIn(body);
      if (head === undefined) {
        this.#findings.push(finding('head_unknown', { sequence, file: FIRST_FILE }, sequence));
        continue;
      }
      this.#heads++;
      const name = head.file ?? FIRST_FILE;
      if (this.#isHere(name)) await this.#file(name).compare(sequence, head);
      else this.#takeMissing(name, { sequence, head });
    }
  }

  /**
   * Ends the check; call once, after the last head. @returns undefined if there are neither lines nor heads.
   */
  async finish(): Promise<AccessLogState | undefined> {
    await this.settle();
    const unchecked = await this.#settleMissing();
    const here = this.#log.files?.() ?? [FIRST_FILE];
    const names = inOrderOfYears(new Set([...here, ...this.#given.keys(), ...this.#files.keys()]));
    // A head of another version may close a file.
    const areKnown = this.#findings.length === 0;
    for (const name of names) {
      const file = this.#file(name);
      await file.finish(areKnown && name !== names.at(-1));
      this.#findings.push(...file.findings);
    }
    const lines = this.#sum((file) => file.lines);
    if (lines === 0 && this.#heads === 0 && this.#findings.length === 0) return undefined;
    return {
      ...{ lines, covered: this.#sum((file) => file.covered), heads: this.#heads, unchecked },
      ...{ torn: this.#sum((file) => file.torn), unended: Math.max(0, this.#begun - this.#ended) },
      last: this.#last.get(inOrderOfYears([...this.#last.keys()]).at(-1) ?? ''),
      findings: this.#findings,
    };
  }

  /** A closed file may be elsewhere; the lines of another one are missing. */
  async #settleMissing(): Promise<AccessLogState['unchecked']> {
    const unchecked: { file: string; lines: number }[] = [];
    for (const [file, { most, isClosed, contradiction }] of this.#missing) {
      if (!isClosed) {
        await this.#file(file).compare(most.sequence, most.head);
        continue;
      }
      unchecked.push({ file, lines: most.head.lines });
      if (contradiction !== undefined) this.#findings.push(contradiction);
    }
    return unchecked;
  }

  /** The numbers of lines never decrease, and a number has one hash. */
  #takeMissing(name: string, { sequence, head }: MissingFile['most']): void {
    const most = { sequence, head };
    const found = this.#missing.get(name) ?? { most, isClosed: false, contradiction: undefined };
    this.#missing.set(name, found);
    const { lines, head: hash } = found.most.head;
    if (head.lines < lines || (head.lines === lines && head.head !== hash))
      found.contradiction ??= finding('heads_differ', { file: name }, name, sequence, found.most.sequence);
    if (head.lines > lines) found.most = most;
    found.isClosed ||= head.closes === true;
  }

  /** A head comes after the file was created, so a file that is not here was removed. */
  #isHere(name: string): boolean {
    if (this.#files.has(name) || this.#given.has(name)) return true;
    return !this.#missing.has(name) && this.#log.files?.().includes(name) !== false;
  }

  #file(name: string): AccessLogFileCheck {
    const given = this.#given.get(name);
    const log = given === undefined ? this.#log : openClosedLog(given);
    const isShared = this.#isMirror || this.#log.writerOf !== undefined;
    const onLine = (line: AccessLine) => this.#line(name, line);
    const found = this.#files.get(name) ?? new AccessLogFileCheck({ file: name, log, isShared, onLine });
    this.#files.set(name, found);
    return found;
  }

  #sum(count: (file: AccessLogFileCheck) => number): number {
    return [...this.#files.values()].reduce((sum, file) => sum + count(file), 0);
  }

  #line(file: string, line: AccessLine): void {
    if (line.state === 'ended') {
      this.#ended++;
      if (line.reading === this.#backup) this.#backup = undefined;
      return;
    }
    // A back-up contains the log as it was before the end of its own access was logged.
    if (line.command === 'restore' && this.#backup !== undefined) {
      this.#ended++;
      this.#backup = undefined;
    }
    this.#begun++;
    this.#last.set(file, line.at);
    if (line.command === 'backup') this.#backup = line.reading;
  }
}

/** A one-line summary for people: lines, lines without a head or not checked, and accesses without an end. */
export function accessLogText(state: AccessLogState, option = '--access-log'): string {
  const { lines, covered, unended, last, unchecked } = state;
  const notChecked = unchecked.map(
    (closed) => `${counted(closed.lines, 'line')} of ${closed.file} not checked (${option})`,
  );
  if (lines === 0) return notChecked.join('; ') || 'no access was logged';
  return [
    covered >= lines
      ? counted(lines, 'line')
      : `${counted(lines, 'line')}, ${lines - covered} of them not covered by a head in the log`,
    ...notChecked,
    ...(unended === 0 ? [] : [`${counted(unended, 'access', 'accesses')} without a logged end`]),
    ...(last === undefined ? [] : [`the last began at ${last}`]),
  ].join('; ');
}
