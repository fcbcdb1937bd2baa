/** A vault in one directory: a file for each record, by its name. */
import path from 'node:path';
import { nodeFiles, readFrom, replaceNow, type Files } from '../files.js';
import { systemCode } from '../system-code.js';
import { epochIn, epochOf, generationOf, epochName, isRecordName, stateNames } from './key-record.js';
import { type KeyVault, type RecordName, VaultAway } from './key-vault.js';

/** Of no record. */
const TRIAL = path.join('buckets', 'trial');
const NOTHING_LOST: ReadonlyMap<RecordName, Buffer> = new Map();

/** A directory that is not there is away, and never made: it may be a mount that failed. */
export class DirectoryVault implements KeyVault {
  readonly copies: readonly string[];
  readonly unwritten = new Map<string, unknown>();
  /** Directories whose names this process has seen to be durable. */
  readonly #synced = new Set<string>();

  constructor(
    readonly directory: string,
    private readonly files: Files = nodeFiles,
  ) {
    this.copies = [directory];
  }

  refresh(): Promise<ReadonlyMap<RecordName, Buffer>> {
    return Promise.resolve(NOTHING_LOST);
  }

  list(within: string): RecordName[] {
    return this.#answer(() => {
      const where = path.join(this.directory, within);
      if (this.files.look(where) === undefined) return [];
      return this.files
        .list(where)
        .map((file) => `${within}/${file}`)
        .filter(isRecordName);
    });
  }

  read(name: RecordName): Buffer[] {
    // A file that is read while another process replaces it may be zeros already.
    const bytes = this.#soundBytes(name) ?? this.#soundBytes(name);
    return bytes === undefined ? [] : [bytes];
  }

  async write(name: RecordName, bytes: Buffer, after: number): Promise<'written' | 'stale'> {
    return (await this.#put(name, bytes, after)) ? 'written' : 'stale';
  }

  async erase(
    name: RecordName,
    bytes: Buffer | undefined,
    after: number,
  ): Promise<readonly string[] | 'stale'> {
    try {
      return (await this.#put(name, bytes, after)) ? [] : 'stale';
    } catch (error) {
      if (error instanceof VaultAway) return this.copies;
      throw error;
    }
  }

  async prove(): Promise<void> {
    await this.#change(() => {
      this.#replace(TRIAL, Buffer.from('written to see whether keys can be\n'));
      this.files.remove(path.join(this.directory, TRIAL));
      return true;
    });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** @returns whether it is done; not where another generation is stored, or an epoch is missing or in use. */
  #put(name: RecordName, bytes: Buffer | undefined, after: number): Promise<boolean> {
    return this.#change(() => {
      const [stored] = this.read(name);
      const isDone = stored === undefined ? bytes === undefined : bytes?.equals(stored) === true;
      if (!isDone && (generationIn(name, stored) !== after || !this.#isFit(name, bytes))) return false;
      // Also where it is done: what was cut off may not be durable, or have left a draft or a file that is not sound.
      this.#remove(`${name}.draft`);
      if (bytes === undefined) this.#remove(name);
      else if (!isDone) this.#replace(name, bytes);
      this.#sync(path.dirname(path.join(this.directory, name)));
      return true;
    });
  }

  /** Whether every key state has its epoch when the record is stored or removed. */
  #isFit(name: RecordName, bytes: Buffer | undefined): boolean {
    if (bytes === undefined) return !this.#isInUse(name);
    const epoch = epochOf(name, bytes);
    return epoch === undefined || this.read(epochName(epoch)).length > 0;
  }

  /** On return the names in a directory are durable: asked of the disk once, and again after a change. */
  #sync(where: string): void {
    if (this.#synced.has(where) || this.files.look(where) === undefined) return;
    this.files.syncDirectory(where);
    this.#synced.add(where);
  }

  /** Whether a key state is under this epoch. */
  #isInUse(name: RecordName): boolean {
    const epoch = epochIn(name);
    return epoch !== undefined && stateNames(this).some((each) => this.#epochOf(each) === epoch);
  }

  #epochOf(name: RecordName): number | undefined {
    const [bytes] = this.read(name);
    return bytes && epochOf(name, bytes);
  }

  #soundBytes(name: RecordName): Buffer | undefined {
    return this.#answer(() => {
      const file = path.join(this.directory, name);
      if (this.files.look(file) === undefined) return undefined;
      try {
        const bytes = readFrom(this.files, file);
        return generationOf(name, bytes) > 0 ? bytes : undefined;
      } catch (error) {
        if (systemCode(error) === 'EISDIR') return undefined;
        throw error;
      }
    });
  }

  /** On return the file holds these bytes, durably; until then it holds what it held. */
  #replace(name: string, bytes: Buffer): void {
    const file = path.join(this.directory, name);
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
    const file = path.join(this.directory, name);
    if (this.files.look(file) === undefined) return;
    this.#synced.delete(path.dirname(file));
    removeOverwritten(this.files, file);
    this.#synced.add(path.dirname(file));
  }

  /** @throws VaultAway where the directory does not answer. */
  #answer<Answer>(ask: () => Answer): Answer {
    try {
      if (this.files.look(this.directory) !== undefined) return ask();
    } catch (error) {
      if (error instanceof VaultAway) throw error;
      throw new VaultAway(`the keys in ${this.directory} cannot be read`, { cause: error });
    }
    throw new VaultAway(`there is no directory ${this.directory}`);
  }

  #change(work: () => boolean): Promise<boolean> {
    this.unwritten.clear();
    return new Promise((resolve) => {
      try {
        resolve(this.#answer(work));
      } catch (error) {
        this.unwritten.set(this.directory, error);
        throw error;
      }
    });
  }
}

/** On return the file has no name any more, durably, and what it held is overwritten. */
export function removeOverwritten(files: Files, file: string): void {
  const fd = files.open(file, 'r+');
  try {
    files.remove(file);
    files.syncDirectory(path.dirname(file));
    overwrite(files, fd);
  } finally {
    files.close(fd);
  }
}

/** For what it is worth on a disk that writes elsewhere: what it held is gone for good with the key of its epoch. */
function overwrite(files: Files, fd: number): void {
  try {
    const size = files.size(fd);
    files.write(fd, Buffer.alloc(size), size, 0);
    files.datasync(fd);
  } catch {
    // What replaced it is durable, and the old epoch's key goes.
  }
}

function generationIn(name: RecordName, bytes: Buffer | undefined): number {
  return bytes === undefined ? 0 : generationOf(name, bytes);
}
