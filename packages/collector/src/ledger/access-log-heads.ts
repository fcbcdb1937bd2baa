/**
 * Puts the head of the access log's chain (integrity/access-chain.ts) into the ledger, as an entry of its own, so that
 * the ledger's checkpoints prove the lines of `access.log` as they prove the events.
 *
 * Commands append to the file in processes of their own. Here it is looked at once an interval; whole lines that came
 * are taken in, flushed, and when the head has changed, an entry with it is stored. What was taken in is not read again:
 * a line that is changed later does not come to the heads that are in the log, which `verify` finds for good. Where the
 * file itself shows that it was changed, that is told, and it is read from its beginning: the lines that come from then
 * on are under heads again.
 *
 * Nothing waits for any of this: it is done a piece at a time between batches of events, and no trouble with it is one
 * of the ledger's.
 */
import { ENTRY_KINDS } from '@clinical-events/protocol';
import { AccessChain, headFields, headIn, type AccessHead } from '../integrity/access-chain.js';
import { AccessLogUnfit, type AccessLogStore } from '../store/access-log-store.js';
import type { Candidate } from '../store/store.js';
import { ownEntry } from './own-entry.js';

export interface AccessLogHeadsOptions {
  readonly store: AccessLogStore;
  /** The body of the newest entry of this kind in the log, as far as it is known. */
  readonly newest: Buffer | undefined;
  /** Stores an entry, durably. Rejects when it is not stored; it is tried again. */
  readonly append: (entry: Candidate) => Promise<void>;
  /** Milliseconds between two looks at the file; none is made by itself when undefined. */
  readonly intervalMs?: number;
  /** No head could be stored; it is tried again. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** The lines are not those that were taken in, or that the log has a head of. */
  readonly onAltered: (reason: string) => void;
}

/** About a millisecond's work. */
const PIECE_BYTES = 64 << 10;
/** How long to wait at most before trouble is met again. */
const MOST_REST_MS = 60_000;
const LINE_FEED = 0x0a;
const WRITER = 'accesslog000';

class Altered extends Error {}

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
  readonly #timer: NodeJS.Timeout | undefined;

  /** Looks after the file from now on, if there is an interval. */
  constructor(options: AccessLogHeadsOptions) {
    this.#options = options;
    this.#newest = this.#due = options.newest && headIn(options.newest);
    const { intervalMs } = options;
    if (intervalMs === undefined) return;
    const look = () => {
      if (performance.now() >= this.#restUntil) this.look().catch(() => undefined);
    };
    this.#timer = setInterval(look, intervalMs);
    look();
  }

  /** On return the log has a head of all whole lines that there were, unless that is not possible now. Never rejects. */
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
      if (error instanceof Altered || error instanceof AccessLogUnfit) {
        this.#startAnew(error.message);
        return error instanceof Altered ? this.#try() : undefined;
      }
      const { onTrouble, intervalMs = 0 } = this.#options;
      this.#restMs = Math.min(MOST_REST_MS, Math.max(intervalMs, 2 * this.#restMs));
      this.#restUntil = performance.now() + this.#restMs;
      onTrouble('the head of access.log could not be stored; it is tried again', error);
    }
  }

  /** Tells it once, and has the file read from its beginning. */
  #startAnew(reason: string): void {
    if (this.#alteredAs !== reason) this.#options.onAltered(reason);
    this.#alteredAs = reason;
    this.#chain = new AccessChain();
    this.#due = undefined;
  }

  /** Takes in the whole lines that there are by now. */
  async #takeIn(): Promise<void> {
    const { store } = this.#options;
    const chain = this.#chain;
    const end = store.size();
    if (end < chain.bytes) throw new Altered('it is shorter than it was, or gone');
    if (chain.bytes > 0 && end > chain.bytes && store.read(chain.bytes - 1, 1)[0] !== LINE_FEED) {
      throw new Altered('it was changed among the lines that the log has heads of');
    }
    chain.rewind();
    for (let at = chain.bytes; at < end;) {
      const piece = store.read(at, Math.min(PIECE_BYTES, end - at));
      if (piece.length === 0) break;
      at += piece.length;
      chain.take(piece, () => this.#compare());
      await new Promise(setImmediate);
    }
    const due = this.#due;
    if (due !== undefined && chain.lines < due.lines) {
      throw new Altered(`it has ${chain.lines} whole lines, and the log has a head of ${due.lines}`);
    }
    this.#due = undefined;
  }

  #compare(): void {
    const due = this.#due;
    if (due?.lines !== this.#chain.lines || due.head === this.#chain.head.head) return;
    throw new Altered(`its first ${due.lines} lines are not those that the log has a head of`);
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
