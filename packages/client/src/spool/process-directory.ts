/**
 * Each opened spool writes in a sub-directory of its own, so that no two processes ever write to one file:
 *
 *   <spool>/<series>/lock       the socket that its holder listens on (files.ts)
 *   <spool>/<series>/owner      the host of the holder, and for people its process id; touched every 10 seconds; removed
 *                               when the spool is closed
 *   <spool>/<series>/*.segment, *.done
 *
 * It is made under another name and renamed once the lock is held: under its name it is never seen without. One that is
 * abandoned may be adopted by anybody: its segments are renamed into the directory of the adopter, one by one, and a
 * rename has one winner.
 *
 * Abandoned is one without an owner; one of this boot of this host on whose lock no one listens; and one without a lock,
 * or of another boot or host, whose owner was not touched for three minutes while someone looked on. No clock that can
 * be set has a say.
 */
import path from 'node:path';
import { types } from 'node:util';
import { type OnTrouble, SpoolKeyWrong, type SpoolOptions, SpoolUnwritable } from './contract.js';
import { errorCode, type HeldLock, reading, type SpoolFiles } from './files.js';
import { KEY_BYTES } from './frame.js';
import { newSeries, SERIES_NAME } from './segment.js';

export const HEARTBEAT_MS = 10_000;
/** Longer than a client of NFS keeps the times of a file by itself (acregmax, 60 seconds). */
export const PATIENCE_MS = 180_000;
export const DRAFT = 'new-';
export const LOCK = 'lock';
export const OWNER = 'owner';

/**
 * On return the directory exists and no one but its owner, who is the user of this process, can write to it.
 * @throws SpoolUnwritable
 */
export async function preparePrivate(files: SpoolFiles, directory: string): Promise<void> {
  let owner: { uid: number; mode: number };
  try {
    await files.makeDirectory(directory);
    owner = await files.ownerOf(directory);
  } catch (error) {
    throw new SpoolUnwritable(`${directory} cannot be used as a spool`, { cause: error });
  }
  refuseShared(directory, owner);
}

/** @throws SpoolUnwritable when the directory is someone else's, or others can write to it. */
export function refuseShared(directory: string, owner: { uid: number; mode: number }): void {
  const user = process.geteuid?.();
  if (user !== undefined && owner.uid !== user) {
    throw new SpoolUnwritable(
      `${directory} belongs to user ${owner.uid}, and this process runs as ${user}: a spool is for one user`,
    );
  }
  if ((owner.mode & 0o022) !== 0) {
    throw new SpoolUnwritable(
      `others can write to ${directory} (mode ${owner.mode.toString(8)}): remove that, or name a directory inside it`,
    );
  }
}

export class ProcessDirectory {
  readonly series: string;
  readonly path: string;
  readonly #files: SpoolFiles;
  readonly #lock: HeldLock;

  private constructor(files: SpoolFiles, root: string, series: string, lock: HeldLock) {
    this.#files = files;
    this.series = series;
    this.path = path.join(root, series);
    this.#lock = lock;
  }

  /**
   * On return this thread holds a new directory in `root`.
   * @throws SpoolUnwritable
   */
  static async create(files: SpoolFiles, root: string): Promise<ProcessDirectory> {
    const series = newSeries();
    const draft = path.join(root, `${DRAFT}${series}`);
    let lock: HeldLock | undefined;
    try {
      await files.makeDirectory(draft);
      lock = await files.holdLock(path.join(draft, LOCK));
      const fd = await files.open(path.join(draft, OWNER), 'new');
      try {
        await files.write(fd, Buffer.from(`${files.host}\n${process.pid}\n`), 0);
      } finally {
        await files.close(fd);
      }
      await files.rename(draft, path.join(root, series));
      await files.syncDirectory(root);
      return new ProcessDirectory(files, root, series, lock);
    } catch (error) {
      await lock?.release();
      await removeEmptied(files, draft).catch(() => undefined);
      throw new SpoolUnwritable(`nothing can be made in ${root}`, { cause: error });
    }
  }

  /** Shows that this thread lives. @throws when the directory is not there any more. */
  async touch(): Promise<void> {
    await this.#files.touch(path.join(this.path, OWNER));
  }

  /** On return it may be adopted, or is gone if nothing is in it. */
  async release(): Promise<void> {
    await this.#files.remove(path.join(this.path, OWNER));
    await this.#lock.release();
    await removeEmptied(this.#files, this.path).catch(() => undefined);
  }
}

/** Who holds a directory, or may hold it. */
export interface Holder {
  /** By its own word. */
  readonly pid: number | undefined;
  /** It runs on this host and lives. Otherwise it cannot be asked, and may be long gone. */
  readonly here: boolean;
  /** Its last sign of life, Unix time in milliseconds. */
  readonly touchedAt: number;
}

/** Looks for directories in the spool that no one holds any more. */
export class Neighbours {
  readonly #files: SpoolFiles;
  readonly #root: string;
  readonly #onTrouble: OnTrouble;
  readonly #patienceMs: number;
  readonly #warned = new Set<string>();
  /** Those about which only waiting tells: when they were last seen to change, by the monotonic clock. */
  readonly #watched = new Map<string, { touchedAt: number; since: number; alive: boolean }>();

  constructor(files: SpoolFiles, root: string, onTrouble: OnTrouble, patienceMs = PATIENCE_MS) {
    this.#files = files;
    this.#root = root;
    this.#onTrouble = onTrouble;
    this.#patienceMs = patienceMs;
  }

  /**
   * The paths of abandoned directories, the oldest first, but for `own`. What cannot be looked at is told.
   * @throws SpoolUnwritable when that goes for all of them.
   */
  async abandoned(own?: string): Promise<string[]> {
    const found: string[] = [];
    const names = await this.#files.list(this.#root).catch((error: unknown) => {
      throw new SpoolUnwritable(`${this.#root} cannot be read`, { cause: error });
    });
    for (const directory of this.#watched.keys()) {
      if (!names.includes(path.basename(directory))) this.#watched.delete(directory);
    }
    for (const name of names) {
      const directory = path.join(this.#root, name);
      if (directory === own) continue;
      try {
        if (SERIES_NAME.test(name)) {
          if (await this.#isAbandoned(directory)) found.push(directory);
        } else if (name.startsWith(DRAFT) && (await this.#isQuiet(directory, directory))) {
          // Its maker ended before it was done: nothing was ever put in it.
          await removeEmptied(this.#files, directory);
        }
      } catch (error) {
        // Someone else was faster.
        if (errorCode(error) !== 'ENOENT') this.#onTrouble(`${directory} cannot be looked at`, error);
      }
    }
    return found;
  }

  async #isAbandoned(directory: string): Promise<boolean> {
    return (await this.#stateOf(directory)) === 'abandoned';
  }

  /** See Holder. @throws as `abandoned` tells. */
  async holderOf(directory: string): Promise<Holder | undefined> {
    const state = await this.#stateOf(directory);
    const owner = state === 'abandoned' ? undefined : await readOwner(this.#files, directory);
    if (!owner || state === 'abandoned') return undefined;
    const touchedAt = await this.#files.touchedAt(path.join(directory, OWNER));
    return { pid: owner.pid, here: state === 'held', touchedAt };
  }

  async #stateOf(directory: string): Promise<'held' | 'unknown' | 'abandoned'> {
    const owner = path.join(directory, OWNER);
    const holder = await readOwner(this.#files, directory);
    const state = holder && (await this.#files.lockState(path.join(directory, LOCK)));
    // A lock that is missing may have been swept away under a living process.
    if (holder === undefined || (holder.host === this.#files.host && state !== 'missing')) {
      this.#watched.delete(directory);
      return state === 'held' ? 'held' : 'abandoned';
    }
    if (await this.#isQuiet(directory, owner)) return 'abandoned';
    if (holder.host !== this.#files.host) this.#warnOfOther(directory);
    return 'unknown';
  }

  async #isQuiet(directory: string, file: string): Promise<boolean> {
    const touchedAt = await this.#files.touchedAt(file);
    const now = performance.now();
    const watched = this.#watched.get(directory);
    if (watched?.touchedAt === touchedAt) return now - watched.since >= this.#patienceMs;
    this.#watched.set(directory, { touchedAt, since: now, alive: watched !== undefined });
    return this.#patienceMs === 0;
  }

  /** Once, when a process of another host shows that it lives. */
  #warnOfOther(directory: string): void {
    if (this.#watched.get(directory)?.alive !== true || this.#warned.has(directory)) return;
    this.#warned.add(directory);
    this.#onTrouble(`${directory} is in use by another host: a spool is for the processes of one`, undefined);
  }

  /** How many directories are watched that have shown no sign of life since. */
  get watched(): number {
    const parts = [...this.#watched].filter(([directory]) => SERIES_NAME.test(path.basename(directory)));
    return parts.filter(([, { alive }]) => !alive).length;
  }

  /** Whether the directory was found abandoned by watching it alone, so that its holder may come back. */
  mayComeBack(directory: string): boolean {
    return this.#watched.has(directory);
  }
}

/** On return the directory is gone. @throws when anything is in it but a lock and the name of its owner. */
export async function removeEmptied(files: SpoolFiles, directory: string): Promise<void> {
  const others = (await files.list(directory)).filter((name) => name !== LOCK && name !== OWNER);
  if (others.length > 0) throw new Error(`${directory} is not empty`);
  await files.remove(path.join(directory, OWNER));
  await files.remove(path.join(directory, LOCK));
  await files.removeDirectory(directory);
}

/** Who holds the directory, or held it last; undefined when no one does. The process id is only a word of its host. */
async function readOwner(
  files: SpoolFiles,
  directory: string,
): Promise<{ host: string; pid: number | undefined } | undefined> {
  return reading(files, path.join(directory, OWNER), async (fd) => {
    const bytes = Buffer.alloc(256);
    const read = await files.read(fd, bytes, 0);
    const [host = '', pid = ''] = bytes.subarray(0, read).toString().split('\n');
    return { host, pid: /^\d{1,10}$/.test(pid) ? Number(pid) : undefined };
  });
}

/* Where a spool on the disk is, and by what it is sealed, as the host has said it. */

/**
 * @throws SpoolUnwritable without the name of a directory: never the working directory by a slip. SpoolKeyWrong for a
 * key that is none: where one is meant, nothing is ever written in the clear.
 */
export function placeOf({ directory, key }: Pick<SpoolOptions, 'directory' | 'key'>): {
  readonly root: string;
  readonly key: Uint8Array | undefined;
} {
  if (typeof directory !== 'string' || directory === '') {
    throw new SpoolUnwritable('the directory of the spool has no name');
  }
  const given: unknown = key;
  if (given !== undefined && !(types.isUint8Array(given) && given.length === KEY_BYTES)) {
    throw new SpoolKeyWrong(`the key of a spool has ${KEY_BYTES} bytes, in a Uint8Array`);
  }
  return { root: path.resolve(directory), key };
}
