/**
 * Reserves blocks for a -shm file. SQLite maps it into memory and first writes one byte in each 4 KiB, so
 * that a full disk is an error. With smaller blocks, the rest of each 4 KiB has no block yet, and a process
 * that writes there on a full disk is killed by SIGBUS (docs/internals/adr/0024-sqlite-shared-memory.md).
 */
import fs from 'node:fs';
import path from 'node:path';
import type { DatabaseSync } from 'node:sqlite';

const PAGE_BYTES = 4 << 10;
const REGION_BYTES = 32 << 10;
/** With less free space, a -shm of 32 KiB and a transaction may not fit. */
const NEEDED_BYTES = 128 << 10;
/** The unit of `blocks` in `stat`, on every file system. */
const STAT_BLOCK_BYTES = 512;
const SQLITE_FULL = 13;

export function hasSpace(directory: string): boolean {
  const { bavail, bsize, blocks } = fs.statfsSync(directory);
  return blocks === 0 || bavail * bsize >= NEEDED_BYTES;
}

/** Call before SQLite opens the file and possibly creates its -shm. @throws like SQLite on a full disk. */
export function assertRoomForIndex(file: string): void {
  const directory = path.dirname(file);
  // The next index reuses the blocks of the previous one.
  if (blockBytes(directory) >= PAGE_BYTES || hasSpace(directory) || isFilled(file, 1)) return;
  throw Object.assign(new Error('database or disk is full'), { errcode: SQLITE_FULL });
}

/**
 * Reserves the blocks of this number of index regions, each for 4,096 pages of the -wal. Under the write lock
 * no other process changes anything after the first block, which exists already.
 */
export function fillIndex(database: DatabaseSync, file: string, regions: number): void {
  const step = blockBytes(path.dirname(file));
  if (step >= PAGE_BYTES || isFilled(file, regions)) return;
  database.exec('BEGIN IMMEDIATE');
  try {
    const { descriptor, size } = opened(`${file}-shm`);
    const byte = Buffer.alloc(1);
    for (let at = step; at < size; at += step) {
      fs.readSync(descriptor, byte, 0, 1, at);
      fs.writeSync(descriptor, byte, 0, 1, at);
    }
    const missing = regions * REGION_BYTES - size;
    if (missing > 0) fs.writeSync(descriptor, Buffer.alloc(missing), 0, missing, size);
  } finally {
    database.exec('ROLLBACK');
  }
}

/** Descriptors by device and inode. */
const open = new Map<string, number>();

/**
 * Stays open until the process ends: closing any descriptor of a file drops all locks of the process on it,
 * including SQLite's (fcntl(2)), and another process would then truncate the index that this one has mapped.
 */
function opened(index: string): { readonly descriptor: number; readonly size: number } {
  const { dev, ino, size } = fs.statSync(index);
  const key = `${dev}:${ino}`;
  let descriptor = open.get(key);
  if (descriptor === undefined) open.set(key, (descriptor = fs.openSync(index, 'r+')));
  return { descriptor, size };
}

function isFilled(file: string, regions: number): boolean {
  const index = fs.statSync(`${file}-shm`, { throwIfNoEntry: false });
  if (index === undefined || index.size < regions * REGION_BYTES) return false;
  return index.blocks * STAT_BLOCK_BYTES >= index.size;
}

function blockBytes(directory: string): number {
  return fs.statfsSync(directory).bsize;
}
