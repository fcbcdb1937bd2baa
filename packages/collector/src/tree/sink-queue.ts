import { type Checkpoint, parseCheckpoint, parseNote } from '@clinical-events/protocol/verify';
import { type HashSource, TilesIncomplete, rootAt } from './merkle.js';
import { type NoteKey, verifyNote } from './note-signing.js';
import { systemCode } from '../system-code.js';
import { type Published, type Sink, SinkForked, SinkTrouble } from './sink.js';
import type { SinkState } from './state-files.js';

/*
 * What a checkpoint that someone else holds says about the ledger here. A sink is the one place that anyone who
 * changed this host could not change as well, so what lies there is believed, and the ledger is held against it.
 */

/** The log as far as its checkpoints need it. */
export interface LogView {
  /** The root of the ledger's tree, at least up to the newest checkpoint. Rejects with a {@link SinkTrouble}. */
  readonly rootAt: (size: number) => Promise<Uint8Array>;
  /** How many entries the ledger holds now, those under no checkpoint yet among them. */
  readonly entries: () => number;
  /** Every key that may have signed a checkpoint of this log. */
  readonly logKeys: () => readonly NoteKey[];
}

/** @throws NoteMalformed. No signature is checked. */
export function checkpointOf(note: string): Checkpoint {
  return parseCheckpoint(parseNote(note).text);
}

/** @returns the checkpoint in the note if it is one of this log and signed by its key, else undefined. */
export function ownCheckpoint(note: string, origin: string, { logKeys }: LogView): Checkpoint | undefined {
  // Most often it is: a place that holds checkpoints of two logs must not cost a signature for each.
  if (!note.startsWith(`${origin}\n`)) return undefined;
  try {
    const { text, signedBy } = verifyNote(note, logKeys());
    return signedBy.some(({ name }) => name === origin) ? parseCheckpoint(text) : undefined;
  } catch {
    // Cut short, of another log, or put there by someone else: it says nothing about this ledger.
    return undefined;
  }
}

const UNSHOWABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
const LONGEST_NAME = 120;

/**
 * @returns the name of another log, when the note is a checkpoint that says to be of one; fit to be shown on a
 *   terminal. Its signature is not checked: there is no key of that log to check it by.
 */
export function otherLog(note: string, origin: string): string | undefined {
  try {
    const { origin: other } = checkpointOf(note);
    return other === origin ? undefined : other.replace(UNSHOWABLE, '?').slice(0, LONGEST_NAME);
  } catch {
    return undefined;
  }
}

/**
 * Returns when the log, whose newest checkpoint is `newest`, goes on from the tree that `held` speaks of.
 * @param held an own checkpoint.
 * @param where it was found, for the message.
 * @throws {@link SinkForked} when it does not, {@link SinkTrouble} when the tree cannot tell.
 */
export async function assertGoesOnFrom(
  held: Checkpoint,
  newest: Checkpoint,
  where: string,
  log: LogView,
): Promise<void> {
  if (held.size > newest.size) {
    throw new SinkForked(
      `${where} a checkpoint of ${held.size} entries, and this ledger has ${sizeOf(log, newest)}: ` +
        'it was restored from an older back-up, or entries were cut off its end',
    );
  }
  if (Buffer.from(held.root).equals(await log.rootAt(held.size))) return;
  throw new SinkForked(
    `${where} a checkpoint of ${held.size} entries that are not the first ${held.size} of this ledger: ` +
      'it was altered, or restored from an older back-up and then went on differently; see collector verify',
  );
}

/** How many entries the ledger holds, which are more than its newest checkpoint covers while some wait for the next. */
export function sizeOf({ entries }: LogView, newest: Checkpoint): number {
  return Math.max(newest.size, entries());
}

/** @throws {@link SinkTrouble} when the tree lacks hashes. */
export async function rootIn(tiles: HashSource, size: number): Promise<Buffer> {
  try {
    return await rootAt(tiles, size);
  } catch (error) {
    throw treeTrouble(error);
  }
}

/** What to report when the tree cannot give a root or a proof. */
export function treeTrouble(error: unknown): SinkTrouble {
  if (error instanceof TilesIncomplete) {
    return new SinkTrouble(`${error.message}; see collector verify`, { cause: error });
  }
  const code = systemCode(error);
  const reason = code === undefined ? '' : ` (${code})`;
  return new SinkTrouble(`the tree of this ledger cannot be read${reason}`, { cause: error });
}

/** Times in milliseconds. */
export interface RetryPolicy {
  /** Between the first failure and the next try; doubles from failure to failure. */
  readonly firstMs: number;
  readonly mostMs: number;
  /** For a try, or for a stretch of a long one. */
  readonly tryMs: number;
}

/** How many checkpoints wait for a sink that is owed every one: 1,000 seconds of them, 300 KB. */
const MOST_WAITING = 1000;
/** So many are handed to a sink at once. */
const BATCH = 64;
/** Anybody can write names of logs into a shared place; no one needs more of them. */
const MOST_OTHERS = 8;

export interface SinkQueueOptions {
  readonly retryPolicy: RetryPolicy;
  /** What the last collector left. */
  readonly before: SinkState | undefined;
  readonly now: () => number;
  /** Told when trouble begins, and when it becomes another. */
  readonly onTrouble: (message: string) => void;
  /** Told instead when the sink has seen a checkpoint of this log that the ledger does not agree with. */
  readonly onForked: (message: string) => void;
  /** Told once of each other log whose checkpoints lie in the same place; the sink is used all the same. */
  readonly onShared: (origin: string) => void;
  /** Told each time that something is gone which the sink had taken; it is used all the same. */
  readonly onLost: () => void;
  readonly onRecovered: () => void;
  /** @param changed whether it is more than that one more checkpoint was delivered. */
  readonly onState: (changed: boolean) => void;
}

/**
 * One sink, and what waits for it.
 *
 * Invariants: one try is under way at most, also when its time is up, because a call to a disk cannot be taken back;
 * what is delivered leaves the queue, and what fails stays in its place; the newest is never dropped.
 */
export class SinkQueue {
  /** Oldest first. */
  #queue: Published[] = [];
  /** So many from the front are in the hands of the sink. */
  #handed = 0;
  #state: SinkState | undefined;
  #dropped = 0;
  /** Other logs in the same place. */
  readonly #others = new Set<string>();
  /** When something that it had taken was last found gone. */
  #lostAt: string | undefined;
  #controller: AbortController | undefined;
  /** The trouble that was told of, until the recovery is: its message, or that it is a contradiction. */
  #reported: string | undefined;
  #failures = 0;
  #running: Promise<void> | undefined;
  #endBackOff: () => void = () => undefined;
  #phase: 'open' | 'closing' | 'closed' = 'open';

  constructor(
    private readonly sink: Sink,
    private readonly options: SinkQueueOptions,
  ) {
    this.#state = options.before;
  }

  /** Undefined before the first try has come to something. */
  get state(): SinkState | undefined {
    if (this.#state === undefined) return undefined;
    const other = [...this.#others].at(-1);
    // What the last collector had to drop, it has told.
    return {
      ...this.#state,
      dropped: this.#dropped,
      ...(other !== undefined && { also_holds: other }),
      ...(this.#lostAt !== undefined && { lost_at: this.#lostAt }),
    };
  }

  /** Checkpoints that are not delivered yet. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** Never throws and never waits. */
  offer(published: Published): void {
    if (this.#phase !== 'open') return;
    if (this.sink.wants === 'newest') this.#queue.length = this.#handed;
    this.#queue.push(published);
    if (this.#queue.length > MOST_WAITING) {
      this.#queue.splice(this.#handed, 1);
      this.#dropped++;
      this.options.onState(false);
    }
    this.#running ??= this.#run();
  }

  /** Resolves when the sink has everything, or has failed once more. Nothing is taken any more. */
  async close(): Promise<void> {
    if (this.#phase === 'open') this.#phase = 'closing';
    this.#endBackOff();
    await this.#running;
  }

  /** Gives up what is under way or waits. Nothing is told any more, but the state says so. */
  abandon(): void {
    if (this.#phase === 'closed') return;
    const left = this.#queue.length;
    if (left > 0) {
      if (this.#state?.state !== 'failing' && this.#state?.state !== 'forked') {
        this.#enterTrouble('failing', 'had not taken the newest checkpoint when the collector ended');
      }
      if (this.sink.wants === 'every') this.#dropped += left;
    }
    this.#phase = 'closed';
    this.#controller?.abort();
    this.#endBackOff();
  }

  async #run(): Promise<void> {
    // Anyone who publishes does not wait for a sink's first steps.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#queue.length > 0 && this.#phase !== 'closed') {
      const begun = this.#phase;
      if (await this.#try()) continue;
      // One that began before the end says little of the newest; one that began after it was the last.
      if (begun === 'closing') break;
      await this.#backOff();
    }
    this.#running = undefined;
  }

  /** @returns whether anything was delivered. */
  async #try(): Promise<boolean> {
    const newest = this.#queue.at(-1);
    if (newest === undefined) return false;
    if (this.sink.wants === 'newest') this.#queue = [newest];
    const notes = this.#queue.slice(0, BATCH);
    this.#handed = notes.length;
    const { tryMs } = this.options.retryPolicy;
    const controller = (this.#controller = new AbortController());
    const { signal } = controller;
    const limit = setTimeout(() => {
      this.#failed(new SinkTrouble(`gives no answer within ${tryMs / 1000} seconds`));
      controller.abort();
    }, tryMs).unref();
    try {
      const given = await this.sink.deliver(notes, {
        newest: newest.checkpoint,
        signal,
        progress: () => {
          if (!signal.aborted) limit.refresh();
        },
        alsoHolds: (origin) => this.#shared(origin),
        lost: () => this.#lost(),
      });
      this.#queue.splice(0, given);
      this.#delivered(notes[given - 1]);
      return given > 0;
    } catch (error) {
      // What comes of having called it off is no news.
      if (!signal.aborted || error instanceof SinkForked) this.#failed(error);
      return false;
    } finally {
      clearTimeout(limit);
      this.#handed = 0;
    }
  }

  async #backOff(): Promise<void> {
    if (this.#phase !== 'open') return;
    const { firstMs, mostMs } = this.options.retryPolicy;
    const most = Math.min(mostMs, firstMs * 2 ** (this.#failures - 1));
    // Sinks that failed together do not come back together.
    const ms = most * (0.5 + Math.random() / 2);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms).unref();
      this.#endBackOff = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#endBackOff = () => undefined;
  }

  #shared(origin: string): void {
    if (this.#phase === 'closed' || this.#others.has(origin) || this.#others.size === MOST_OTHERS) return;
    this.#others.add(origin);
    this.options.onShared(origin);
    this.options.onState(true);
  }

  #lost(): void {
    if (this.#phase === 'closed') return;
    this.#lostAt = this.#instant();
    this.options.onLost();
    this.options.onState(true);
  }

  #delivered(last: Published | undefined): void {
    if (last === undefined || this.#phase === 'closed') return;
    const changed = this.#state?.state !== 'ok';
    this.#failures = 0;
    this.#state = {
      sink: this.sink.shown,
      state: 'ok',
      size: last.checkpoint.size,
      at: this.#instant(),
    };
    this.options.onState(changed);
    if (this.#reported === undefined) return;
    this.#reported = undefined;
    this.options.onRecovered();
  }

  #failed(error: unknown): void {
    if (this.#phase === 'closed') return;
    this.#failures++;
    const trouble =
      error instanceof SinkTrouble ? error : new SinkTrouble('cannot be used', { cause: error });
    const before = this.#state;
    this.#enterTrouble(trouble.state, trouble.message);
    this.options.onState(before?.state !== trouble.state || before.message !== trouble.message);
    // A contradiction stays the same one while the ledger grows, and its message has the ledger's size.
    const what = trouble.state === 'forked' ? trouble.state : trouble.message;
    if (this.#reported === what) return;
    this.#reported = what;
    if (trouble.state === 'forked') this.options.onForked(trouble.message);
    else this.options.onTrouble(trouble.message);
  }

  #enterTrouble(state: 'failing' | 'forked', message: string): void {
    const { size, at, failing_since } = this.#state ?? {};
    this.#state = {
      sink: this.sink.shown,
      state,
      ...(size !== undefined && { size }),
      ...(at !== undefined && { at }),
      failing_since: failing_since ?? this.#instant(),
      message,
    };
  }

  #instant(): string {
    return new Date(this.options.now()).toISOString();
  }
}
