/**
 * `dir:` and `file:`, as their program keeps them (sink-program.ts). Each call blocks, and one to a mount whose server has
 * gone never returns: then the helper kills the process.
 *
 * Nothing here removes, renames or overwrites anything: a WORM mount allows none of it. No directory is made either: that
 * would hide a mount that is missing.
 */
import fs from 'node:fs';
import path from 'node:path';
import { type Checkpoint, parseCheckpoint, parseNote, splitNotes } from '@clinical-events/protocol/verify';
import { systemCode } from '../system-code.js';

interface DiskSink {
  /** The newest checkpoint that is stored, a signed note; empty without one. @param busy called in a long search. */
  newest(busy: () => void): string;
  /**
   * On return the note is on stable storage.
   * @returns undefined; or another checkpoint of the same size that is stored in its place.
   * @throws an error whose message says why the note has to be given again.
   */
  keep(note: string): string | undefined;
}

/** @returns undefined for a note that was cut short, and for anything else that is no checkpoint. */
function checkpointIn(note: string): Checkpoint | undefined {
  try {
    return parseCheckpoint(parseNote(note).text);
  } catch {
    return undefined;
  }
}

/** Checkpoints are no secret, and those who collect them may be other users. */
const MODE = 0o644;
const DIGITS = 16;
const NAME = new RegExp(`^\\d{${DIGITS}}(-\\d)?\\.checkpoint$`);
/** Files that are looked through, from the last name on, until one holds a whole checkpoint. */
const LOOK_AT = 8;
/** Names for one size: a file that a crash cut short stays, and the note goes to `<size>-2`. */
const MOST_NAMES = 9;
/** Names read between two signs of life. */
const BUSY_EVERY = 65_536;

/** A file for each checkpoint, `<size, 16 digits>.checkpoint`: made, flushed and never opened for writing again. */
export class DirectorySink implements DiskSink {
  /** The file that a full disk cut short, still open: each try would use up a name. */
  #unfinished: { readonly file: string; readonly fd: number } | undefined;

  constructor(private readonly directory: string) {}

  newest(busy: () => void): string {
    for (const name of this.#lastNames(busy)) {
      const note = fs.readFileSync(path.join(this.directory, name), 'utf8');
      if (checkpointIn(note) !== undefined) return note;
    }
    return '';
  }

  keep(note: string): string | undefined {
    const { text } = parseNote(note);
    const { size } = parseCheckpoint(text);
    for (let i = 1; i <= MOST_NAMES; i++) {
      const name = `${String(size).padStart(DIGITS, '0')}${i === 1 ? '' : `-${i}`}.checkpoint`;
      const held = this.#madeOrThere(path.join(this.directory, name), note);
      if (held === note) return undefined;
      if (checkpointIn(held) === undefined) continue;
      // The same tree may have been signed by another key of the log.
      return parseNote(held).text === text ? undefined : held;
    }
    throw new Error(`${this.directory} holds ${MOST_NAMES} files for ${size} entries, each cut short`);
  }

  /** @returns what the file holds, on stable storage with its name: the note, if there was no such file. */
  #madeOrThere(file: string, note: string): string {
    let held = note;
    try {
      this.#make(file, Buffer.from(note));
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') throw error;
      held = fs.readFileSync(file, 'utf8');
      // Whoever wrote it may have crashed before it was flushed.
      flush(file);
    }
    flush(this.directory);
    return held;
  }

  /** On return the file is on stable storage. @throws the system's error: EEXIST when it was there. */
  #make(file: string, bytes: Buffer): void {
    if (this.#unfinished?.file !== file) {
      if (this.#unfinished !== undefined) fs.closeSync(this.#unfinished.fd);
      this.#unfinished = undefined;
      this.#unfinished = { file, fd: fs.openSync(file, 'wx', MODE) };
    }
    const { fd } = this.#unfinished;
    for (let at = fs.fstatSync(fd).size; at < bytes.length;) at += fs.writeSync(fd, bytes, at);
    fs.fsyncSync(fd);
    fs.closeSync(fd);
    this.#unfinished = undefined;
  }

  /** The last name first. Read as a stream: one file a second makes a directory of millions. */
  #lastNames(busy: () => void): string[] {
    const names: string[] = [];
    const directory = fs.opendirSync(this.directory, { bufferSize: 4096 });
    let seen = 0;
    for (let entry = directory.readSync(); entry !== null; entry = directory.readSync()) {
      if (++seen % BUSY_EVERY === 0) busy();
      const { name } = entry;
      if (!NAME.test(name) || (names.length === LOOK_AT && name < String(names[0]))) continue;
      names.push(name);
      names.sort();
      if (names.length > LOOK_AT) names.shift();
    }
    directory.closeSync();
    return names.reverse();
  }
}

/** Many notes: what begins where this does is the beginning of the file. */
const TAIL_BYTES = 16 << 10;
const CUT = '\u2014 the note above was cut short\n\n';

/**
 * Each checkpoint is appended to a file, followed by an empty line. A note that a crash cut short stays, and gets an end
 * that is no signature: so whoever takes the file apart (splitNotes) takes neither the next note for a part of it nor the
 * rest of a signature for a forged one.
 */
export class FileSink implements DiskSink {
  /** It had at least this many bytes: anyone who hides a fork cuts it. */
  #size = 0;

  constructor(private readonly file: string) {}

  /** The largest at its end: several collectors on one log may have appended in any order. */
  newest(): string {
    const { text, size } = this.#tail();
    this.#size = size;
    // The first of a full tail lacks its beginning, and would have the end of a name for a name.
    const held = splitNotes(text).slice(size > TAIL_BYTES ? 1 : 0);
    const sizes = held.map((note) => checkpointIn(note)?.size ?? -1);
    const largest = Math.max(-1, ...sizes);
    return largest === -1 ? '' : (held[sizes.lastIndexOf(largest)] as string);
  }

  keep(note: string): undefined {
    // Opened again for each note, so that the file may be moved aside at any time (log rotation).
    const { text, size } = this.#tail();
    if (size < this.#size) {
      throw new Error(`${this.file} holds less than it was left with: it was cut, moved aside or deleted`);
    }
    const notes = splitNotes(text);
    // Also when nothing is missing: what is there may not have been flushed.
    const more = notes.includes(note) ? '' : `${seam(text, notes.at(-1), note)}${note}\n`;
    append(this.file, more);
    if (size === 0) flush(path.dirname(this.file));
    this.#size = size + Buffer.byteLength(more);
  }

  #tail(): { readonly text: string; readonly size: number } {
    let fd: number;
    try {
      fd = fs.openSync(this.file, 'r');
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error;
      // Where its directory is missing, that is the fault.
      fs.accessSync(path.dirname(this.file));
      return { text: '', size: 0 };
    }
    try {
      const { size } = fs.fstatSync(fd);
      const bytes = Buffer.alloc(Math.min(size, TAIL_BYTES));
      const read = fs.readSync(fd, bytes, 0, bytes.length, size - bytes.length);
      return { text: bytes.toString('utf8', 0, read), size };
    } finally {
      fs.closeSync(fd);
    }
  }
}

/** What goes between the end of the file, which `last` is, and a note, so that the note is found there. */
function seam(file: string, last: string | undefined, note: string): string {
  if (last === undefined) return '';
  if (checkpointIn(last) !== undefined) return file.endsWith('\n\n') ? '' : '\n';
  return splitNotes(`${file}\n${CUT}${note}`).at(-1) === note ? `\n${CUT}` : `\n\n${CUT}`;
}

/** On return the text is at the end of the file on stable storage. */
function append(file: string, text: string): void {
  const fd = fs.openSync(file, 'a', MODE);
  try {
    fs.writeFileSync(fd, text);
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/** On return a file or the names in a directory are on stable storage, where that can be asked for. */
function flush(place: string): void {
  const fd = fs.openSync(place, 'r');
  try {
    fs.fsyncSync(fd);
  } catch (error) {
    // Some network file systems flush nothing that is not open for writing; there the server answers for it.
    if (!['EINVAL', 'ENOTSUP', 'EBADF'].includes(String(systemCode(error)))) throw error;
  } finally {
    fs.closeSync(fd);
  }
}
