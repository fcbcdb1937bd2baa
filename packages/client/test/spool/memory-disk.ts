/**
 * A disk in memory, under the spool instead of the file system, that several processes share. It records what is written
 * and what of that is on stable storage, and it can fail any call of a process, or end the process at it.
 *
 * After the end of a process, all that was written is left. After a loss of power, all that was flushed is
 * left, and of the rest the sectors and names that the caller picks. After a flush that fails, the kernel
 * calls the pages clean although they never reached the disk: a later flush does not bring them there.
 */
import path from 'node:path';
import type { SpoolFiles } from '../../src/spool/files.js';

const SECTOR_BYTES = 512;
/** A directory can be created if there is this much room; its own size is not counted. */
const DIRECTORY_BYTES = 64;
const STARTED = Date.now();

export type Operation = Exclude<keyof SpoolFiles, 'host'>;
/** `before`: the call does nothing. `after`: it does everything, and fails. `partly`: it does half. */
export type Manner = 'before' | 'partly' | 'after';

class DiskFault extends Error {
  constructor(
    message: string,
    readonly code = 'EIO',
  ) {
    super(message);
  }
}

class Inode {
  bytes = Buffer.alloc(0);
  durable = Buffer.alloc(0);
  dirty = new Set<number>();
  /** It rises with each touch. */
  touched = STARTED;
  /** The process that listens, for the socket of a lock. */
  holder: DiskProcess | undefined;

  resize(size: number): void {
    const resized = Buffer.alloc(size);
    this.bytes.copy(resized);
    this.bytes = resized;
  }

  write(source: Uint8Array, position: number): void {
    if (position + source.length > this.bytes.length) this.resize(position + source.length);
    this.bytes.set(source, position);
    const last = Math.floor((position + source.length - 1) / SECTOR_BYTES);
    for (let sector = Math.floor(position / SECTOR_BYTES); sector <= last; sector++) this.dirty.add(sector);
  }

  persist(picked: (sector: number) => boolean): void {
    const durable = Buffer.alloc(this.bytes.length);
    this.durable.copy(durable);
    for (const sector of this.dirty) {
      if (picked(sector)) this.bytes.copy(durable, sector * 512, sector * 512, (sector + 1) * SECTOR_BYTES);
    }
    this.durable = durable;
    this.dirty.clear();
  }
}

export class MemoryDisk {
  names = new Map<string, Inode>();
  durableNames = new Map<string, Inode>();
  readonly directories = new Set<string>(['/']);
  /** Bytes that fit. */
  capacity = Infinity;

  /** The file layer of a process that uses the disk. */
  process(): DiskProcess {
    return new DiskProcess(this);
  }

  /** What a process sees in the file. Changing it changes the file. */
  bytesOf(file: string): Buffer {
    const inode = this.names.get(file);
    if (!inode) throw new Error(`there is no ${file}`);
    return inode.bytes;
  }

  cut(file: string, size: number): void {
    this.names.get(file)?.resize(size);
  }

  put(file: string, bytes: Uint8Array): void {
    const inode = new Inode();
    inode.write(bytes, 0);
    inode.persist(() => true);
    this.names.set(file, inode);
    this.durableNames.set(file, inode);
  }

  /** The paths of all files below the directory whose names have this end. */
  files(directory: string, end = ''): string[] {
    return [...this.names.keys()]
      .filter((file) => file.startsWith(`${directory}/`) && file.endsWith(end))
      .sort();
  }

  /**
   * The machine loses power; all its processes have ended by then. Locks and owners always survive: without them a
   * directory is only adopted after minutes, see the tests of that.
   * @param chosen what has also reached the disk without a flush.
   */
  losePower(chosen: (what: string, sector: number) => boolean): void {
    const picked = (what: string, sector: number) => /[/](lock|owner)$/.test(what) || chosen(what, sector);
    const names = new Map<string, Inode>();
    for (const file of new Set([...this.durableNames.keys(), ...this.names.keys()])) {
      const [now, before] = [this.names.get(file), this.durableNames.get(file)];
      const removed = !this.directories.has(path.dirname(file)) && picked(path.dirname(file), -2);
      const survivor = removed ? undefined : now === before || picked(file, -1) ? now : before;
      if (survivor) names.set(file, survivor);
    }
    for (const [file, inode] of names) {
      inode.persist((sector) => picked(file, sector));
      inode.bytes = Buffer.from(inode.durable);
    }
    // A rename is atomic: the file has its old name or its new one.
    const seen = new Set<Inode>();
    for (const [file, inode] of names) {
      if (seen.has(inode)) names.delete(file);
      seen.add(inode);
    }
    // A directory that was removed may come back with what had been removed from it.
    for (const file of names.keys()) this.directories.add(path.dirname(file));
    this.names = names;
    this.durableNames = new Map(names);
  }

  get used(): number {
    return [...this.names.values()].reduce((bytes, inode) => bytes + inode.bytes.length, 0);
  }
}

function full(): DiskFault {
  return new DiskFault('the disk is full', 'ENOSPC');
}

function missing(file: string): DiskFault {
  return new DiskFault(`there is no ${file}`, 'ENOENT');
}

export class DiskProcess {
  ended = false;
  /** Called before each call: decides whether it fails, and how. */
  fate: (operation: Operation, file: string) => Manner | undefined = () => undefined;
  /** Ends this process after this number of calls, before or in the middle of the next one. */
  endIn: { calls: number; manner: Manner } | undefined;
  readonly #disk: MemoryDisk;
  readonly #descriptors = new Map<number, { file: string; inode: Inode }>();
  #nextDescriptor = 3;

  constructor(disk: MemoryDisk) {
    this.#disk = disk;
  }

  /** kill -9. */
  end(): void {
    this.ended = true;
  }

  get openDescriptors(): number {
    return this.#descriptors.size;
  }

  readonly files: SpoolFiles = {
    host: 'a-host',
    makeDirectory: (directory) =>
      this.#do('makeDirectory', directory, () => {
        for (let at = directory; !this.#disk.directories.has(at); at = path.dirname(at)) {
          if (this.#disk.used + DIRECTORY_BYTES > this.#disk.capacity) throw full();
          this.#disk.directories.add(at);
        }
      }),
    makeInside: (directory) => this.files.makeDirectory(directory),
    removeDirectory: (directory) =>
      this.#do('removeDirectory', directory, () => {
        if (!this.#disk.directories.has(directory)) throw missing(directory);
        if (this.#list(directory).length > 0) throw new DiskFault('not empty', 'ENOTEMPTY');
        this.#disk.directories.delete(directory);
      }),
    list: (directory) => this.#do('list', directory, () => this.#list(directory)),
    ownerOf: (directory) =>
      this.#do('ownerOf', directory, () => ({ uid: process.geteuid?.() ?? 0, mode: 0o700 })),
    syncDirectory: (directory) =>
      this.#do('syncDirectory', directory, () => {
        const inside = (file: string) => path.dirname(file) === directory;
        const { names, durableNames } = this.#disk;
        for (const file of durableNames.keys()) if (inside(file)) durableNames.delete(file);
        for (const [file, inode] of names) if (inside(file)) durableNames.set(file, inode);
      }),
    rename: (from, to) => this.#do('rename', from, () => this.#rename(from, to)),
    remove: (file) => this.#do('remove', file, () => void this.#disk.names.delete(file)),
    open: (file, how) => this.#do('open', file, () => this.#open(file, how)),
    close: (fd) => this.#do('close', this.#at(fd).file, () => void this.#descriptors.delete(fd)),
    size: (fd) => this.#do('size', this.#at(fd).file, () => this.#at(fd).inode.bytes.length),
    read: (fd, target, position) =>
      this.#do('read', this.#at(fd).file, () => {
        const source = this.#at(fd).inode.bytes.subarray(position, position + target.length);
        target.set(source);
        return source.length;
      }),
    write: (fd, source, position) =>
      this.#do(
        'write',
        this.#at(fd).file,
        () => this.#write(fd, source, position),
        () => this.#write(fd, source.subarray(0, source.length >> 1), position),
      ),
    truncate: (fd, size) => this.#do('truncate', this.#at(fd).file, () => this.#at(fd).inode.resize(size)),
    datasync: async (fd) => {
      const { file, inode } = this.#at(fd);
      try {
        await this.#do(
          'datasync',
          file,
          () => inode.persist(() => true),
          () => inode.persist((sector) => sector % 2 === 0),
        );
      } catch (error) {
        inode.dirty.clear();
        throw error;
      }
    },
    touch: (file) =>
      this.#do('touch', file, () => {
        const inode = this.#disk.names.get(file);
        if (!inode) throw missing(file);
        inode.touched++;
      }),
    touchedAt: (file) =>
      this.#do('touchedAt', file, () => {
        const inode = this.#disk.names.get(file);
        if (!inode && !this.#disk.directories.has(file)) throw missing(file);
        return inode?.touched ?? STARTED;
      }),
    openNow: (file) => this.#open(file, 'write'),
    writeNow: (fd, source, position) => this.#write(fd, source, position),
    datasyncNow: (fd) => this.#at(fd).inode.persist(() => true),
    holdLock: (file) =>
      this.#do('holdLock', file, () => {
        const inode = new Inode();
        inode.holder = this;
        this.#disk.names.set(file, inode);
        return {
          release: () => {
            inode.holder = undefined;
            return Promise.resolve();
          },
        };
      }),
    lockState: (file) =>
      this.#do('lockState', file, () => {
        const inode = this.#disk.names.get(file);
        if (!inode) return 'missing' as const;
        return inode.holder && !inode.holder.ended ? ('held' as const) : ('free' as const);
      }),
  };

  async #do<T>(operation: Operation, file: string, act: () => T, half: () => unknown = () => 0): Promise<T> {
    // After a delay, as with a real disk.
    await Promise.resolve();
    if (this.ended) throw new DiskFault('the process has ended');
    if (this.endIn && this.endIn.calls-- === 0) {
      if (this.endIn.manner === 'partly') half();
      if (this.endIn.manner === 'after') act();
      this.end();
      throw new DiskFault('the process has ended');
    }
    const manner = this.fate(operation, file);
    if (manner === 'partly') half();
    if (manner === undefined || manner === 'after') {
      const result = act();
      if (manner === undefined) return result;
    }
    throw new DiskFault(`${operation} failed ${manner} it was done`);
  }

  #at(fd: number): { file: string; inode: Inode } {
    const open = this.#descriptors.get(fd);
    if (!open) throw new DiskFault(`descriptor ${fd} is not open`, 'EBADF');
    return open;
  }

  #list(directory: string): string[] {
    if (!this.#disk.directories.has(directory)) throw missing(directory);
    const inside = [...this.#disk.names.keys(), ...this.#disk.directories].filter(
      (file) => file !== directory && path.dirname(file) === directory,
    );
    return inside.map((file) => path.basename(file)).sort();
  }

  #rename(from: string, to: string): void {
    const { names, durableNames, directories } = this.#disk;
    if (directories.delete(from)) {
      directories.add(to);
      for (const map of [names, durableNames]) {
        for (const [file, inode] of [...map]) {
          if (!file.startsWith(`${from}/`)) continue;
          map.delete(file);
          map.set(to + file.slice(from.length), inode);
        }
      }
      return;
    }
    const inode = names.get(from);
    if (!inode) throw missing(from);
    names.delete(from);
    names.set(to, inode);
  }

  #open(file: string, how: 'read' | 'write' | 'new'): number {
    let inode = this.#disk.names.get(file);
    if (inode && how === 'new') throw new DiskFault(`${file} exists`, 'EEXIST');
    if (!inode && (how === 'read' || !this.#disk.directories.has(path.dirname(file)))) throw missing(file);
    inode ??= new Inode();
    this.#disk.names.set(file, inode);
    this.#descriptors.set(++this.#nextDescriptor, { file, inode });
    return this.#nextDescriptor;
  }

  #write(fd: number, source: Uint8Array, position: number): void {
    const { inode } = this.#at(fd);
    const grows = Math.max(0, position + source.length - inode.bytes.length);
    const over = Math.max(0, Math.min(grows, this.#disk.used + grows - this.#disk.capacity));
    const fits = source.length - over;
    if (fits > 0) inode.write(source.subarray(0, fits), position);
    if (over > 0) throw full();
  }
}
