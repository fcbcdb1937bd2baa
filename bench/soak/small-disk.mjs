/**
 * A disk for the data directory that can be filled and freed: a file system in a file if it can be mounted,
 * or one in memory, or a limit on the size of the collector's files.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

const IMAGE_BYTES = 40 * 2 ** 30;
/** Number of inodes. By default their tables would take a seventieth of the image. */
const FILES = 20_000;
const TRIES = 20;

function quietly(file, args) {
  try {
    execFileSync(file, args, { stdio: 'pipe' });
    return true;
  } catch {
    return false;
  }
}

class ImageDisk {
  what = 'an ext4 file system in a file';
  isReal = true;
  directory;
  #image;
  #ballast;

  static on(scratch, directory) {
    const image = path.join(scratch, 'image');
    fs.closeSync(fs.openSync(image, 'w'));
    // A sparse file, which takes only the space of what is written.
    fs.truncateSync(image, IMAGE_BYTES);
    const made =
      quietly('mkfs.ext4', ['-q', '-F', '-m', '0', '-N', String(FILES), image]) &&
      quietly('mount', ['-o', 'loop', image, directory]);
    if (!made) fs.rmSync(image);
    return made ? new ImageDisk(image, directory) : undefined;
  }

  constructor(image, directory) {
    this.#image = image;
    this.directory = directory;
    this.#ballast = path.join(directory, 'ballast');
  }

  /** Fills the rest of the disk. */
  fill() {
    for (let i = 0; i < TRIES; i++) {
      const { bavail, bsize } = fs.statfsSync(this.directory);
      if (bavail === 0) return;
      // The collector may use some of it at the same moment.
      quietly('fallocate', ['--length', String(bavail * bsize), `${this.#ballast}-${i}`]);
    }
  }

  relieve() {
    for (let i = 0; i < TRIES; i++) fs.rmSync(`${this.#ballast}-${i}`, { force: true });
  }

  remove() {
    quietly('umount', ['--lazy', this.directory]);
    fs.rmSync(this.#image, { force: true });
  }
}

class MemoryDisk {
  what = 'a file system in memory';
  isReal = true;
  directory;
  #bytes;

  static on(directory, bytes) {
    return quietly('mount', ['-t', 'tmpfs', '-o', `size=${bytes},mode=700`, 'tmpfs', directory])
      ? new MemoryDisk(directory, bytes)
      : undefined;
  }

  constructor(directory, bytes) {
    this.directory = directory;
    this.#bytes = bytes;
  }

  fill() {
    const { blocks, bfree, bsize } = fs.statfsSync(this.directory);
    this.#resize((blocks - bfree) * bsize);
  }

  relieve() {
    this.#resize(this.#bytes);
  }

  remove() {
    quietly('umount', ['--lazy', this.directory]);
  }

  #resize(bytes) {
    execFileSync('mount', ['-o', `remount,size=${bytes}`, this.directory]);
  }
}

class FileLimit {
  what = 'a limit on the size of files';
  isReal = false;
  directory;

  constructor(directory) {
    this.directory = directory;
  }

  /** Open files keep their size; the next segment cannot be made. */
  fill({ pid, segmentBytes }) {
    this.#limit(pid, segmentBytes - 1);
  }

  relieve({ pid }) {
    this.#limit(pid, 'unlimited');
  }

  remove() {}

  #limit(pid, bytes) {
    execFileSync('prlimit', ['--pid', String(pid), `--fsize=${bytes}:`]);
  }
}

/** The disk in use. */
let disk;

/** Removes the disk of an interrupted soak. */
export function releaseDisk() {
  disk?.remove();
}

/**
 * @param scratch a directory with room for it.
 * @param bytes the most that will be written to it; at most a quarter of the free memory is used.
 * @param freeMemory in bytes.
 */
export function smallDisk(scratch, bytes, freeMemory) {
  const directory = path.join(scratch, 'disk');
  fs.mkdirSync(directory);
  disk =
    ImageDisk.on(scratch, directory) ??
    (bytes < freeMemory / 4 ? MemoryDisk.on(directory, bytes) : undefined) ??
    new FileLimit(directory);
  return disk;
}
