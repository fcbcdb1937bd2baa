/** The records of a vault in one directory: a file for each, by its name. */
import path from 'node:path';
import { nodeFiles, readFrom, replaceNow, type Files } from '../files.js';
import { systemCode } from '../system-code.js';
import { epochRecordIn, generationOf, isRecordName } from './key-record.js';
import { type RecordName, VaultAway } from './key-vault.js';

/** Of no record. */
const TRIAL = path.join('buckets', 'trial');

/** A directory that is not there is away, and never made: it may be a mount that failed. */
export class KeyFiles {
  /** Directories whose names this process has seen to be durable. */
  readonly #synced = new Set<string>();
  /** The file that the log was read from, and that log. */
  #ledger: { readonly id: string; readonly ledger: string } | undefined;

  constructor(
    readonly directory: string,
    private readonly files: Files = nodeFiles,
  ) {}

  /** @throws VaultAway */
  list(within: string): RecordName[] {
    return this.#answer(() => {
      const where = path.join(this.directory, within);
      if (this.files.look(where) === undefined) return [];
      const names = this.files.list(where).map((file) => `${within}/${file}`);
      return names.filter(isRecordName);
    });
  }

  /** Undefined where there is no sound record of this name. @throws VaultAway */
  read(name: RecordName): Buffer | undefined {
    // A file that is read while another process replaces it may be zeros already.
    return this.#readOnce(name) ?? this.#readOnce(name);
  }

  /** The log whose keys these are; undefined where there are none. @throws VaultAway */
  ledger(): string | undefined {
    return this.#answer(() => {
      for (const name of this.list('epochs')) {
        const id = this.files.look(this.#fileOf(name))?.id ?? '';
        if (this.#ledger?.id === id) return this.#ledger.ledger;
        const bytes = this.read(name);
        const ledger = bytes && epochRecordIn(name, bytes)?.ledger;
        if (ledger === undefined) continue;
        this.#ledger = { id, ledger };
        return ledger;
      }
      return undefined;
    });
  }

  /**
   * On return the directory has these bytes of a record, or none of it, durably; until then it has what it had. What it had,
   * and what a write that was cut off has left, is overwritten.
   * @param held what `read` gave. @throws VaultAway
   */
  put(name: RecordName, bytes: Buffer | undefined, held = this.read(name)): void {
    this.#answer(() => {
      this.#remove(`${name}.draft`);
      if (bytes === undefined) this.#remove(name);
      else if (held?.equals(bytes) !== true) this.#replace(name, bytes);
      // Also what is done already: the process that did it may have been cut off before it was durable.
      this.#sync(path.dirname(this.#fileOf(name)));
    });
  }

  /** @throws VaultAway when a record could not be written now. */
  prove(): void {
    this.#answer(() => {
      this.#replace(TRIAL, Buffer.from('written to see whether keys can be\n'));
      this.files.remove(this.#fileOf(TRIAL));
    });
  }

  #readOnce(name: RecordName): Buffer | undefined {
    return this.#answer(() => {
      if (this.files.look(this.#fileOf(name)) === undefined) return undefined;
      try {
        const bytes = readFrom(this.files, this.#fileOf(name));
        return generationOf(name, bytes) > 0 ? bytes : undefined;
      } catch (error) {
        if (systemCode(error) === 'EISDIR') return undefined;
        throw error;
      }
    });
  }

  #replace(name: string, bytes: Buffer): void {
    const file = this.#fileOf(name);
    this.#synced.delete(path.dirname(file));
    const old = this.files.look(file) === undefined ? undefined : this.files.open(file, 'r+');
    try {
      replaceNow(this.files, file, bytes);
      this.#synced.add(path.dirname(file));
      if (old !== undefined) overwrite(this.files, old);
    } finally {
      if (old !== undefined) this.files.close(old);
    }
  }

  #remove(name: string): void {
    const file = this.#fileOf(name);
    if (this.files.look(file) === undefined) return;
    this.#synced.delete(path.dirname(file));
    removeOverwritten(this.files, file);
  }

  /** On return the names in a directory are durable: asked of the disk once, and again after a change. */
  #sync(where: string): void {
    if (this.#synced.has(where) || this.files.look(where) === undefined) return;
    this.files.syncDirectory(where);
    this.#synced.add(where);
  }

  #fileOf(name: string): string {
    return path.join(this.directory, name);
  }

  /** @throws VaultAway where the directory does not answer. */
  #answer<Answer>(ask: () => Answer): Answer {
    try {
      if (this.files.look(this.directory) !== undefined) return ask();
    } catch (error) {
      if (error instanceof VaultAway) throw error;
      throw new VaultAway(`the keys in ${this.directory} cannot be read or written`, { cause: error });
    }
    throw new VaultAway(`there is no directory ${this.directory}`);
  }
}

/**
 * On return what the file held is overwritten, and it has no name any more, durably. In this order: a file that was cut off
 * between the two is not sound, and is removed by the next try.
 */
export function removeOverwritten(files: Files, file: string): void {
  const fd = files.open(file, 'r+');
  try {
    overwrite(files, fd);
    files.remove(file);
    files.syncDirectory(path.dirname(file));
  } finally {
    files.close(fd);
  }
}

/**
 * A disk that writes elsewhere may keep the old bytes. A remnant of a key state opens by its epoch key alone, and a remnant of
 * an epoch record by the key-encryption key alone.
 */
function overwrite(files: Files, fd: number): void {
  try {
    const size = files.size(fd);
    files.write(fd, Buffer.alloc(size), size, 0);
    files.datasync(fd);
  } catch {
    // The record is replaced or removed all the same: its remnant needs the keys above.
  }
}
