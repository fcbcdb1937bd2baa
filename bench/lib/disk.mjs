/** Disks: free space, size of files, time of a flush. */
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { gibibytes } from './numbers.mjs';
import { Unusable } from './unusable.mjs';

/** The directory, or its nearest existing parent. */
function existing(directory) {
  return fs.existsSync(directory) ? directory : existing(path.dirname(directory));
}

export function fileSystemOf(directory) {
  const args = ['--noheadings', '--output', 'FSTYPE', '--target', existing(directory)];
  return execFileSync('findmnt', args, { encoding: 'utf8' }).trim().split('\n')[0];
}

/** @throws Unusable on a memory file system, where a flush costs nothing. */
export function requireDisk(directory) {
  const type = fileSystemOf(directory);
  if (['tmpfs', 'ramfs'].includes(type)) {
    throw new Unusable(`${directory} is memory (${type}): give a directory on a disk with --scratch`);
  }
}

/** @throws Unusable */
export function requireRoom(directory, bytes) {
  const { bavail, bsize } = fs.statfsSync(existing(directory));
  const free = bavail * bsize;
  if (free >= bytes) return;
  throw new Unusable(
    `${directory} has ${gibibytes(free)} GiB free, and ${gibibytes(bytes)} GiB are needed: ` +
      'give another one with --data-dir or --scratch',
  );
}

function filesUnder(directory) {
  return fs
    .readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));
}

export function bytesOnDisk(directory) {
  return filesUnder(directory).reduce((sum, file) => sum + fs.statSync(file).blocks * 512, 0);
}

/** Drops the files from the page cache, so that the next reads go to the disk. */
export function dropFromMemory(directory) {
  for (const file of filesUnder(directory)) {
    spawnSync('dd', [`if=${file}`, 'of=/dev/null', 'iflag=nocache', 'count=0', 'status=none']);
  }
}

/** Measures the time to overwrite 4 KiB and flush it. */
export function flushTime(directory, times = 200) {
  const file = path.join(directory, 'flush-time');
  const block = Buffer.alloc(4096, 1);
  const taken = [];
  const fd = fs.openSync(file, 'w');
  try {
    fs.writeSync(fd, block);
    fs.fsyncSync(fd);
    for (let i = 0; i < times; i++) {
      const since = performance.now();
      fs.writeSync(fd, block, 0, block.length, 0);
      fs.fdatasyncSync(fd);
      taken.push(performance.now() - since);
    }
  } finally {
    fs.closeSync(fd);
    fs.rmSync(file);
  }
  taken.sort((a, b) => a - b);
  return { p50Ms: taken[times >> 1], p99Ms: taken[Math.floor(times * 0.99)] };
}
