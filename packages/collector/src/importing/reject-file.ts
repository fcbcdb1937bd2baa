/**
 * The reject file of an import: the lines that were not stored, with reasons. NDJSON, one object per line:
 *
 *   file, line, code, details?, event_id?, outcome, text
 *
 * `text` is the exact line, or `text_base64` if it is not UTF-8. Lines over `TEXT_BYTES` and erased events
 * have neither; for a line that was too long to read, `details` has its offset and size. The file contains
 * patient data and is private.
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
   * `rejected`: invalid. `conflict`: a different event with its id is stored. `unreadable`: the collector
   * failed repeatedly; an event with its id may be stored in an unreadable place. `erased`: the event was
   * stored and has been erased.
   */
  readonly outcome: 'rejected' | 'conflict' | 'unreadable' | 'erased';
  /** The exact line without its ending; undefined if it was too long or must not be kept. */
  readonly bytes: Uint8Array | undefined;
}

/** JSON may need six times as many characters, which is still a valid string. */
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
   * Creates the file before the import, which would otherwise fail after an hour if the file cannot be
   * created.
   * @throws Unusable if a file exists that is not empty, is a link, or may be another user's: an empty one
   *   may have been left by a killed import.
   */
  static open(file: string): RejectFile {
    const found = fs.lstatSync(file, { throwIfNoEntry: false });
    if (found === undefined) return new RejectFile(file, fs.openSync(file, 'wx', 0o600));
    assertOurs(file, found);
    const fd = fs.openSync(file, O_WRONLY | O_NOFOLLOW | O_NONBLOCK);
    try {
      // The file is checked again: it may have been replaced.
      assertOurs(file, fs.fstatSync(fd));
      fs.fchmodSync(fd, 0o600);
      return new RejectFile(file, fd);
    } catch (error) {
      fs.closeSync(fd);
      throw error;
    }
  }

  /** Number of lines written. */
  get lines(): number {
    return this.#lines;
  }

  /** Writes a line, which is on stable storage after `close`. */
  write(input: string, refusal: Refusal): void {
    fs.writeFileSync(this.#fd, `${lineOf(input, refusal)}\n`);
    this.#lines++;
  }

  /** Flushes the file to stable storage, or removes it if it is empty. */
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
  if (found.isSymbolicLink()) throw new Unusable(`${file} is a link and was not followed`);
  if (!found.isFile() || found.size > 0)
    throw new Unusable(`${file} exists: it may hold the rejects of an earlier run`);
  if (found.uid !== (process.geteuid?.() ?? found.uid)) {
    throw new Unusable(`${file} exists and belongs to another user`);
  }
  if (found.nlink !== 1) throw new Unusable(`${file} exists and has another name as well`);
}

function lineOf(file: string, { line, code, details, eventId, outcome, bytes }: Refusal): string {
  const fields = { file, line, code, details, event_id: eventId, outcome };
  if (bytes === undefined || bytes.length > TEXT_BYTES || outcome === 'erased') return JSON.stringify(fields);
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return JSON.stringify(
    isUtf8(text) ? { ...fields, text: text.toString() } : { ...fields, text_base64: text.toString('base64') },
  );
}
