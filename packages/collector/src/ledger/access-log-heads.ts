/**
 * Stores the head of the access log's chain (tree/access-chain.ts) in the ledger, as a separate entry, so
 * that the ledger's checkpoints prove the lines of the access log as they prove events.
 *
 * Commands append lines in separate processes. At each interval the new lines are read and flushed; when the
 * head has changed, an entry with it is stored. Lines that were read are not read again: if one is changed
 * later, the heads in the log no longer match, which `verify` finds. When the access log itself shows an
 * alteration, that is reported, and it is read again from its beginning, so that later lines get heads.
 *
 * Once a later file exists, the head over all lines of a file closes it, unless its lines are not those under
 * a head. A line that a process still appended to a closed file is covered by a further closing head.
 *
 * Nothing waits for this work, and its failures do not affect the ledger.
 */
import { ENTRY_KINDS } from '@clinical-events/protocol';
import { AccessChain, FIRST_FILE, headFields, headIn, inOrderOfYears } from '../tree/access-chain.js';
import type { LoggedHead } from '../tree/access-chain.js';
import { AccessLogAltered, AccessLogUnfit, type AccessLogStore } from '../store/contract/access-log.js';
import { type Candidate } from '../store/contract/events.js';
import { ownEntry } from './own-entry.js';

export interface AccessLogHeadsOptions {
  readonly store: AccessLogStore;
  /** The body of the newest entry of this kind in the log, if known. */
  readonly newest: Buffer | undefined;
  /** Stores an entry, durably. Rejects when it is not stored; the caller tries again. */
  readonly append: (entry: Candidate) => Promise<void>;
  /** A head could not be stored; it is tried again. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** The lines differ from those that were read, or from those under a head. The reason names the file. */
  readonly onAltered: (reason: string) => void;
}

/** The longest pause after a failure. */
const MOST_REST_MS = 60_000;
const WRITER = 'accesslog000';
const NO_LINES = new AccessChain().head;

export class AccessLogHeads {
  readonly #options: AccessLogHeadsOptions;
  /** The file whose lines are read. */
  #file: string;
  #chain = new AccessChain();
  /** The file that this process closed last. */
  #closed: { readonly file: string; readonly chain: AccessChain; lines: number } | undefined;
  /** The newest head in the log. */
  #newest: LoggedHead | undefined;
  /** The head that the previous process stored, until the lines match it. */
  #due: LoggedHead | undefined;
  /** Reported last. */
  #alteredAs: string | undefined;
  /** Whether the lines of the file are not those under a head, and whether its heads show that. */
  #altered: 'marked' | 'unmarked' | undefined;
  #working: Promise<void> | undefined;
  /** The earliest time of the next attempt after a failure, on the clock of `performance.now`. */
  #restUntil = 0;
  #restMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #intervalMs = 0;

  constructor(options: AccessLogHeadsOptions) {
    this.#options = options;
    this.#newest = this.#due = options.newest && headIn(options.newest);
    this.#file = this.#newest?.file ?? (this.#newest ? FIRST_FILE : (this.#files()[0] ?? FIRST_FILE));
  }

  /** Reads the log immediately and then at each interval. */
  start(intervalMs: number): this {
    this.#intervalMs = intervalMs;
    const look = () => {
      if (performance.now() >= this.#restUntil) this.look().catch(() => undefined);
    };
    this.#timer = setInterval(look, intervalMs);
    look();
    return this;
  }

  /** On return the log has a head over all complete lines, unless that is impossible now. Never rejects. */
  look(): Promise<void> {
    return (this.#working ??= this.#try().finally(() => (this.#working = undefined)));
  }

  /** Reads the log for the last time. Call while entries can still be stored. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#working;
    await this.look();
  }

  async #try(): Promise<void> {
    try {
      await this.#takeLate();
      // The next file is found first: no line is appended to this one later, unless its process was slow.
      for (let next = this.#next(); ; next = this.#next()) {
        const isClosed = this.#newestOfFile?.closes === true;
        if (next === undefined || !isClosed) {
          await this.#takeIn();
          await this.#store(next !== undefined);
        }
        if (next === undefined) break;
        this.#turnTo(next);
      }
      this.#restMs = 0;
    } catch (error) {
      if (error instanceof AccessLogAltered || error instanceof AccessLogUnfit) {
        this.#restart(error);
        const next = error instanceof AccessLogUnfit ? this.#next() : undefined;
        if (next !== undefined) this.#turnTo(next);
        return next !== undefined || error instanceof AccessLogAltered ? this.#try() : undefined;
      }
      this.#restMs = Math.min(MOST_REST_MS, Math.max(this.#intervalMs, 2 * this.#restMs));
      this.#restUntil = performance.now() + this.#restMs;
      this.#options.onTrouble('the head of the access log could not be stored; it is tried again', error);
    }
  }

  /** Reports the alteration once, and reads the log again from its beginning. */
  #restart(error: AccessLogAltered | AccessLogUnfit): void {
    const isAltered = error instanceof AccessLogAltered;
    const reason = isAltered ? `${this.#file}: ${error.message}` : error.message;
    if (this.#alteredAs !== reason) this.#options.onAltered(reason);
    this.#alteredAs = reason;
    this.#chain = new AccessChain();
    if (isAltered) this.#altered = 'unmarked';
    this.#due = isAltered ? undefined : this.#newestOfFile;
  }

  /** Reads the lines that are complete by now. */
  async #takeIn(): Promise<void> {
    const chain = this.#chain;
    chain.rewind();
    const pieces = this.#options.store.lines({ lines: chain.lines, at: chain.bytes, file: this.#file });
    for await (const piece of pieces) chain.take(piece, () => this.#compare());
    const due = this.#due;
    if (due !== undefined && chain.lines < due.lines) {
      throw new AccessLogAltered(`it has ${chain.lines} whole lines, and the log has a head of ${due.lines}`);
    }
    this.#due = undefined;
  }

  #compare(): void {
    const due = this.#due;
    if (due?.lines !== this.#chain.lines || due.head === this.#chain.head.head) return;
    throw new AccessLogAltered(`its first ${due.lines} lines are not those that the log has a head of`);
  }

  /**
   * In an altered file, a head over no lines comes before one over as many lines as the newest: the numbers
   * decrease, so that the heads show the alteration even when the file is elsewhere.
   */
  async #store(isLast: boolean): Promise<void> {
    const { head } = this.#chain;
    const newest = this.#newestOfFile;
    const closes = isLast && this.#altered === undefined;
    if (!closes && (head.lines === 0 || head.head === newest?.head)) return;
    const file = this.#file;
    if (this.#altered === 'unmarked' && newest !== undefined && head.lines >= newest.lines)
      await this.#append({ ...NO_LINES, file });
    this.#altered &&= 'marked';
    await this.#append({ ...head, file, closes: closes || newest?.closes === true });
    if (closes) this.#closed = { file, chain: this.#chain, lines: head.lines };
  }

  async #append(head: LoggedHead): Promise<void> {
    const { store, append } = this.#options;
    // Otherwise a power failure could remove lines that are under a head.
    if (head.lines > 0) await store.flush(head.file);
    await append(ownEntry(ENTRY_KINDS.accessLogHead, WRITER, headFields(head)));
    this.#newest = head;
  }

  /** Covers lines that were appended to the closed file after it was read. */
  async #takeLate(): Promise<void> {
    const closed = this.#closed;
    if (closed === undefined) return;
    const { file, chain } = closed;
    chain.rewind();
    try {
      for await (const piece of this.#options.store.lines({ lines: chain.lines, at: chain.bytes, file }))
        chain.take(piece);
    } catch (error) {
      if (!(error instanceof AccessLogAltered || error instanceof AccessLogUnfit)) throw error;
      // It was moved away, or verify reports the alteration.
      this.#closed = undefined;
      return;
    }
    if (chain.lines === closed.lines) return;
    await this.#append({ ...chain.head, file, closes: true });
    closed.lines = chain.lines;
  }

  #files(): readonly string[] {
    return this.#options.store.files?.() ?? [];
  }

  #next(): string | undefined {
    const all = inOrderOfYears(new Set([...this.#files(), this.#file]));
    return all[all.indexOf(this.#file) + 1];
  }

  get #newestOfFile(): LoggedHead | undefined {
    return (this.#newest?.file ?? FIRST_FILE) === this.#file ? this.#newest : undefined;
  }

  #turnTo(file: string): void {
    this.#file = file;
    this.#chain = new AccessChain();
    this.#due = this.#alteredAs = this.#altered = undefined;
  }
}
