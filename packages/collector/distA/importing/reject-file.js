/**
 * The lines that an import did not store, and why: NDJSON, one object a line of
 *
 *   file, line, code, details?, event_id?, outcome, text
 *
 * `text` is the exact line, or `text_base64` where that is not UTF-8. A line of more than `TEXT_BYTES` has neither; of one
 * that was too long to be read at all, `details` tells offset and size. One that was erased has neither. The file holds patient data, and is for its owner
 * alone.
 */
import fs from 'node:fs';
import { isUtf8 } from 'node:buffer';
import path from 'node:path';
/** There is such a file, with something in it that must not be lost. */
export class RejectsExist extends Error {
    name = 'RejectsExist';
}
/** There is such a file, and someone else may read what is written into it. */
export class RejectsUnsafe extends Error {
    name = 'RejectsUnsafe';
}
/** Six times as many characters, at worst, still make a string. */
const TEXT_BYTES = 16 << 20;
const { O_WRONLY, O_NOFOLLOW, O_NONBLOCK } = fs.constants;
export class RejectFile {
    path;
    #fd;
    #lines = 0;
    constructor(file, fd) {
        this.path = file;
        this.#fd = fd;
    }
    /**
     * Made at once, and not at the first fault: an import of an hour should not end for want of a place to write it to.
     * @throws RejectsExist unless it is new, or empty as an import that was killed may have left it.
     * @throws RejectsUnsafe when that one is a link, or a file of another user or with another name: where others may make
     * files, one of them has put it there to be written into.
     */
    static open(file) {
        const found = fs.lstatSync(file, { throwIfNoEntry: false });
        if (found === undefined)
            return new RejectFile(file, fs.openSync(file, 'wx', 0o600));
        assertOurs(file, found);
        const fd = fs.openSync(file, O_WRONLY | O_NOFOLLOW | O_NONBLOCK);
        try {
            // It may be another by now.
            assertOurs(file, fs.fstatSync(fd));
            fs.fchmodSync(fd, 0o600);
            return new RejectFile(file, fd);
        }
        catch (error) {
            fs.closeSync(fd);
            throw error;
        }
    }
    /** How many lines were written. */
    get lines() {
        return this.#lines;
    }
    /** On return it is written, but not yet on stable storage. */
    write(input, refusal) {
        fs.writeFileSync(this.#fd, `${lineOf(input, refusal)}\n`);
        this.#lines++;
    }
    /** On return all of it is on stable storage, or the file is gone if it is empty. */
    close() {
        try {
            if (this.#lines > 0)
                fs.fsyncSync(this.#fd);
        }
        finally {
            fs.closeSync(this.#fd);
        }
        if (this.#lines === 0)
            fs.rmSync(this.path);
        const directory = fs.openSync(path.dirname(this.path), 'r');
        try {
            fs.fsyncSync(directory);
        }
        finally {
            fs.closeSync(directory);
        }
    }
}
function assertOurs(file, found) {
    if (found.isSymbolicLink())
        throw new RejectsUnsafe(`${file} is a link, and was not followed`);
    if (!found.isFile() || found.size > 0)
        throw new RejectsExist(`${file} exists`);
    if (found.uid !== (process.geteuid?.() ?? found.uid)) {
        throw new RejectsUnsafe(`${file} exists, and belongs to another user`);
    }
    if (found.nlink !== 1)
        throw new RejectsUnsafe(`${file} exists, and has another name as well`);
}
function lineOf(file, { line, code, details, eventId, outcome, bytes }) {
    const told = { file, line, code, details, event_id: eventId, outcome };
    if (bytes === undefined || bytes.length > TEXT_BYTES || outcome === 'retired')
        return JSON.stringify(told);
    const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    return JSON.stringify(isUtf8(text) ? { ...told, text: text.toString() } : { ...told, text_base64: text.toString('base64') });
}
//# sourceMappingURL=reject-file.js.map