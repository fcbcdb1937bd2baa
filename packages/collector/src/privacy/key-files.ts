/** The records of a vault in one directory, one file each. */
import path from 'node:path';
import { nodeFiles, readFrom, replaceNow, type Files } from '../files.js';
import { systemCode } from '../system-code.js';
import { epochRecordIn, generationOf, isRecordName } from './key-record.js';
import { type RecordName, VaultAway } from './key-vault.js';

/** A file name that is not a record. */
const TRIAL = path.join('buckets', 'trial');

/** The records in one directory. A missing directory is never created: it may be a failed mount. */
export class KeyFiles {
  /** Directories that were flushed since their last change. */
  readonly #synced = new Set<string>();
  /** The id of the log, with the identity of the file that it was read from. */
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

  /** A valid record; undefined if there is none. @throws VaultAway */
  read(name: RecordName): Buffer | undefined {
    // A file that another process is replacing may be overwritten already.
    return this.#readOnce(name) ?? this.#readOnce(name);
  }

  /** The id of the log; undefined if there are no keys. @throws VaultAway */
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
   * Replaces or removes a record, durably and atomically. Old bytes, including remnants of an interrupted
   * write, are overwritten.
   * @param held the result of `read`. @throws VaultAway
   */
  put(name: RecordName, bytes: Buffer | undefined, held = this.read(name)): void {
    this.#answer(() => {
      this.#remove(`${name}.draft`);
      if (bytes === undefined) this.#remove(name);
      else if (held?.equals(bytes) !== true) this.#replace(name, bytes);
      // Needed even without a change: the process that made the change may have been killed before its flush.
      this.#sync(path.dirname(this.#fileOf(name)));
    });
  }

  /** Tries to write. @throws VaultAway if a record cannot be written. */
  prove(): void {
    this.#answer(() => {
      this.#replace(TRIAL, Buffer.from('written to check whether keys can be written\n'));
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
        // Another process may have removed it since the look at it, as an epoch after a rotation.
        const isRemoved = systemCode(error) === 'ENOENT' && this.files.look(this.directory) !== undefined;
        if (isRemoved || systemCode(error) === 'EISDIR') return undefined;
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

  /** Makes the names in a directory durable, unless it was flushed since its last change. */
  #sync(where: string): void {
    if (this.#synced.has(where) || this.files.look(where) === undefined) return;
    this.files.syncDirectory(where);
    this.#synced.add(where);
  }

  #fileOf(name: string): string {
    return path.join(this.directory, name);
  }

  /** Maps errors of the file system. @throws VaultAway if the directory is missing or fails. */
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
 * Overwrites and removes a file, durably, in this order: after an interruption the file is not a valid
 * record, and the next attempt removes it.
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
 * Overwrites a file. The disk may still keep the old bytes elsewhere. A remnant of a key state needs its
 * epoch key, and a remnant of an epoch record needs the key-encryption key.
 */
function overwrite(files: Files, fd: number): void {
  try {
    const size = files.size(fd);
    files.write(fd, Buffer.alloc(size), size, 0);
    files.datasync(fd);
  } catch {
    // The record is replaced or removed anyway; a remnant needs the keys above.
  }
}
