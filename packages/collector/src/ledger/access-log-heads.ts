/**
 * Puts the head of the access log's chain (tree/access-chain.ts) into the ledger, as an entry of its own, so that
 * the ledger's checkpoints prove the lines of the access log as they prove the events.
 *
 * Commands append in processes of their own. Once an interval the lines that came are taken in and flushed, and when
 * the head has changed, an entry with it is stored. What was taken in is not read again: a line that is changed later
 * does not come to the heads that are in the log, which `verify` finds. Where the log itself shows that it was
 * altered, that is reported, and it is read from its beginning: the lines that come from then on are under heads
 * again.
 *
 * Nothing waits for any of this, and no trouble with it is one of the ledger's.
 */
import { ENTRY_KINDS } from '@clinical-events/protocol';
import { AccessChain, headFields, headIn, type AccessHead } from '../tree/access-chain.js';
import { AccessLogAltered, AccessLogUnfit, type AccessLogStore } from '../store/contract/access-log.js';
import { type Candidate } from '../store/contract/events.js';
import { ownEntry } from './own-entry.js';

export interface AccessLogHeadsOptions {
  readonly store: AccessLogStore;
  /** The body of the newest entry of this kind in the log, if it is known. */
  readonly newest: Buffer | undefined;
  /** Stores an entry, durably. Rejects when it is not stored; it is tried again. */
  readonly append: (entry: Candidate) => Promise<void>;
  /** No head could be stored; it is tried again. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** The lines are not those that were taken in, or that the log has a head of. */
  readonly onAltered: (reason: string) => void;
}

/** How long to wait at most before trouble is met again. */
const MOST_REST_MS = 60_000;
const WRITER = 'accesslog000';

export class AccessLogHeads {
  readonly #options: AccessLogHeadsOptions;
  #chain = new AccessChain();
  /** Of the newest head in the log. */
  #newest: AccessHead | undefined;
  /** The head that the process before has left, until the lines have come to it. */
  #due: AccessHead | undefined;
  #alteredAs: string | undefined;
  #working: Promise<void> | undefined;
  /** Nothing is tried before this, on the clock of `performance.now`: the last attempt failed. */
  #restUntil = 0;
  #restMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #intervalMs = 0;

  constructor(options: AccessLogHeadsOptions) {
    this.#options = options;
    this.#newest = this.#due = options.newest && headIn(options.newest);
  }

  /** Looks at the log at once and from now on. */
  start(intervalMs: number): this {
    this.#intervalMs = intervalMs;
    const look = () => {
      if (performance.now() >= this.#restUntil) this.look().catch(() => undefined);
    };
    this.#timer = setInterval(look, intervalMs);
    look();
    return this;
  }

  /**
   * On return the log has a head of all whole lines that there were, unless that is not possible now. Never rejects.
   */
  look(): Promise<void> {
    return (this.#working ??= this.#try().finally(() => (this.#working = undefined)));
  }

  /** Looks for the last time. To be called while entries can still be stored. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#working;
    await this.look();
  }

  async #try(): Promise<void> {
    try {
      await this.#takeIn();
      await this.#store();
      this.#restMs = 0;
    } catch (error) {
      if (error instanceof AccessLogAltered || error instanceof AccessLogUnfit) {
        this.#restart(error.message);
        return error instanceof AccessLogAltered ? this.#try() : undefined;
      }
      this.#restMs = Math.min(MOST_REST_MS, Math.max(this.#intervalMs, 2 * this.#restMs));
      this.#restUntil = performance.now() + this.#restMs;
      this.#options.onTrouble('the head of access.log could not be stored; it is tried again', error);
    }
  }

  /** Reports it once, and has the log read from its beginning. */
  #restart(reason: string): void {
    if (this.#alteredAs !== reason) this.#options.onAltered(reason);
    this.#alteredAs = reason;
    this.#chain = new AccessChain();
    this.#due = undefined;
  }

  /** Takes in the whole lines that there are by now. */
  async #takeIn(): Promise<void> {
    const chain = this.#chain;
    chain.rewind();
    const pieces = this.#options.store.lines({ lines: chain.lines, at: chain.bytes });
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

  async #store(): Promise<void> {
    const { store, append } = this.#options;
    const { head } = this.#chain;
    if (head.head === this.#newest?.head || (this.#newest === undefined && head.lines === 0)) return;
    // Or power that is lost could take lines that the log has a head of.
    if (head.lines > 0) await store.flush();
    await append(ownEntry(ENTRY_KINDS.accessLogHead, WRITER, headFields(head)));
    this.#newest = head;
  }
}
