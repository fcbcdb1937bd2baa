/**
 * `checkpoints/trouble.json`: since when, and why, a running collector cannot make checkpoints. For `doctor`. A disk that
 * is full keeps the file out too; who runs in the same process is told by {@link CheckpointTrouble.state}.
 */
import { isInstant, isLine, StateFile } from './state-file.js';

/** Named as in the file. */
export interface CheckpointTroubleState {
  /** When the first of the tries failed, across starts: an instant, RFC 3339 in UTC. */
  readonly since: string;
  /** Why the newest one did: an error's text, which holds no secret. */
  readonly reason: string;
}

const FILE = new StateFile('trouble.json', 'why no checkpoint could be made', isTrouble);
/** A reason is shown on a line of a terminal. */
const LONGEST_REASON = 1000;

/**
 * @returns undefined when checkpoints were made the last time that any were owed.
 * @throws StateFileDamaged that names the file, or the system's error when it cannot be read.
 */
export function readCheckpointTrouble(dataDir: string): CheckpointTroubleState | undefined {
  return FILE.read(dataDir);
}

/** Keeps the trouble that a collector has with its checkpoints. Nothing here throws: a full disk is such a trouble. */
export class CheckpointTrouble {
  /** What the file says. */
  #kept: CheckpointTroubleState | undefined;
  /** Whether there is trouble, also when the file could not be written. */
  #since: string | undefined;
  /** Of the newest failure; empty when the file of the start before could not be read. */
  #reason = '';

  constructor(
    private readonly dataDir: string,
    private readonly now: () => number = Date.now,
  ) {
    try {
      this.#kept = FILE.read(dataDir);
      this.#since = this.#kept?.since;
      this.#reason = this.#kept?.reason ?? '';
    } catch {
      // Written anew, or removed.
      this.#since = this.#instant();
    }
  }

  /** What is so, whether or not the file says it. */
  get state(): CheckpointTroubleState | undefined {
    return this.#since === undefined ? undefined : { since: this.#since, reason: this.#reason };
  }

  /** A checkpoint could not be made. The file is written when that is news. */
  failed(why: string): void {
    const reason = why.replace(/\p{Cc}+/gu, ' ').slice(0, LONGEST_REASON);
    this.#since ??= this.#instant();
    this.#reason = reason;
    if (this.#kept?.reason === reason) return;
    const trouble = { since: this.#since, reason };
    try {
      FILE.write(this.dataDir, trouble);
      this.#kept = trouble;
    } catch {
      // The next failure tries again.
    }
  }

  /** No checkpoint is owed any more. @returns whether there was trouble before. */
  over(): boolean {
    if (this.#since === undefined) return false;
    try {
      FILE.remove(this.dataDir);
    } catch {
      // The next checkpoint tries again, and it is not over before that.
      return false;
    }
    this.#since = undefined;
    this.#kept = undefined;
    return true;
  }

  #instant(): string {
    return new Date(this.now()).toISOString();
  }
}

function isTrouble(value: unknown): value is CheckpointTroubleState {
  if (typeof value !== 'object' || value === null) return false;
  const { since, reason } = value as Record<string, unknown>;
  return isInstant(since) && isLine(reason);
}
