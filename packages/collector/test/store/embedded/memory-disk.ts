/**
 * A disk in memory, under the ledger instead of the file system: it records what is written and what of that is on
 * stable storage, in sectors, and can fail any one call.
 *
 * What a crash leaves: of a process, all that was written, because the kernel has it. Of the machine, what was
 * flushed, and of the rest whatever sectors, sizes and names the caller picks. After a flush that fails, the
 * kernel calls the pages clean though they never reached the disk: a later flush does not bring them there.
 */
import path from 'node:path';
import type { Files } from '../../../src/files.js';

export const SECTOR_BYTES = 512;

/** Those that the log of events makes. */
export const OPERATIONS = [
  'open',
  'close',
  'size',
  'look',
  'read',
  'write',
  'datasync',
  'truncate',
  'rename',
  'remove',
  'makeDirectory',
  'list',
  'syncDirectory',
  'createZeroed',
] as const satisfies readonly (keyof Files)[];
/** Those that the tree makes. */
export const TREE_OPERATIONS = [
  'open',
  'read',
  'write',
  'makeDirectory',
  'list',
  'syncDirectory',
  'datasyncLater',
  'replace',
] as const satisfies readonly (keyof Files)[];
export type Operation = (typeof OPERATIONS)[number] | (typeof TREE_OPERATIONS)[number];

/** `before`: the call does nothing. `after`: it does everything, and fails. `partly`: it does half. */
export type Manner = 'before' | 'partly' | 'after';

export class DiskFault extends Error {
  readonly code = 'EIO';
}

let inodes = 0;

class Inode {
  readonly number = ++inodes;
  bytes = Buffer.alloc(0);
  durable = Buffer.alloc(0);
  dirty = new Set<number>();

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

  flush(): void {
    this.persist(() => true);
    this.dirty.clear();
  }

  /** Brings the dirty sectors that are picked to stable storage, and the size with them. */
  persist(picked: (sector: number) => boolean): void {
    const durable = Buffer.alloc(this.bytes.length);
    this.durable.copy(durable);
    for (const sector of this.dirty) {
      const [start, end] = [sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES];
      if (picked(sector)) this.bytes.copy(durable, start, start, end);
    }
    this.durable = durable;
  }

  copy(): Inode {
    const copied = new Inode();
    copied.bytes = Buffer.from(this.bytes);
    copied.durable = Buffer.from(this.durable);
    copied.dirty = new Set(this.dirty);
    return copied;
  }
}

export class MemoryDisk {
  readonly #names = new Map<string, Inode>();
  readonly #durableNames = new Map<string, Inode>();
  readonly #descriptors = new Map<number, Inode>();
  readonly #directories = new Set<string>();
  readonly #durableDirectories = new Set<string>();
  /** All files that were ever on this disk, also without a name. */
  readonly #inodes = new Set<Inode>();
  #nextDescriptor = 100;
  #fault: { operation: Operation; countdown: number; manner: Manner; lasting: boolean } | undefined;
  /** How often each operation was called. */
  readonly calls = new Map<Operation, number>();
  /** Called before each call. */
  onCall: (operation: Operation) => void = () => undefined;
  /** Bytes that fit; a write that would take more writes what fits and fails. */
  capacity = Infinity;

  /** From now on, call `nth` (1 is the next one) of the operation fails; with `lasting`, every later one too. */
  fail(operation: Operation, nth: number, manner: Manner, lasting = false): void {
    this.#fault = { operation, countdown: nth, manner, lasting };
  }

  /** Whether any call has ever failed. */
  hasEverFailed = false;

  /** Whether a call has failed since `fail`. */
  get hasFailed(): boolean {
    return this.#fault !== undefined && this.#fault.countdown <= 0;
  }

  /** Cancels `fail`. @returns whether any call has failed. */
  heal(): boolean {
    const failed = this.hasFailed;
    this.#fault = undefined;
    return failed;
  }

  readonly files: Files = {
    open: (file, flags) =>
      this.#do('open', () => {
        let inode = this.#names.get(file);
        if (flags === 'wx+') {
          if (inode) throw Object.assign(new Error(`EEXIST: ${file}`), { code: 'EEXIST' });
          inode = this.#create(file);
        }
        if (!inode) throw Object.assign(new Error(`ENOENT: ${file}`), { code: 'ENOENT' });
        this.#descriptors.set(++this.#nextDescriptor, inode);
        return this.#nextDescriptor;
      }),
    close: (fd) =>
      this.#do('close', () => {
        if (!this.#descriptors.delete(fd)) throw Object.assign(new Error('EBADF'), { code: 'EBADF' });
      }),
    size: (fd) => this.#do('size', () => this.#inode(fd).bytes.length),
    look: (file) =>
      this.#do('look', () => {
        const inode = this.#names.get(file);
        if (inode === undefined) return this.#directories.has(file) ? { id: file, size: 0 } : undefined;
        return { id: String(inode.number), size: inode.bytes.length };
      }),
    read: (fd, target, offset, length, position) =>
      this.#do('read', () => {
        const source = this.#inode(fd).bytes.subarray(position, position + length);
        target.set(source, offset);
        return source.length;
      }),
    write: (fd, source, length, position) =>
      this.#do(
        'write',
        () => this.#write(fd, source.subarray(0, length), position),
        () => this.#write(fd, source.subarray(0, length >> 1), position),
      ),
    datasync: (fd) => {
      const inode = this.#inode(fd);
      try {
        this.#do(
          'datasync',
          () => inode.flush(),
          () => inode.persist((sector) => sector % 2 === 0),
        );
      } catch (error) {
        inode.dirty.clear();
        throw error;
      }
    },
    truncate: (fd, size) => this.#do('truncate', () => this.#inode(fd).resize(size)),
    rename: (from, to) =>
      this.#do('rename', () => {
        const inode = this.#names.get(from);
        if (!inode) throw Object.assign(new Error(`ENOENT: ${from}`), { code: 'ENOENT' });
        this.#names.delete(from);
        this.#names.set(to, inode);
      }),
    remove: (file) => this.#do('remove', () => void this.#names.delete(file)),
    makeDirectory: (directory) =>
      this.#do('makeDirectory', () => {
        for (let at = directory; !this.#directories.has(at); at = path.dirname(at)) {
          this.#directories.add(at);
          this.#durableDirectories.add(at);
        }
      }),
    list: (directory) => this.#do('list', () => this.#list(directory)),
    syncDirectory: (directory) =>
      this.#do('syncDirectory', () => {
        const inside = (file: string) => path.dirname(file) === directory;
        for (const file of this.#durableNames.keys()) if (inside(file)) this.#durableNames.delete(file);
        for (const [file, inode] of this.#names) if (inside(file)) this.#durableNames.set(file, inode);
      }),
    datasyncLater: async (fd) => {
      await Promise.resolve();
      const inode = this.#inode(fd);
      try {
        this.#do(
          'datasyncLater',
          () => inode.flush(),
          () => inode.persist((sector) => sector % 2 === 0),
        );
      } catch (error) {
        inode.dirty.clear();
        throw error;
      }
    },
    replace: async (file, bytes) => {
      await Promise.resolve();
      this.#do(
        'replace',
        () => this.put(file, bytes),
        // Renamed, and the name is not on stable storage yet.
        () => {
          const before = this.#durableNames.get(file);
          this.put(file, bytes);
          if (before) this.#durableNames.set(file, before);
          else this.#durableNames.delete(file);
        },
      );
    },
    createZeroed: async (file, size) => {
      // After a delay, as with a real disk.
      await Promise.resolve();
      this.#do(
        'createZeroed',
        () => this.#createZeroed(file, size),
        () => this.#createZeroed(file, size >> 1),
      );
    },
  };

  /** The bytes of a file, as a process sees them. Changing them changes the file. */
  bytesOf(file: string): Buffer {
    const inode = this.#names.get(file);
    if (!inode) throw new Error(`there is no ${file}`);
    return inode.bytes;
  }

  /** Whether any file has these bytes, or had them and was removed without being overwritten on stable storage. */
  holds(bytes: Buffer): boolean {
    return [...this.#inodes].some((inode) => inode.bytes.includes(bytes) || inode.durable.includes(bytes));
  }

  /** Puts a file there, on stable storage. */
  put(file: string, bytes: Uint8Array): void {
    const inode = this.#create(file);
    inode.write(bytes, 0);
    inode.flush();
    this.#durableNames.set(file, inode);
  }

  remove(file: string): void {
    this.#names.delete(file);
    this.#durableNames.delete(file);
  }

  fileNames(directory: string): string[] {
    return this.#list(directory);
  }

  get openDescriptors(): number {
    return this.#descriptors.size;
  }

  /** The disk as the next process finds it after a kill -9 of this one. */
  afterKill(): MemoryDisk {
    const disk = new MemoryDisk();
    const copies = new Map<Inode, Inode>();
    const copyOf = (inode: Inode): Inode => {
      const copied = copies.get(inode) ?? inode.copy();
      copies.set(inode, copied);
      disk.#inodes.add(copied);
      return copied;
    };
    for (const [file, inode] of this.#names) disk.#names.set(file, copyOf(inode));
    for (const [file, inode] of this.#durableNames) disk.#durableNames.set(file, copyOf(inode));
    for (const directory of this.#directories) disk.#directories.add(directory);
    for (const directory of this.#durableDirectories) disk.#durableDirectories.add(directory);
    disk.capacity = this.capacity;
    return disk;
  }

  /**
   * The disk as it is found after the machine has lost power.
   * @param picked which unflushed sectors and names have reached it.
   */
  afterPowerLoss(picked: (what: string, sector: number) => boolean = () => false): MemoryDisk {
    const disk = new MemoryDisk();
    disk.capacity = this.capacity;
    for (const directory of this.#durableDirectories) disk.#directories.add(directory);
    for (const directory of this.#durableDirectories) disk.#durableDirectories.add(directory);
    const names = new Map<string, Inode>();
    for (const file of new Set([...this.#durableNames.keys(), ...this.#names.keys()])) {
      const [now, before] = [this.#names.get(file), this.#durableNames.get(file)];
      const survivor = now === before || picked(file, -1) ? now : before;
      if (survivor) names.set(file, survivor);
    }
    for (const [file, inode] of names) {
      const survivor = inode.copy();
      if ([...inode.dirty].some((sector) => picked(file, sector))) {
        survivor.persist((sector) => picked(file, sector));
      }
      disk.put(file, survivor.durable);
    }
    return disk;
  }

  #do<T>(operation: Operation, act: () => T, half: () => unknown = () => undefined): T {
    this.onCall(operation);
    this.calls.set(operation, (this.calls.get(operation) ?? 0) + 1);
    const fault = this.#fault;
    if (fault?.operation !== operation) return act();
    fault.countdown--;
    if (fault.countdown > 0 || (fault.countdown < 0 && !fault.lasting)) return act();
    this.hasEverFailed = true;
    if (fault.manner === 'partly') half();
    if (fault.manner === 'after') act();
    throw new DiskFault(`${operation} failed ${fault.manner} it was done`);
  }

  #inode(fd: number): Inode {
    const inode = this.#descriptors.get(fd);
    if (!inode) throw Object.assign(new Error('EBADF'), { code: 'EBADF' });
    return inode;
  }

  #create(file: string): Inode {
    const inode = new Inode();
    this.#names.set(file, inode);
    this.#inodes.add(inode);
    return inode;
  }

  #list(directory: string): string[] {
    return [...this.#names.keys()]
      .filter((file) => path.dirname(file) === directory)
      .map((file) => path.basename(file))
      .sort();
  }

  #used(): number {
    return [...this.#names.values()].reduce((bytes, inode) => bytes + inode.bytes.length, 0);
  }

  #write(fd: number, source: Uint8Array, position: number): void {
    const inode = this.#inode(fd);
    const grows = Math.max(0, position + source.length - inode.bytes.length);
    const over = Math.max(0, Math.min(grows, this.#used() + grows - this.capacity));
    const fits = source.length - over;
    if (fits > 0) inode.write(source.subarray(0, fits), position);
    if (fits < source.length) throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' });
  }

  #createZeroed(file: string, size: number): void {
    const inode = this.#create(file);
    const free = this.capacity - this.#used();
    inode.write(Buffer.alloc(Math.max(0, Math.min(size, free))), 0);
    if (free < size) throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' });
    inode.flush();
  }
}
