/**
 * The lines that an import did not store, and why: NDJSON, one object a line of
 *
 *   file, line, code, details?, event_id?, outcome, text
 *
 * `text` is the exact line, or `text_base64` where that is not UTF-8. A line of more than `TEXT_BYTES`, and one that was
 * erased, has neither; of one that was too long to be read, `details` has offset and size. The file holds patient data,
 * and is for its owner alone.
 */
import fs from 'node:fs';
import { isUtf8 } from 'node:buffer';
import path from 'node:path';
import type { LineFault } from './offered-line.js';
import { Unusable } from '../unusable.js';

/** A line that was not stored. */
export interface Refusal extends LineFault {
  readonly line: number;
  /**
   * `rejected`: it is faulty. `conflict`: another event with its id is stored, and stands. `unreadable`: the collector
   * failed at it again and again; an event with its id may be stored in a place that cannot be read. `erased`: it was
   * stored, and erased since.
   */
  readonly outcome: 'rejected' | 'conflict' | 'unreadable' | 'erased';
  /** The exact line without its ending; undefined when it was too long to be held, or is not to be kept. */
  readonly bytes: Uint8Array | undefined;
}

/** Six times as many characters, at worst, still make a string. */
const TEXT_BYTES = 16 << 20;
const { O_WRONLY, O_NOFOLLOW, O_NONBLOCK } = fs.constants;

export class RejectFile {
  readonly path: string;
  readonly #fd: number;
  #lines = 0;

  private constructor(file: string, fd: number) {
    this.path = file;
    this.#fd = fd;
  }

  /**
   * Made at once, and not at the first fault: an import of an hour should not end for want of a place to write it to.
   * @throws Unusable unless it is new, or empty as an import that was killed may have left it; and when that one
   * is a link, or a file of another user or with another name: another user may have put it there to be written into.
   */
  static open(file: string): RejectFile {
    const found = fs.lstatSync(file, { throwIfNoEntry: false });
    if (found === undefined) return new RejectFile(file, fs.openSync(file, 'wx', 0o600));
    assertOurs(file, found);
    const fd = fs.openSync(file, O_WRONLY | O_NOFOLLOW | O_NONBLOCK);
    try {
      // It may be another by now.
      assertOurs(file, fs.fstatSync(fd));
      fs.fchmodSync(fd, 0o600);
      return new RejectFile(file, fd);
    } catch (error) {
      fs.closeSync(fd);
      throw error;
    }
  }

  /** How many lines were written. */
  get lines(): number {
    return this.#lines;
  }

  /** On return it is written, but not yet on stable storage. */
  write(input: string, refusal: Refusal): void {
    fs.writeFileSync(this.#fd, `${lineOf(input, refusal)}\n`);
    this.#lines++;
  }

  /** On return all of it is on stable storage, or the file is gone if it is empty. */
  close(): void {
    try {
      if (this.#lines > 0) fs.fsyncSync(this.#fd);
    } finally {
      fs.closeSync(this.#fd);
    }
    if (this.#lines === 0) fs.rmSync(this.path);
    const directory = fs.openSync(path.dirname(this.path), 'r');
    try {
      fs.fsyncSync(directory);
    } finally {
      fs.closeSync(directory);
    }
  }
}

function assertOurs(file: string, found: fs.Stats): void {
  if (found.isSymbolicLink()) throw new Unusable(`${file} is a link, and was not followed`);
  if (!found.isFile() || found.size > 0)
    throw new Unusable(`${file} exists: it may hold what an earlier run refused`);
  if (found.uid !== (process.geteuid?.() ?? found.uid)) {
    throw new Unusable(`${file} exists, and belongs to another user`);
  }
  if (found.nlink !== 1) throw new Unusable(`${file} exists, and has another name as well`);
}

function lineOf(file: string, { line, code, details, eventId, outcome, bytes }: Refusal): string {
  const told = { file, line, code, details, event_id: eventId, outcome };
  if (bytes === undefined || bytes.length > TEXT_BYTES || outcome === 'erased') return JSON.stringify(told);
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return JSON.stringify(
    isUtf8(text) ? { ...told, text: text.toString() } : { ...told, text_base64: text.toString('base64') },
  );
}
