/**
 * `dir:` gives each checkpoint a file of its own, `<size, 16 digits>.checkpoint`, that is made, flushed and never
 * touched again: so it can be a WORM mount, which allows no rename and no second writing.
 *
 * A crash may leave a file that is cut short. What is missing is appended, or where that is not allowed, the note
 * goes to `<size>-2.checkpoint`.
 *
 * The directory is never made. If it is a mount point and nothing is mounted on it, checkpoints go to this host's
 * own disk and no one can tell from here.
 */
import path from 'node:path';
import { type Checkpoint, NoteUnsigned, splitNotes } from '@clinical-events/protocol/verify';
import { systemCode } from '../system-code.js';
import { type SinkFiles, diskTrouble } from './sink-files.js';
import { assertGoesOnFrom, otherLog, ownCheckpoint, type LogView } from './sink-queue.js';
import { type Attempt, type Published, type Sink, SinkForked, SinkTrouble } from './sink.js';
import { verifyNote, type NoteKey } from '../integrity/note-signing.js';

const DIGITS = 16;
/** Files that are looked through, from the last name on, until one holds a checkpoint of this log. */
const LOOK_AT = 8;
/** Names for one size. */
const MOST_NAMES = 9;
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

/*
 * `file:` appends each checkpoint to a file, with an empty line behind it.
 *
 * A crash may leave the last one cut short. What is missing is appended when this is the note that comes next, as
 * it most often is: a start begins with the newest. Otherwise it is ended as one that was cut short, so that anyone who
 * takes the file apart (splitNotes) does not take the next one for a part of it.
 *
 * The file is opened again for each delivery, so it may be moved aside at any time (log rotation). That it holds less
 * than it was left with is reported all the same: anyone who hides a fork cuts it.
 */

/** Many notes: what begins where this does is the beginning of the file. */
const TAIL_BYTES = 16 * 1024;
const NOTES_AT_ONCE = 64;
/** Ends a signature that was cut short; no one takes it for a forged one then. */
const CUT_SIGNATURE = ' (cut short)\n\n';
/** Ends a text that was cut short: it begins as a signature does. */
const CUT_TEXT = '\u2014 the note above was cut short\n\n';

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
      await files.append(file, more, true);
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
    const units = notes.map((note) => Buffer.from(`${note}\n`));
    const begun = units.map((unit) => begunAt(bytes, unit));
    // Whole but perhaps for its empty line, or else cut short.
    let at = begun.findLastIndex((length, i) => length >= (units[i]?.length ?? 0) - 1);
    if (at === -1) at = begun.findIndex((length) => length > 0);
    const rest = at === -1 ? Buffer.from(this.#seam(bytes, last, notes[0] ?? '')) : Buffer.alloc(0);
    return Buffer.concat([rest, ...units.slice(Math.max(at, 0))]).subarray(begun[at] ?? 0);
  }

  /** What goes between the end of the file and a note, so that the note is found there. */
  #seam(bytes: Buffer, last: string | undefined, note: string): string {
    if (last === undefined) return '';
    const ended = bytes.at(-1) === NEWLINE;
    const empty = ended ? (bytes.at(-2) === NEWLINE ? '' : '\n') : '\n\n';
    const plain = ended || isWhole(last, this.options.log.logKeys()) ? empty : CUT_SIGNATURE;
    const found = splitNotes(`${bytes.toString()}${plain}${note}\n`).at(-1) === note;
    return found ? plain : empty + CUT_TEXT;
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

const NEWLINE = 0x0a;

/** The newest one of another log is enough. */
function tellOfOthers(held: readonly string[], { newest, alsoHolds }: Attempt): void {
  for (const note of held.toReversed()) {
    const other = otherLog(note, newest.origin);
    if (other === undefined) continue;
    alsoHolds(other);
    return;
  }
}

/** False for a note that lacks its end. */
function isWhole(note: string, logKeys: readonly NoteKey[]): boolean {
  try {
    verifyNote(note, logKeys);
    return true;
  } catch (error) {
    return error instanceof NoteUnsigned;
  }
}

/** How many bytes of the note stand at the end of the file, behind an empty line or at its beginning. */
function begunAt(bytes: Buffer, note: Buffer): number {
  for (let length = Math.min(note.length, bytes.length); length > 0; length--) {
    const at = bytes.length - length;
    if (!bytes.subarray(at).equals(note.subarray(0, length))) continue;
    if (at === 0 || bytes.toString('latin1', Math.max(0, at - 2), at) === '\n\n') return length;
  }
  return 0;
}
