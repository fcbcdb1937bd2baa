/**
 * Room for a -shm. SQLite maps it into memory and writes one byte in each 4 KiB of it before, so that a full disk is an
 * error. Where blocks are smaller, the rest of the 4 KiB has no block yet, and the process that writes there when the
 * disk is full ends by SIGBUS (docs/internals/adr/0024-sqlite-shared-memory.md).
 */
import fs from 'node:fs';
import path from 'node:path';
const PAGE_BYTES = 4 << 10;
const REGION_BYTES = 32 << 10;
/** With less free, a -shm of 32 KiB and a transaction may not fit. */
const NEEDED_BYTES = 128 << 10;
/** Of a file in `stat`, whatever the file system's are. */
const STAT_BLOCK_BYTES = 512;
const SQLITE_FULL = 13;
export function hasSpace(directory) {
    const { bavail, bsize, blocks } = fs.statfsSync(directory);
    return blocks === 0 || bavail * bsize >= NEEDED_BYTES;
}
/** To be asked before SQLite opens the file, which may make its -shm. @throws as SQLite does on a full disk. */
export function assertRoomForIndex(file) {
    const directory = path.dirname(file);
    // The blocks that an index has are those that the next one needs.
    if (blockBytes(directory) >= PAGE_BYTES || hasSpace(directory) || isFilled(file, 1))
        return;
    throw Object.assign(new Error('database or disk is full'), { errcode: SQLITE_FULL });
}
/**
 * On return so many regions of the index, each for 4,096 pages of the -wal, have their blocks. Under the lock for
 * writing no one else changes what is behind the first block, which has its place already.
 */
export function fillIndex(database, file, regions) {
    const step = blockBytes(path.dirname(file));
    if (step >= PAGE_BYTES || isFilled(file, regions))
        return;
    database.exec('BEGIN IMMEDIATE');
    try {
        const { descriptor, size } = opened(`${file}-shm`);
        const byte = Buffer.alloc(1);
        for (let at = step; at < size; at += step) {
            fs.readSync(descriptor, byte, 0, 1, at);
            fs.writeSync(descriptor, byte, 0, 1, at);
        }
        const missing = regions * REGION_BYTES - size;
        if (missing > 0)
            fs.writeSync(descriptor, Buffer.alloc(missing), 0, missing, size);
    }
    finally {
        database.exec('ROLLBACK');
    }
}
/** By device and inode. */
const open = new Map();
/**
 * Stays open as long as the process: closing any descriptor of a file drops all locks that the process has on it, those
 * of SQLite too (fcntl(2)), and the next process would then cut the index under this one's map.
 */
function opened(index) {
    const { dev, ino, size } = fs.statSync(index);
    const key = `${dev}:${ino}`;
    let descriptor = open.get(key);
    if (descriptor === undefined)
        open.set(key, (descriptor = fs.openSync(index, 'r+')));
    return { descriptor, size };
}
function isFilled(file, regions) {
    const index = fs.statSync(`${file}-shm`, { throwIfNoEntry: false });
    if (index === undefined || index.size < regions * REGION_BYTES)
        return false;
    return index.blocks * STAT_BLOCK_BYTES >= index.size;
}
function blockBytes(directory) {
    return fs.statfsSync(directory).bsize;
}
//# sourceMappingURL=shared-index.js.map