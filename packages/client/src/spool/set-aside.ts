/**
 * Stores refused events in `quarantine/<series>.ndjson`, and damaged bytes in `damaged/`. Files in `damaged/`
 * stay until an operator removes them.
 */
import { isUtf8 } from 'node:buffer';
import path from 'node:path';
import { isFull, namesIn, reading, type SpoolFiles } from './files.js';
import { sealText } from './seal.js';
import type { LostBytes } from './segment.js';
import { type Refusal, type SpooledEvent, SpoolFull, SpoolUnwritable } from './spool.js';

/** Suffix of a quarantine file that `requeue` has moved but not finished. */
export const TAKEN = '.requeue';

/** @returns paths in the order of their names. */
export async function quarantineFiles(files: SpoolFiles, root: string): Promise<string[]> {
  const directory = path.join(root, 'quarantine');
  return (await namesIn(files, directory))
    .filter((name) => name.endsWith('.ndjson') || name.endsWith(TAKEN))
    .map((name) => path.join(directory, name));
}

/** Total size; files that cannot be opened count as empty. @throws the system's error. */
export async function quarantineBytes(files: SpoolFiles, root: string): Promise<number> {
  let bytes = 0;
  for (const file of await quarantineFiles(files, root)) {
    bytes += (await reading(files, file, (fd) => files.size(fd)).catch(() => 0)) ?? 0;
  }
  return bytes;
}

export interface QuarantineOptions {
  readonly files: SpoolFiles;
  readonly root: string;
  readonly series: string;
  readonly key: Uint8Array | undefined;
  /** Whether each line is flushed to stable storage. */
  readonly durable: boolean;
}

/** Writes the quarantine of one spool, one JSON object per line (docs/internals/formats.md, "Quarantine"). */
export class Quarantine {
  readonly path: string;
  /** Size of all quarantine files of the directory when last measured, plus lines added since. */
  bytes = 0;
  readonly #options: QuarantineOptions;
  #writing: Promise<void> = Promise.resolve();

  constructor(options: QuarantineOptions) {
    this.#options = options;
    this.path = path.join(options.root, 'quarantine', `${options.series}.ndjson`);
  }

  /**
   * On return the line is in the file.
   * @throws SpoolFull, SpoolUnwritable; then it was removed again if possible.
   */
  add(event: SpooledEvent, refusal: Refusal): Promise<void> {
    const line = Buffer.from(`${quarantineLine(event, refusal, this.#options.key)}\n`);
    const written = this.#writing.then(() => this.#write(line));
    this.#writing = written.catch(() => undefined);
    return written;
  }

  async #write(line: Buffer): Promise<void> {
    try {
      await this.#options.files.makeInside(path.dirname(this.path));
      while (!(await this.#append(line)));
      this.bytes += line.length;
    } catch (error) {
      const message = 'an event could not be put into quarantine';
      throw isFull(error)
        ? new SpoolFull(message, { cause: error })
        : new SpoolUnwritable(message, { cause: error });
    }
  }

  /** @returns false if `requeue` moved the file meanwhile, and may have missed the line. */
  async #append(line: Buffer): Promise<boolean> {
    const { files, durable } = this.#options;
    // The file is opened for each line, so that a moved file is noticed.
    const fd = await files.open(this.path, 'write');
    try {
      const end = await files.size(fd);
      try {
        await files.write(fd, line, end);
        if (durable) await files.datasync(fd);
        if (!(await this.#contains(line, end))) return false;
      } catch (error) {
        await files.truncate(fd, end);
        throw error;
      }
      if (durable && end === 0) await files.syncDirectory(path.dirname(this.path));
      return true;
    } finally {
      await files.close(fd);
    }
  }

  async #contains(line: Buffer, offset: number): Promise<boolean> {
    const { files } = this.#options;
    const found = await reading(files, this.path, async (fd) => {
      const bytes = Buffer.alloc(line.length);
      return (await files.read(fd, bytes, offset)) === line.length && bytes.equals(line);
    });
    return found === true;
  }
}

function quarantineLine(event: SpooledEvent, refusal: Refusal, key: Uint8Array | undefined): string {
  const body = Buffer.from(event.body.buffer, event.body.byteOffset, event.body.length);
  const { at } = refusal;
  const line = JSON.stringify({
    at,
    kind: event.kind,
    captured_at: new Date(event.capturedAt).toISOString(),
    refusal,
    ...(isUtf8(body) ? { event: body.toString() } : { event_base64: body.toString('base64') }),
  });
  // The refusal is encrypted too, because it may quote the event.
  return key ? JSON.stringify({ at, sealed: sealText(key, line).toString('base64') }) : line;
}

const CHUNK_BYTES = 1 << 20;
const ZEROS = Buffer.alloc(CHUNK_BYTES);
const BYTES = '.bytes';
const MISSING = '.missing';

/** A file in `damaged/`. */
export interface KeptDamage {
  readonly path: string;
  readonly bytes: number;
  /** For a note: the number of events missing from its segment. */
  readonly missing: number | undefined;
}

export class DamagedFiles {
  readonly directory: string;
  readonly #files: SpoolFiles;

  constructor(files: SpoolFiles, root: string) {
    this.#files = files;
    this.directory = path.join(root, 'damaged');
  }

  /**
   * Copies the bytes durably to a file named after their position. Zeros, which a power loss leaves, are not
   * kept.
   * @param name of the segment or file that contains them.
   * @returns the path; undefined for zeros.
   */
  async keep(
    name: string,
    fd: number,
    lost: Pick<LostBytes, 'offset' | 'size'>,
  ): Promise<string | undefined> {
    const file = path.join(this.directory, `${name}-${lost.offset}${BYTES}`);
    let copy: number | undefined;
    try {
      for (let done = 0; done < lost.size; done += CHUNK_BYTES) {
        const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, lost.size - done));
        const got = await this.#files.read(fd, chunk, lost.offset + done);
        if (copy === undefined && chunk.equals(ZEROS.subarray(0, chunk.length))) continue;
        if (copy === undefined) {
          await this.#files.makeInside(this.directory);
          copy = await this.#files.open(file, 'write');
        }
        await this.#files.write(copy, chunk.subarray(0, got), done);
      }
      if (copy === undefined) return undefined;
      await this.#files.datasync(copy);
      await this.#files.syncDirectory(this.directory);
      return file;
    } finally {
      if (copy !== undefined) await this.#files.close(copy);
    }
  }

  /** Durably notes how many events a segment lacks. @returns the path of the note. */
  async note(segment: string, missing: number): Promise<string> {
    const file = path.join(this.directory, `${segment}${MISSING}`);
    await this.#files.makeInside(this.directory);
    const fd = await this.#files.open(file, 'write');
    try {
      const text = Buffer.from(`${JSON.stringify({ segment, missing_events: missing })}\n`);
      await this.#files.write(fd, text, 0);
      await this.#files.truncate(fd, text.length);
      await this.#files.datasync(fd);
      await this.#files.syncDirectory(this.directory);
      return file;
    } finally {
      await this.#files.close(fd);
    }
  }

  /** @throws the system's error. */
  async all(): Promise<KeptDamage[]> {
    const kept: KeptDamage[] = [];
    for (const name of await namesIn(this.#files, this.directory))
      kept.push(await this.#describe(path.join(this.directory, name)));
    return kept;
  }

  async #describe(file: string): Promise<KeptDamage> {
    const unknown = { path: file, bytes: 0, missing: undefined };
    const kept = reading(this.#files, file, async (fd) => {
      const bytes = await this.#files.size(fd);
      if (!file.endsWith(MISSING)) return { ...unknown, bytes };
      const note = Buffer.alloc(Math.min(bytes, 256));
      const text = note.subarray(0, await this.#files.read(fd, note, 0)).toString();
      const missing = /"missing_events":(\d{1,15})\}/.exec(text)?.[1];
      return { path: file, bytes, missing: missing === undefined ? undefined : Number(missing) };
    });
    // A foreign file that cannot be opened must not hide the others.
    return (await kept.catch(() => undefined)) ?? unknown;
  }
}
