/** The lines of a file or of standard input, holding no more of one than the limit, and what the whole of it was. */
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { addAbortSignal } from 'node:stream';
/** The name of standard input among the files. */
export const STANDARD_INPUT = '-';
/** The largest event that any collector can be set up to take (--max-body-bytes), and a wrapper around it. */
const LONGEST_LINE = (64 << 20) + 4096;
const READ_BYTES = 1 << 20;
const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;
const BYTE_ORDER_MARK = Buffer.of(0xef, 0xbb, 0xbf);
export class LineInput {
    /** Bytes read so far. */
    bytes = 0;
    /** Of all bytes, in hexadecimal, once all of them are read. */
    sha256;
    #name;
    #limit;
    /** What has come of a line whose end has not. */
    #begun = [];
    /** Bytes of that line, also those of one over the limit, which are not kept. */
    #length = 0;
    #number = 0;
    #offset = 0;
    /** @param name a path, or `-`. @param limit the longest line that is handed over, in bytes. */
    constructor(name, limit = LONGEST_LINE) {
        this.#name = name;
        this.#limit = limit;
    }
    /**
     * The lines, as many at a time as have come. Ends without the rest when `stop` is aborted.
     * @throws the system's error.
     */
    async *lines(stop) {
        const hash = createHash('sha256');
        const source = this.#name === STANDARD_INPUT
            ? process.stdin
            : fs.createReadStream(this.#name, { highWaterMark: READ_BYTES });
        try {
            for await (const chunk of (stop ? addAbortSignal(stop, source) : source)) {
                this.bytes += chunk.length;
                hash.update(chunk);
                yield this.#split(chunk);
            }
        }
        catch (error) {
            if (stop?.aborted !== true)
                throw error;
            return;
        }
        if (this.#length > 0)
            yield [this.#line(Buffer.alloc(0), 0)];
        this.sha256 = hash.digest('hex');
    }
    #split(chunk) {
        const lines = [];
        let at = 0;
        for (let end; (end = chunk.indexOf(LINE_FEED, at)) >= 0; at = end + 1) {
            lines.push(this.#line(chunk.subarray(at, end), 1));
        }
        if (at < chunk.length)
            this.#keep(chunk.subarray(at));
        return lines;
    }
    #keep(piece) {
        this.#length += piece.length;
        if (this.#length > this.#limit)
            this.#begun = [];
        else
            this.#begun.push(piece);
    }
    #line(rest, ending) {
        const length = this.#length + rest.length;
        let bytes;
        if (length <= this.#limit) {
            bytes = this.#length === 0 ? rest : Buffer.concat([...this.#begun, rest]);
            if (bytes.at(-1) === CARRIAGE_RETURN)
                bytes = bytes.subarray(0, -1);
            if (this.#number === 0 && bytes.subarray(0, 3).equals(BYTE_ORDER_MARK))
                bytes = bytes.subarray(3);
        }
        const line = { number: ++this.#number, offset: this.#offset, length, bytes };
        this.#offset += length + ending;
        this.#begun = [];
        this.#length = 0;
        return line;
    }
}
/** Nothing but white space of JSON. */
export function isBlank(line) {
    return line.every((byte) => byte === 32 || byte === 9 || byte === 13);
}
//# sourceMappingURL=lines.js.map