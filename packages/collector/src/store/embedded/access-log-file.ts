/**
 * `access.log`, to which every command that reads events appends, and `checkpoints/access-log`, the newest checkpoint
 * over its lines. The file is opened anew for each call: what stands under its name is what counts.
 */
import path from 'node:path';
import type { AccessLogReader, AccessLogStore } from '../access-log-store.js';
import type { Files } from './files.js';
import { checkpointDirectory } from './tree-files.js';

const LOG = 'access.log';
const ACCESS_CHECKPOINT = 'access-log';
/** Checkpoints are short; a file larger than this is none. */
const MAX_NOTE_BYTES = 1 << 20;

/** Where the readings of a data directory are noted. */
export function accessLogPath(dataDirectory: string): string {
  return path.join(dataDirectory, LOG);
}

export class AccessLogFile implements AccessLogStore {
  readonly #files: Files;
  readonly #directory: string;
  /** Whether the log's name is known to be on stable storage. */
  #named = false;

  private constructor(
    files: Files,
    dataDirectory: string,
    private readonly flags: 'r' | 'r+',
  ) {
    this.#files = files;
    this.#directory = dataDirectory;
  }

  /** For the one process that holds the directory's lock. */
  static open(dataDirectory: string, files: Files): AccessLogStore {
    // For writing as well, though nothing is written: a pipe under this name would hold up who opens it to read only.
    return new AccessLogFile(files, dataDirectory, 'r+');
  }

  /** For reading only, beside a collector too. What stands under the names has to be files. */
  static read(dataDirectory: string, files: Files): AccessLogReader {
    return new AccessLogFile(files, dataDirectory, 'r');
  }

  size(): number | undefined {
    return this.#with(accessLogPath(this.#directory), (fd) => this.#files.size(fd));
  }

  read(position: number, length: number): Buffer {
    return this.#bytes(accessLogPath(this.#directory), position, length) ?? Buffer.alloc(0);
  }

  checkpoint(): string | undefined {
    const file = path.join(checkpointDirectory(this.#directory), ACCESS_CHECKPOINT);
    return this.#bytes(file, 0, MAX_NOTE_BYTES)?.toString();
  }

  async flush(): Promise<void> {
    const fd = this.#files.open(accessLogPath(this.#directory), this.flags);
    try {
      await this.#files.datasyncLater(fd);
    } finally {
      this.#files.close(fd);
    }
    if (this.#named) return;
    this.#files.syncDirectory(this.#directory);
    this.#named = true;
  }

  async setCheckpoint(note: string): Promise<void> {
    const file = path.join(checkpointDirectory(this.#directory), ACCESS_CHECKPOINT);
    await this.#files.replace(file, Buffer.from(note));
  }

  append(line: string): void {
    this.#files.appendLine(accessLogPath(this.#directory), line);
  }

  #bytes(file: string, position: number, length: number): Buffer | undefined {
    return this.#with(file, (fd) => {
      const left = this.#files.size(fd) - position;
      const bytes = Buffer.allocUnsafe(Math.max(0, Math.min(length, left)));
      return bytes.subarray(0, this.#files.read(fd, bytes, 0, bytes.length, position));
    });
  }

  #with<Read>(file: string, read: (fd: number) => Read): Read | undefined {
    let fd: number;
    try {
      fd = this.#files.open(file, this.flags);
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
      throw error;
    }
    try {
      return read(fd);
    } finally {
      this.#files.close(fd);
    }
  }
}
