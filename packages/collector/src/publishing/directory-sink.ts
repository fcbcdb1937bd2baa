/**
 * `dir:` gives each checkpoint a file of its own, `<size, 16 digits>.checkpoint`, that is made, flushed and never
 * touched again: so it can be a WORM mount, which allows no rename and no second writing.
 *
 * A crash may leave a file that is cut short. What is missing is appended, or where that is not allowed, the note
 * goes to `<size>-2.checkpoint`.
 *
 * The directory is never made. If it is a mount point and nothing is mounted on it, checkpoints go to this host's
 * own disk and nobody can tell from here.
 */
import path from 'node:path';
import type { Checkpoint } from '@clinical-events/protocol/verify';
import { systemCode } from '../system-code.js';
import { diskTrouble } from './disk-trouble.js';
import { assertGoesOnFrom, otherLog, ownCheckpoint, type LogView } from './log-view.js';
import type { SinkFiles } from './sink-files.js';
import { SinkForked, SinkTrouble, type Attempt, type Published, type Sink } from './sink.js';

const DIGITS = 16;
/** Files that are looked through, from the last name on, until one holds a checkpoint of this log. */
const LOOK_AT = 8;
/** Names for one size. */
const MOST_NAMES = 9;
/** So many files before the publisher hears of it. */
const BATCH = 32;
const LONGEST_NOTE = 64 * 1024;

export interface DirectorySinkOptions {
  readonly path: string;
  readonly shown: string;
  readonly files: SinkFiles;
  readonly log: LogView;
}

export class DirectorySink implements Sink {
  readonly wants = 'every';
  readonly shown: string;
  /** Whether the newest checkpoint there was held against the ledger. */
  #examined = false;
  /** The file that contradicts the ledger. Looked at first, because a large directory takes minutes to read. */
  #contradiction: string | undefined;

  constructor(private readonly options: DirectorySinkOptions) {
    this.shown = options.shown;
  }

  async deliver(notes: readonly Published[], attempt: Attempt): Promise<number> {
    try {
      if (!this.#examined) await this.#examine(attempt);
      const batch = notes.slice(0, BATCH);
      for (const published of batch) {
        await this.#give(published, attempt);
        attempt.progress();
      }
      return batch.length;
    } catch (error) {
      // The next try looks anew: by then the directory may be another one.
      if (error instanceof SinkForked) this.#examined = false;
      throw diskTrouble(this.options.path, error);
    }
  }

  /** @throws {@link SinkForked} when the directory holds a checkpoint of a longer or another ledger. */
  async #examine(attempt: Attempt): Promise<void> {
    const { path: directory, files } = this.options;
    if (this.#contradiction !== undefined) {
      const there = await files.tail(this.#contradiction, LONGEST_NOTE);
      if (there !== undefined) await this.#compare(this.#contradiction, there.bytes, attempt);
    }
    const names = `^\\d{${DIGITS}}(-\\d)?\\.checkpoint$`;
    const found = await files.last(directory, names, LOOK_AT, () => attempt.progress());
    for (const { name, bytes } of found) {
      if (await this.#compare(path.join(directory, name), bytes, attempt)) break;
    }
    this.#examined = true;
  }

  /**
   * @returns the checkpoint in the file if it is one of this log.
   * @throws {@link SinkForked} when it contradicts the ledger.
   */
  async #compare(
    file: string,
    bytes: Uint8Array,
    { newest, alsoHolds }: Attempt,
  ): Promise<Checkpoint | undefined> {
    const { log } = this.options;
    const note = Buffer.from(bytes).toString();
    const held = ownCheckpoint(note, newest.origin, log);
    if (held === undefined) {
      const other = otherLog(note, newest.origin);
      if (other !== undefined) alsoHolds(other);
      return undefined;
    }
    this.#contradiction = file;
    await assertGoesOnFrom(held, newest, `${file} is`, log);
    this.#contradiction = undefined;
    return held;
  }

  /** On return the directory holds this note, or one of the same tree. */
  async #give({ note, checkpoint }: Published, attempt: Attempt): Promise<void> {
    const { path: directory, files } = this.options;
    const bytes = Buffer.from(note);
    const name = String(checkpoint.size).padStart(DIGITS, '0');
    for (let k = 1; k <= MOST_NAMES; k++) {
      const file = path.join(directory, `${name}${k === 1 ? '' : `-${k}`}.checkpoint`);
      const there = await files.create(file, bytes);
      if (there === undefined || bytes.equals(there)) return;
      if (bytes.subarray(0, there.length).equals(there)) {
        if (await this.#complete(file, bytes.subarray(there.length))) return;
        continue;
      }
      // The same tree, signed by another key of this log.
      const held = await this.#compare(file, there, attempt);
      if (held?.size === checkpoint.size) return;
    }
    throw new SinkTrouble(
      `${directory} holds ${MOST_NAMES} files for ${checkpoint.size} entries that are not of this log`,
    );
  }

  /** @returns whether a file that was cut short is whole now. */
  async #complete(file: string, rest: Uint8Array): Promise<boolean> {
    try {
      await this.options.files.append(file, rest, false);
      return true;
    } catch (error) {
      const code = systemCode(error);
      if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') return false;
      throw error;
    }
  }
}
