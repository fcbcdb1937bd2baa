/**
 * The tree over the readings (RFC 6962): what proves later that no line of `access.log` was altered, removed or put in
 * another order. Each line is a leaf, also one that a crash has torn.
 *
 * Commands append to the log in processes of their own. Here it is looked at once an interval, whole lines that came
 * are taken in, flushed, and a checkpoint over all lines so far signed. What was taken in stays in memory as a root,
 * and is not read again: so a line that is changed while a collector runs is never signed for, and the next start or
 * `collector verify` finds it. A start reads the log from its beginning; while its lines do not come to the root that
 * was signed, no checkpoint takes the place of the one that proves it. Where that one is missing, a line of its own says
 * so, and is signed with the others. A line by which a restore goes on from a back-up gives the log another name from
 * there on (integrity/restore-line.ts), and nothing is given out in the old one any more.
 *
 * Nothing waits for any of this: it is done a piece at a time between batches of events, and no trouble with it is one
 * of the ledger's.
 */
import { formatCheckpoint, parseNote, type Checkpoint } from '@clinical-events/protocol/verify';
import {
  accessLogCheckpoint,
  accessLogKey,
  accessLogOrigin,
  keysFor,
  restoreIn,
} from '../integrity/access-log-keys.js';
import { GrowingTree } from '../integrity/growing-tree.js';
import { LineLeaves } from '../integrity/line-leaves.js';
import { LONGEST_RESTORE_LINE, restoreLineIn } from '../integrity/restore-line.js';
import type { CheckpointSigner } from '../integrity/signer.js';
import type { AccessLogStore } from '../store/access-log-store.js';

export interface AccessLogTreeOptions {
  readonly store: AccessLogStore;
  readonly signer: CheckpointSigner;
  /**
   * Where a collector has run before, whose checkpoint is then missing if there is none: the line, of so many that were
   * found, that is put behind them before they are signed, and says for ever that nothing proves those before it.
   */
  readonly adoptionLine: ((lines: number) => string) | undefined;
  /** Milliseconds between two looks at the log. */
  readonly intervalMs: number;
  /** This is the newest checkpoint now: the one found at the start, or a new one. Nobody waits for what this does. */
  readonly onCheckpoint: (note: string) => void;
  /** No checkpoint could be made; it is tried again. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** The log is not the one that was signed. Told once; no checkpoint is made any more. */
  readonly onAltered: (reason: string) => void;
}

/** About a millisecond's work. */
const PIECE_BYTES = 64 << 10;
/** How long to wait at most before trouble is met again. */
const MOST_REST_MS = 60_000;
const LINE_FEED = 0x0a;
const FILE = 'access.log';
const CHECKPOINT = 'checkpoints/access-log';

/** Ends all signing. */
class Altered extends Error {}

export class AccessLogTree {
  readonly #options: AccessLogTreeOptions;
  readonly #tree = GrowingTree.at({ hashes: () => Buffer.alloc(0) }, 0);
  /** Where the lines that were taken in end. */
  #bytes = 0;
  /** Whether the checkpoint of the process before was looked for. */
  #looked = false;
  /** The newest checkpoint. */
  #signed: Checkpoint | undefined;
  /** The key that has signed it, unless that is not the current one. */
  #signedAs: string | undefined;
  /** Its note, until the log was seen to agree with it. */
  #doubted: string | undefined;
  /** The restores that the lines tell of; before the first the log has its first name. */
  readonly #restores: (string | undefined)[] = [undefined];
  /** Whether the line stands that says that the checkpoint was missing. */
  #adopted = false;
  #altered = false;
  /** Whether the attempt that is under way succeeds. */
  #working: Promise<boolean> | undefined;
  /** Nothing is tried before this, on the clock of `performance.now`: the last attempt failed. */
  #restUntil = 0;
  #restMs = 0;
  #timer: NodeJS.Timeout | undefined;

  private constructor(options: AccessLogTreeOptions) {
    this.#options = options;
  }

  /**
   * Looks after the log from now on. On return the very first checkpoint of a log is signed, unless that is not
   * possible now; a later start is not held up by a long log. Never rejects.
   */
  static async open(options: AccessLogTreeOptions): Promise<AccessLogTree> {
    const opened = new AccessLogTree(options);
    const first = (opened.#working = opened.#try());
    opened.#timer = setInterval(() => {
      if (performance.now() >= opened.#restUntil) opened.#working ??= opened.#try();
    }, options.intervalMs);
    if (opened.#doubted === undefined) await first;
    return opened;
  }

  /** On return the last checkpoint is signed, unless that is not possible now. Never rejects. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    // A signer that has just failed may have taken all its time for it, and is not asked once more.
    if ((await this.#working) !== false) await this.#try();
  }

  /** @returns whether it succeeded. */
  async #try(): Promise<boolean> {
    try {
      if (!this.#altered) await this.#advance();
      this.#restMs = 0;
      return true;
    } catch (error) {
      if (error instanceof Altered) {
        this.#altered = true;
        this.#options.onAltered(error.message);
        return true;
      }
      this.#restMs = Math.min(MOST_REST_MS, Math.max(this.#options.intervalMs, 2 * this.#restMs));
      this.#restUntil = performance.now() + this.#restMs;
      this.#options.onTrouble('no checkpoint of access.log could be made; it is tried again', error);
      return false;
    } finally {
      this.#working = undefined;
    }
  }

  /** Takes in, flushes, signs, swaps, publishes. */
  async #advance(): Promise<void> {
    const { store, signer, onCheckpoint } = this.#options;
    if (!this.#looked) this.#look();
    await this.#takeIn();
    if (this.#signed === undefined) await this.#adopt();
    const origin = accessLogOrigin(signer.origin, this.#restores.at(-1));
    // One of before a restore may be older than what was given out in the same name.
    if (this.#doubted !== undefined && this.#signed?.origin === origin) onCheckpoint(this.#doubted);
    this.#doubted = undefined;
    const { size } = this.#tree;
    // A key that took over signs once more: readings are seldom, and who knows this key alone would wait for long.
    if (size === this.#signed?.size && this.#signedAs === signer.keys.at(-1)?.vkey) return;
    const root = this.#tree.root();
    // Or power that is lost could take lines that were signed for. It still can once a flush has failed, because the
    // kernel then forgets what it could not write: verify says that they are missing, and they are.
    if (size > 0) await store.flush();
    const note = await signer.sign(formatCheckpoint({ origin, size, root }), origin);
    await store.setCheckpoint(note);
    this.#signed = { origin, size, root };
    this.#signedAs = signer.keys.at(-1)?.vkey;
    onCheckpoint(note);
  }

  /** Finds the checkpoint that the process before has left. */
  #look(): void {
    const { store, signer } = this.#options;
    const note = store.checkpoint();
    this.#looked = true;
    if (note === undefined) return;
    try {
      this.#signed = accessLogCheckpoint(note, signer.keys.map(accessLogKey));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new Altered(`${CHECKPOINT} is not a checkpoint of this access log: ${reason}`);
    }
    this.#doubted = note;
    const current = signer.keys.at(-1);
    const { signatures } = parseNote(note);
    if (current === undefined) return;
    const [{ keyId } = accessLogKey(current)] = keysFor(this.#signed.origin, [accessLogKey(current)]);
    if (signatures.some((signature) => signature.keyId === keyId)) this.#signedAs = current.vkey;
  }

  /** A log that had no checkpoint is never signed as though it had been whole: whoever changed it may have removed that. */
  async #adopt(): Promise<void> {
    const { store, adoptionLine, onTrouble } = this.#options;
    if (adoptionLine === undefined || this.#adopted) return;
    const { size } = this.#tree;
    store.append(adoptionLine(size));
    this.#adopted = true;
    const what = `access.log had no checkpoint: nothing proves its ${size} lines from before, and a line there says so`;
    onTrouble(what, undefined);
    await this.#takeIn();
  }

  /** Takes in the whole lines that there are by now, in pieces. */
  async #takeIn(): Promise<void> {
    const { store } = this.#options;
    const end = store.size() ?? 0;
    if (end < this.#bytes) throw new Altered(`${FILE} is shorter than it was, or gone`);
    const before = this.#bytes - 1;
    if (before >= 0 && end > this.#bytes && store.read(before, 1)[0] !== LINE_FEED) {
      throw new Altered(`${FILE} was changed among the lines that were signed`);
    }
    const lines = new LineLeaves(LONGEST_RESTORE_LINE);
    for (let at = this.#bytes; at < end;) {
      const piece = store.read(at, Math.min(PIECE_BYTES, end - at));
      if (piece.length === 0) break;
      at += piece.length;
      for (const { leaf, length, bytes } of lines.take(piece)) {
        this.#restored(bytes);
        this.#add(leaf, length);
      }
      this.#tree.drain();
      await new Promise(setImmediate);
    }
    const { size } = this.#tree;
    if (this.#doubted === undefined || this.#signed === undefined) return;
    if (size < this.#signed.size) {
      throw new Altered(`${FILE} has ${size} whole lines, and ${this.#signed.size} were signed`);
    }
    if (this.#restores.includes(restoreIn(this.#signed.origin))) return;
    throw new Altered(`${CHECKPOINT} was signed after a restore that ${FILE} does not tell of`);
  }

  /** The log goes on under another name when the line is that of a restore. */
  #restored(bytes: Buffer | undefined): void {
    const line = restoreLineIn(bytes);
    if (line === undefined) return;
    const { size } = this.#tree;
    if (line.lines !== size || !line.root.equals(this.#tree.root())) {
      throw new Altered(`line ${size + 1} of ${FILE} tells of a restore, and not of the lines before it`);
    }
    this.#restores.push(line.log);
  }

  #add(leaf: Buffer, length: number): void {
    this.#tree.append(leaf, 1);
    this.#bytes += length;
    if (this.#doubted === undefined || this.#signed?.size !== this.#tree.size) return;
    if (this.#tree.root().equals(this.#signed.root)) return;
    throw new Altered(`the first ${this.#signed.size} lines of ${FILE} are not those that were signed`);
  }
}
