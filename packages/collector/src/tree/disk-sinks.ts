/**
 * `dir:` gives each checkpoint a file of its own, `<size, 16 digits>.checkpoint`, that is made, flushed and never
 * touched again: so it can be a WORM mount, which allows no rename and no second writing.
 *
 * A file that a crash cut short stays as it is, and the note goes to `<size>-2.checkpoint`.
 *
 * The directory is never made. If it is a mount point and nothing is mounted on it, checkpoints go to this host's
 * own disk and no one can tell from here.
 */
import path from 'node:path';
import { type Checkpoint, parseNote, splitNotes } from '@clinical-events/protocol/verify';
import { systemCode } from '../system-code.js';
import { type SinkFiles, diskTrouble } from './sink-files.js';
import { assertGoesOnFrom, otherLog, ownCheckpoint, type LogView } from './sink-queue.js';
import { type Attempt, type Published, type Sink, SinkForked, SinkTrouble } from './sink.js';

const DIGITS = 16;
/** Files that are looked through, from the last name on, until one holds a checkpoint of this log. */
const LOOK_AT = 8;
/** So many files before the publisher hears of it. */
const FILES_AT_ONCE = 32;
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
      const batch = notes.slice(0, FILES_AT_ONCE);
      for (const published of batch) {
        await this.#give(published, attempt);
        attempt.progress();
      }
      return batch.length;
    } catch (error) {
      // The next try looks again: by then the directory may be another one.
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
    const size = String(checkpoint.size).padStart(DIGITS, '0');
    for (const name of [size, `${size}-2`]) {
      const file = path.join(directory, `${name}.checkpoint`);
      const there = await files.create(file, bytes);
      if (there === undefined || bytes.equals(there)) return;
      // The same tree, signed by another key of this log.
      const held = await this.#compare(file, there, attempt);
      if (held?.size === checkpoint.size) return;
    }
    throw new SinkTrouble(
      `${directory} holds two files for ${checkpoint.size} entries that are no checkpoints of this log`,
    );
  }
}

/*
 * `file:` appends each checkpoint to a file, with an empty line behind it.
 *
 * What a crash cut short stays, and gets an end that is no signature: so whoever takes the file apart (splitNotes) takes
 * neither the next note for a part of it nor the rest of a signature for a forged one.
 *
 * The file is opened again for each delivery, so it may be moved aside at any time (log rotation). That it holds less
 * than it was left with is reported all the same: anyone who hides a fork cuts it.
 */

/** Many notes: what begins where this does is the beginning of the file. */
const TAIL_BYTES = 16 * 1024;
const NOTES_AT_ONCE = 64;
const CUT = '\u2014 the note above was cut short\n\n';

export interface FileSinkOptions {
  readonly path: string;
  readonly shown: string;
  readonly files: SinkFiles;
  readonly log: LogView;
}

export class FileSink implements Sink {
  readonly wants = 'every';
  readonly shown: string;
  /** The last of this log that is there and agrees with it: behind it another log of ours may have been given. */
  #last: string | undefined;
  /** It had at least so many bytes. */
  #size = 0;

  constructor(private readonly options: FileSinkOptions) {
    this.shown = options.shown;
  }

  async deliver(notes: readonly Published[], attempt: Attempt): Promise<number> {
    const { path: file, files } = this.options;
    try {
      const tail = await files.tail(file, TAIL_BYTES);
      const batch = notes.slice(0, NOTES_AT_ONCE);
      const size = tail?.size ?? 0;
      if (size < this.#size) attempt.lost();
      const more = await this.#continuation(tail?.bytes, batch, attempt);
      // Also when it is nothing: what is there already may not have been flushed.
      await files.append(file, more);
      this.#last = batch.at(-1)?.note;
      this.#size = size + more.length;
      return batch.length;
    } catch (error) {
      const missing = systemCode(error) === 'ENOENT';
      throw diskTrouble(missing ? path.dirname(file) : file, error);
    }
  }

  /** What has to be appended so that the file ends with these notes. */
  async #continuation(
    tail: Uint8Array | undefined,
    batch: readonly Published[],
    attempt: Attempt,
  ): Promise<Buffer> {
    const notes = batch.map(({ note }) => note);
    const bytes = Buffer.from(tail ?? []);
    const held = splitNotes(bytes.toString());
    const last = held.at(-1);
    if (last !== this.#last) {
      // The first of a full tail lacks its beginning, and would have the end of a name for a name.
      tellOfOthers(bytes.length < TAIL_BYTES ? held : held.slice(1), attempt);
      if (last !== undefined && !notes.includes(last)) await this.#examine(held, attempt.newest);
    }
    const next = notes.slice(notes.findLastIndex((note) => held.includes(note)) + 1);
    const [first] = next;
    if (first === undefined) return Buffer.alloc(0);
    return Buffer.from(seam(bytes.toString(), last, first) + next.map((note) => `${note}\n`).join(''));
  }

  /** @throws SinkForked when the last checkpoint of this log there is one of a longer or another ledger. */
  async #examine(held: readonly string[], newest: Checkpoint): Promise<void> {
    const { path: file, log } = this.options;
    for (const note of held.toReversed()) {
      if (note === this.#last) return;
      const checkpoint = ownCheckpoint(note, newest.origin, log);
      if (checkpoint === undefined) continue;
      await assertGoesOnFrom(checkpoint, newest, `at the end of ${file} is`, log);
      return;
    }
  }
}

/** The newest one of another log is enough. */
function tellOfOthers(held: readonly string[], { newest, alsoHolds }: Attempt): void {
  for (const note of held.toReversed()) {
    const other = otherLog(note, newest.origin);
    if (other === undefined) continue;
    alsoHolds(other);
    return;
  }
}

/** What goes between the end of the file, which `last` is, and a note, so that the note is found there. */
function seam(file: string, last: string | undefined, note: string): string {
  if (last === undefined) return '';
  if (isWhole(last)) return file.endsWith('\n\n') ? '' : '\n';
  return splitNotes(`${file}\n${CUT}${note}`).at(-1) === note ? `\n${CUT}` : `\n\n${CUT}`;
}

function isWhole(note: string): boolean {
  try {
    parseNote(note);
    return true;
  } catch {
    return false;
  }
}
