/**
 * Storage of the sinks `dir:` and `file:`, for their program (sink-program.ts). Each call blocks, and never
 * returns if the server of a mount is gone: then the helper kills the process.
 *
 * No file is removed, renamed or overwritten: a WORM mount forbids it. No directory is created: that would
 * hide a missing mount.
 */
import fs from 'node:fs';
import path from 'node:path';
import { type Checkpoint, parseCheckpoint, parseNote, splitNotes } from '@clinical-events/protocol/verify';
import { systemCode } from '../system-code.js';

interface DiskSink {
  /**
   * The newest stored checkpoint, a signed note; empty if there is none. @param busy is called during a long
   * search.
   */
  newest(busy: () => void): string;
  /**
   * On return the note is on stable storage.
   * @returns undefined; or another stored checkpoint of the same size.
   * @throws an error whose message is the reason to deliver the note again.
   */
  keep(note: string): string | undefined;
}

/** @returns undefined if the note is incomplete or not a checkpoint. */
function checkpointIn(note: string): Checkpoint | undefined {
  try {
    return parseCheckpoint(parseNote(note).text);
  } catch {
    return undefined;
  }
}

/** Checkpoints are public, and other users may collect them. */
const MODE = 0o644;
const DIGITS = 16;
const NAME = new RegExp(`^\\d{${DIGITS}}(-\\d)?\\.checkpoint$`);
/** Number of last files that are searched for a complete checkpoint. */
const LOOK_AT = 8;
/**
 * Maximum number of names for one size: a file that a crash left incomplete stays, and the note goes to
 * `<size>-2`.
 */
const MOST_NAMES = 9;
/** Number of names that are read between two calls of `busy`. */
const BUSY_EVERY = 65_536;

/**
 * One file for each checkpoint, `<size, 16 digits>.checkpoint`: written, flushed and never opened for writing
 * again.
 */
export class DirectorySink implements DiskSink {
  /** A file that a full disk left incomplete; it stays open, because each attempt would use up a name. */
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
      // Another key of the log may have signed the same tree.
      return parseNote(held).text === text ? undefined : held;
    }
    throw new Error(`${this.directory} holds ${MOST_NAMES} files for ${size} entries, each cut short`);
  }

  /** Creates the file if it is missing. @returns its contents, which are on stable storage with the name. */
  #madeOrThere(file: string, note: string): string {
    let held = note;
    try {
      this.#make(file, Buffer.from(note));
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') throw error;
      held = fs.readFileSync(file, 'utf8');
      // The process that wrote it may have crashed before the flush.
      flush(file);
    }
    flush(this.directory);
    return held;
  }

  /** On return the file is on stable storage. @throws the system's error: EEXIST if the file exists. */
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

  /** The last names in descending order. Read as a stream: the directory may have millions of names. */
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

/** Number of bytes read at the end of the file: room for many notes. */
const TAIL_BYTES = 16 << 10;
const CUT = '\u2014 the note above was cut short\n\n';

/**
 * Appends each checkpoint to a file, followed by an empty line. A note that a crash left incomplete stays,
 * and a line that is not a signature ends it. So a reader (splitNotes) does not join it to the next note, or
 * read part of a signature as a forged one.
 */
export class FileSink implements DiskSink {
  /** Minimum size of the file in bytes: an attacker would truncate it to hide a fork. */
  #size = 0;

  constructor(private readonly file: string) {}

  /** The largest checkpoint near the end: several collectors of a log append in any order. */
  newest(): string {
    const { text, size } = this.#tail();
    this.#size = size;
    // The first note of a full tail lacks its beginning.
    const held = splitNotes(text).slice(size > TAIL_BYTES ? 1 : 0);
    const sizes = held.map((note) => checkpointIn(note)?.size ?? -1);
    const largest = Math.max(-1, ...sizes);
    return largest === -1 ? '' : (held[sizes.lastIndexOf(largest)] as string);
  }

  keep(note: string): undefined {
    // Opened for each note, so that log rotation may move the file at any time.
    const { text, size } = this.#tail();
    if (size < this.#size) {
      throw new Error(`${this.file} holds less than it was left with: it was cut, moved aside or deleted`);
    }
    const notes = splitNotes(text);
    // Flushes an existing note too, which may not be on stable storage.
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
      // Throws if the directory is missing.
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

/** The separator between the end of the file, `last`, and a note, so that splitNotes finds the note. */
function seam(file: string, last: string | undefined, note: string): string {
  if (last === undefined) return '';
  if (checkpointIn(last) !== undefined) return file.endsWith('\n\n') ? '' : '\n';
  return splitNotes(`${file}\n${CUT}${note}`).at(-1) === note ? `\n${CUT}` : `\n\n${CUT}`;
}

/** Appends the text durably. */
function append(file: string, text: string): void {
  const fd = fs.openSync(file, 'a', MODE);
  try {
    fs.writeFileSync(fd, text);
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/** Flushes a file, or the names in a directory, if the file system supports it. */
function flush(place: string): void {
  const fd = fs.openSync(place, 'r');
  try {
    fs.fsyncSync(fd);
  } catch (error) {
    // Some network file systems flush only files that are open for writing; there the server is responsible.
    if (!['EINVAL', 'ENOTSUP', 'EBADF'].includes(String(systemCode(error)))) throw error;
  } finally {
    fs.closeSync(fd);
  }
}
