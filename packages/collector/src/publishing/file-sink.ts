/**
 * `file:` appends each checkpoint to a file, with an empty line behind it.
 *
 * A crash may leave the last one cut short. What is missing is appended when this is the note that comes next, as
 * it most often is: a start begins with the newest. Otherwise it is ended as one that was cut short, so that whoever
 * takes the file apart (splitNotes) does not take the next one for a part of it.
 *
 * The file is opened anew for each delivery, so it may be moved aside at any time (log rotation). That it holds less
 * than it was left with is reported all the same: whoever hides a fork cuts it.
 */
import path from 'node:path';
import { NoteUnsigned, splitNotes, type Checkpoint } from '@clinical-events/protocol/verify';
import { verifyNote, type NoteKey } from '../integrity/note-signing.js';
import { systemCode } from '../system-code.js';
import { diskTrouble } from './disk-trouble.js';
import { assertGoesOnFrom, otherLog, ownCheckpoint, type LogView } from './log-view.js';
import type { SinkFiles } from './sink-files.js';
import type { Attempt, Published, Sink } from './sink.js';

/** Many notes: what begins where this does is the beginning of the file. */
const TAIL_BYTES = 16 * 1024;
const BATCH = 64;
/** Ends a signature that was cut short; nobody takes it for a forged one then. */
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
      const batch = notes.slice(0, BATCH);
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
