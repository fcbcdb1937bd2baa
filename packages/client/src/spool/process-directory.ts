/**
 * Each open spool has a directory of its own, a part, so that no two processes write to one file. `lock` is a
 * socket on which the holder listens (files.ts). `owner` names host and process; it is touched every 10
 * seconds, and removed when the spool is closed. The directory is renamed to its final name once the lock is
 * held.
 *
 * A part is abandoned if it has no `owner`; if its `owner` names this boot of this host, and no process
 * listens on `lock`; or if `lock` is missing, or `owner` names another host or boot, and `owner` was not
 * touched for three minutes, by the monotonic clock of the observer. Any process may then adopt it: it
 * renames the segments into its own part.
 */
import path from 'node:path';
import { types } from 'node:util';
import { errorCode, type HeldLock, reading, type SpoolFiles } from './files.js';
import { KEY_BYTES } from './seal.js';
import { newSeries, SERIES_NAME } from './segment.js';
import { type OnTrouble, SpoolKeyWrong, type SpoolOptions, SpoolUnwritable } from './spool.js';

export const HEARTBEAT_MS = 10_000;
/** Longer than an NFS client caches the attributes of a file (acregmax, 60 seconds). */
export const PATIENCE_MS = 180_000;
export const DRAFT = 'new-';
export const LOCK = 'lock';
export const OWNER = 'owner';

/**
 * On return the directory exists, belongs to the user of this process, and is writable by that user alone.
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

/** @throws SpoolUnwritable if the directory belongs to another user or other users can write to it. */
export function refuseShared(directory: string, owner: { uid: number; mode: number }): void {
  const user = process.geteuid?.();
  if (user !== undefined && owner.uid !== user) {
    throw new SpoolUnwritable(
      `${directory} belongs to user ${owner.uid}, but this process runs as user ${user}`,
    );
  }
  if ((owner.mode & 0o022) !== 0) {
    throw new SpoolUnwritable(
      `other users can write to ${directory} (mode ${owner.mode.toString(8)}): change its mode`,
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
   * On return this process holds a new part in `root`.
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
      throw new SpoolUnwritable(`no part can be created in ${root}`, { cause: error });
    }
  }

  /** Shows that this process is alive. @throws if the directory no longer exists. */
  async touch(): Promise<void> {
    await this.#files.touch(path.join(this.path, OWNER));
  }

  /** Gives up the part. An empty one is removed. */
  async release(): Promise<void> {
    await this.#files.remove(path.join(this.path, OWNER));
    await this.#lock.release();
    await removeEmptied(this.#files, this.path).catch(() => undefined);
  }
}

/** The process that holds a part, or may hold it. */
export interface Holder {
  /** As stated in `owner`. */
  readonly pid: number | undefined;
  /** True if the process is alive on this host; false if that is unknown. */
  readonly here: boolean;
  /** When `owner` was last touched, Unix time in milliseconds. */
  readonly touchedAt: number;
}

/** Finds abandoned parts. */
export class Neighbours {
  readonly #files: SpoolFiles;
  readonly #root: string;
  readonly #onTrouble: OnTrouble;
  readonly #patienceMs: number;
  readonly #warned = new Set<string>();
  /**
   * Parts whose lock does not show whether the holder is alive, and when a change of `owner` was last seen,
   * by the monotonic clock.
   */
  readonly #watched = new Map<string, { touchedAt: number; since: number; alive: boolean }>();

  constructor(files: SpoolFiles, root: string, onTrouble: OnTrouble, patienceMs = PATIENCE_MS) {
    this.#files = files;
    this.#root = root;
    this.#onTrouble = onTrouble;
    this.#patienceMs = patienceMs;
  }

  /**
   * The paths of abandoned parts, oldest first, except `own`. Parts that cannot be read are reported.
   * @throws SpoolUnwritable if the spool itself cannot be read.
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
          if ((await this.#stateOf(directory)) === 'abandoned') found.push(directory);
        } else if (name.startsWith(DRAFT) && (await this.#isQuiet(directory, directory))) {
          // Its process ended before the rename, so it holds no events.
          await removeEmptied(this.#files, directory);
        }
      } catch (error) {
        // ENOENT: another process adopted it.
        if (errorCode(error) !== 'ENOENT') this.#onTrouble(`${directory} cannot be read`, error);
      }
    }
    return found;
  }

  /** Undefined if the part is abandoned. @throws the system's error. */
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
    // A clean-up may have removed the lock of a living process.
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

  /** Warns once when a process of another host proves to be alive. */
  #warnOfOther(directory: string): void {
    if (this.#watched.get(directory)?.alive !== true || this.#warned.has(directory)) return;
    this.#warned.add(directory);
    this.#onTrouble(
      `${directory} is in use by another host: only one host may use a spool at a time`,
      undefined,
    );
  }

  /** Number of parts under observation that have shown no sign of life. */
  get watched(): number {
    const parts = [...this.#watched].filter(([directory]) => SERIES_NAME.test(path.basename(directory)));
    return parts.filter(([, { alive }]) => !alive).length;
  }

  /** Whether observation alone found the part abandoned, so that its holder may resume. */
  mayComeBack(directory: string): boolean {
    return this.#watched.has(directory);
  }
}

/** Removes a directory that contains at most `lock` and `owner`. @throws if it contains anything else. */
export async function removeEmptied(files: SpoolFiles, directory: string): Promise<void> {
  const others = (await files.list(directory)).filter((name) => name !== LOCK && name !== OWNER);
  if (others.length > 0) throw new Error(`${directory} is not empty`);
  await files.remove(path.join(directory, OWNER));
  await files.remove(path.join(directory, LOCK));
  await files.removeDirectory(directory);
}

/** Contents of `owner`; undefined if there is none. */
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

/**
 * Checks directory and key as the application gave them.
 * @throws SpoolUnwritable for an empty directory name; SpoolKeyWrong for an invalid key, so that events are
 * never written unencrypted by mistake.
 */
export function placeOf({ directory, key }: Pick<SpoolOptions, 'directory' | 'key'>): {
  readonly root: string;
  readonly key: Uint8Array | undefined;
} {
  if (typeof directory !== 'string' || directory === '') {
    throw new SpoolUnwritable('the directory of the spool is not named');
  }
  const given: unknown = key;
  if (given !== undefined && !(types.isUint8Array(given) && given.length === KEY_BYTES)) {
    throw new SpoolKeyWrong(`the key of a spool must be a Uint8Array of ${KEY_BYTES} bytes`);
  }
  return { root: path.resolve(directory), key };
}
