/**
 * `access.log`, to which every command that reads events appends. The file is opened for each call: what stands under
 * its name is what counts.
 *
 * Root appends too, in a directory whose owner is not root and may have put anything under the name. So no link is
 * followed, nothing is written into a file that has another name elsewhere, unless it is the directory's owner's own,
 * only a file that was made here is handed over, and a pipe holds nothing up.
 */
import fs from 'node:fs';
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { systemCode } from '../../system-code.js';
import { AccessLogAltered, AccessLogUnfit, } from '../contract/access-log.js';
import { handOver, nodeFiles } from '../../files.js';
const { O_RDONLY, O_RDWR, O_APPEND, O_NOFOLLOW, O_NONBLOCK, O_CREAT, O_EXCL } = fs.constants;
const APPENDING = O_RDWR | O_APPEND | O_NOFOLLOW;
const LINE_FEED = 0x0a;
/** About a millisecond's work for anyone who hashes it. */
const PIECE_BYTES = 64 << 10;
const BEGINNING = { lines: 0, at: 0 };
/** Where the access log of a data directory is. */
export function accessLogPath(dataDirectory) {
    return path.join(dataDirectory, 'access.log');
}
/** Where a mirror logs who reads on it: its access log is a copy. */
export function readingsLogPath(dataDirectory) {
    return path.join(dataDirectory, 'mirror-access.log');
}
export class AccessLogFile {
    dataDirectory;
    #path;
    /** Whether the file's name is known to be on stable storage. */
    #named = false;
    constructor(dataDirectory, path = accessLogPath(dataDirectory)) {
        this.dataDirectory = dataDirectory;
        this.#path = path;
    }
    /**
     * A file that is made for it is readable by its owner alone.
     * @throws the system's error, or one with the code `ENOTREG` (no regular file) or `EMLINK` (also a file of others).
     */
    append(line) {
        const { fd, made } = this.#openToAppend();
        try {
            const stat = fs.fstatSync(fd);
            if (!stat.isFile())
                throw fault('ENOTREG', 'no regular file');
            const { uid } = fs.statSync(this.dataDirectory);
            if (stat.nlink > 1 && stat.uid !== uid)
                throw fault('EMLINK', 'a file with another name');
            if (made)
                handOver(fd, this.dataDirectory);
            // Two processes may see the same torn line, and then an empty one stands between theirs.
            const isTorn = stat.size > 0 && byteAt(fd, stat.size - 1) !== LINE_FEED;
            const bytes = Buffer.from(`${isTorn ? '\n' : ''}${line}\n`);
            // In one call, so that no other process's line comes between. A disk that is nearly full takes a part of it.
            if (fs.writeSync(fd, bytes) < bytes.length)
                throw fault('ENOSPC', 'not all of it was written');
            fs.fsyncSync(fd);
        }
        finally {
            fs.closeSync(fd);
        }
        if (made)
            nodeFiles.syncDirectory(this.dataDirectory);
    }
    async *lines({ at } = BEGINNING) {
        const fd = this.#open();
        if (fd === undefined) {
            if (at > 0)
                throw new AccessLogAltered('it is shorter than it was, or gone');
            return;
        }
        try {
            const end = nodeFiles.size(fd);
            if (end < at)
                throw new AccessLogAltered('it is shorter than it was, or gone');
            if (at > 0 && byteAt(fd, at - 1) !== LINE_FEED) {
                throw new AccessLogAltered('it was changed among the lines that the log has heads of');
            }
            const piece = Buffer.alloc(Math.min(PIECE_BYTES, end - at));
            for (let position = at; position < end;) {
                const read = nodeFiles.read(fd, piece, 0, Math.min(piece.length, end - position), position);
                if (read === 0)
                    return;
                yield piece.subarray(0, read);
                position += read;
                await turn();
            }
        }
        finally {
            nodeFiles.close(fd);
        }
    }
    async flush() {
        const fd = this.#open();
        if (fd === undefined)
            return;
        try {
            await nodeFiles.datasyncLater(fd);
        }
        finally {
            nodeFiles.close(fd);
        }
        if (this.#named)
            return;
        nodeFiles.syncDirectory(this.dataDirectory);
        this.#named = true;
    }
    /**
     * For a copy: the bytes up to the last whole line.
     * @returns undefined when there is none. @throws AccessLogUnfit
     */
    copy() {
        const bytes = this.#read((fd) => {
            let end = nodeFiles.size(fd);
            while (end > 0 && byteAt(fd, end - 1) !== LINE_FEED)
                end--;
            return end;
        });
        return bytes === undefined || bytes === 0 ? undefined : { bytes, pieces: () => this.#pieces(bytes) };
    }
    *#pieces(end) {
        for (let at = 0; at < end;) {
            const piece = Buffer.alloc(Math.min(PIECE_BYTES, end - at));
            const read = this.#read((fd) => nodeFiles.read(fd, piece, 0, piece.length, at)) ?? 0;
            if (read === 0)
                return;
            yield piece.subarray(0, read);
            at += read;
        }
    }
    /** @returns undefined when there is no file. */
    #read(read) {
        const fd = this.#open();
        if (fd === undefined)
            return undefined;
        try {
            return read(fd);
        }
        finally {
            nodeFiles.close(fd);
        }
    }
    #open() {
        let fd;
        try {
            fd = fs.openSync(this.#path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
        }
        catch (error) {
            if (systemCode(error) === 'ENOENT')
                return undefined;
            if (systemCode(error) === 'ELOOP' || systemCode(error) === 'ENXIO')
                throw unfit();
            throw error;
        }
        if (fs.fstatSync(fd).isFile())
            return fd;
        nodeFiles.close(fd);
        throw unfit();
    }
    #openToAppend() {
        try {
            return { fd: fs.openSync(this.#path, APPENDING), made: false };
        }
        catch (error) {
            if (systemCode(error) !== 'ENOENT')
                throw error;
        }
        try {
            return { fd: fs.openSync(this.#path, APPENDING | O_CREAT | O_EXCL, 0o600), made: true };
        }
        catch (error) {
            if (systemCode(error) !== 'EEXIST')
                throw error;
        }
        // Another process has made it meanwhile.
        return { fd: fs.openSync(this.#path, APPENDING), made: false };
    }
}
function byteAt(fd, position) {
    const byte = Buffer.alloc(1);
    return fs.readSync(fd, byte, 0, 1, position) === 1 ? byte[0] : undefined;
}
function fault(code, message) {
    return Object.assign(new Error(message), { code });
}
function unfit() {
    return new AccessLogUnfit('it is no regular file, and was not opened');
}
//# sourceMappingURL=access-log-file.js.map