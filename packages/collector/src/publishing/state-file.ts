/**
 * Small files in `checkpoints` by which a running collector tells `doctor` how it fares, in another process and often
 * after it has ended.
 *
 * Replaced by a rename and not flushed: after a power loss the file of the start before, or none, says as much as it
 * did, and it is written anew within seconds of the next start.
 */
import fs from 'node:fs';
import path from 'node:path';
import { systemCode } from '../system-code.js';

/** The file is not one that a collector wrote. */
export class StateFileDamaged extends Error {
  override name = 'StateFileDamaged';
}

/** Anything longer was not written by a collector. */
const MOST_BYTES = 1 << 20;

export class StateFile<State> {
  constructor(
    private readonly name: string,
    /** What it holds, for a message. */
    private readonly what: string,
    private readonly isState: (value: unknown) => value is State,
  ) {}

  /**
   * @returns undefined when there is none.
   * @throws {@link StateFileDamaged} that names the file, or the system's error when it cannot be read.
   */
  read(dataDir: string): State | undefined {
    const file = this.#path(dataDir);
    let text: string;
    try {
      if (fs.statSync(file).size > MOST_BYTES)
        throw new StateFileDamaged(`${file} is too large to be one of ours`);
      text = fs.readFileSync(file, 'utf8');
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return undefined;
      throw error;
    }
    let read: unknown;
    try {
      read = JSON.parse(text);
    } catch (cause) {
      throw new StateFileDamaged(`${file} is not JSON`, { cause });
    }
    if (this.isState(read)) return read;
    throw new StateFileDamaged(`${file} does not hold ${this.what}`);
  }

  /** On return the file holds this. @throws the system's error. */
  write(dataDir: string, state: State): void {
    const file = this.#path(dataDir);
    fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
    const unfinished = `${file}.unfinished`;
    fs.rmSync(unfinished, { force: true });
    // Never through a link that somebody has put there meanwhile.
    fs.writeFileSync(unfinished, `${JSON.stringify(state, undefined, 2)}\n`, { mode: 0o600, flag: 'wx' });
    fs.renameSync(unfinished, file);
  }

  /** On return there is no such file. @throws the system's error. */
  remove(dataDir: string): void {
    fs.rmSync(this.#path(dataDir), { force: true });
  }

  #path(dataDir: string): string {
    return path.join(dataDir, 'checkpoints', this.name);
  }
}

/** Whether it is text that a terminal may be shown. */
export function isLine(value: unknown): value is string {
  return typeof value === 'string' && !/\p{Cc}/u.test(value);
}

/** Whether it is RFC 3339 in UTC, as Date writes it. */
export function isInstant(value: unknown): value is string {
  return (
    typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) && !Number.isNaN(Date.parse(value))
  );
}
