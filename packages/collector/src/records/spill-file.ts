/** Temporary files of entries (run-entry.ts): each first only written, then only read, then gone. */
import fs from 'node:fs';
import { systemCode } from '../system-code.js';
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
    this.#fd = fs.openSync(file, 'wx', 0o600);
    this.#buffer = Buffer.allocUnsafe(bufferBytes);
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

  /** Writes what is left. The file is for those who read it then. */
  close(): void {
    this.#flush();
    fs.closeSync(this.#fd);
  }

  #flush(): void {
    try {
      for (let done = 0; done < this.#filled;) {
        const position = this.#written + done;
        done += fs.writeSync(this.#fd, this.#buffer, done, this.#filled - done, position);
      }
    } catch (error) {
      const code = systemCode(error) ?? String(error);
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

/** The entries one after the other, in bounded memory: each valid until the next is asked for. The file is gone at the end. */
export function* entriesOf(
  file: string,
  bufferBytes: number,
): Generator<{ readonly source: Buffer; readonly at: number }> {
  const fd = fs.openSync(file, 'r');
  try {
    const place = { source: Buffer.allocUnsafe(bufferBytes), at: 0 };
    for (;;) {
      const held = fs.readSync(fd, place.source, 0, bufferBytes, null);
      if (held === 0) break;
      if (held % ENTRY_BYTES !== 0)
        throw new Error('a temporary file is shorter than what was written to it');
      for (place.at = 0; place.at < held; place.at += ENTRY_BYTES) yield place;
    }
  } finally {
    fs.closeSync(fd);
    fs.rmSync(file, { force: true });
  }
}
