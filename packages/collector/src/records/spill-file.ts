/** A temporary file of entries (run-entry.ts): first only written, then only read, then gone. */
import fs from 'node:fs';
import { ENTRY_BYTES } from './run-entry.js';

export class SpillFile {
  readonly #fd: number;
  readonly #buffer: Buffer;
  #filled = 0;
  #written = 0;

  /** @param bufferBytes a multiple of ENTRY_BYTES. */
  constructor(
    private readonly file: string,
    bufferBytes: number,
  ) {
    this.#fd = fs.openSync(file, 'wx+', 0o600);
    this.#buffer = Buffer.allocUnsafe(bufferBytes);
  }

  get bytes(): number {
    return this.#written + this.#filled;
  }

  /** Makes room for one entry. @returns where to write it, in `target`. */
  next(): number {
    if (this.#filled === this.#buffer.length) this.#flush();
    const at = this.#filled;
    this.#filled += ENTRY_BYTES;
    return at;
  }

  get target(): Buffer {
    return this.#buffer;
  }

  /** Adds one entry. */
  append(source: Buffer, at: number): void {
    const place = this.next();
    source.copy(this.#buffer, place, at, at + ENTRY_BYTES);
  }

  /** Writes what is left. The file is for {@link takeEntries} then. */
  close(): void {
    this.#flush();
    fs.closeSync(this.#fd);
  }

  /** All entries, in memory. */
  readAll(): Buffer {
    this.#flush();
    return readAt(this.#fd, Buffer.allocUnsafe(this.#written), 0);
  }

  /** The entries one after the other, in bounded memory: each valid until the next is asked for. */
  *entries(): Generator<{ readonly source: Buffer; readonly at: number }> {
    this.#flush();
    const place = { source: this.#buffer, at: 0 };
    for (let position = 0; position < this.#written;) {
      const held = Math.min(this.#buffer.length, this.#written - position);
      readAt(this.#fd, this.#buffer.subarray(0, held), position);
      for (place.at = 0; place.at < held; place.at += ENTRY_BYTES) yield place;
      position += held;
    }
  }

  remove(): void {
    fs.closeSync(this.#fd);
    fs.rmSync(this.file, { force: true });
  }

  #flush(): void {
    try {
      for (let done = 0; done < this.#filled;) {
        const position = this.#written + done;
        done += fs.writeSync(this.#fd, this.#buffer, done, this.#filled - done, position);
      }
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
      throw new Error(`the temporary file ${this.file} cannot be written (${code})`, { cause: error });
    }
    this.#written += this.#filled;
    this.#filled = 0;
  }
}

/** All entries of a file that was closed, which is gone then. */
export function takeEntries(file: string): Buffer {
  const entries = fs.readFileSync(file);
  fs.rmSync(file);
  return entries;
}

function readAt(fd: number, target: Buffer, position: number): Buffer {
  for (let done = 0; done < target.length;) {
    const got = fs.readSync(fd, target, done, target.length - done, position + done);
    if (got === 0) throw new Error('a temporary file is shorter than what was written to it');
    done += got;
  }
  return target;
}
