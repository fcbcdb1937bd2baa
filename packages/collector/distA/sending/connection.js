/**
 * One connection to a collector, straight on a socket: `node:http` takes three times the processor time of this
 * (docs/internals/adr/0015-client-sending.md). Never two requests at a time: of an answer that came unasked, from a
 * proxy that has lost count, nothing would tell which event it belongs to.
 */
import net from 'node:net';
import tls from 'node:tls';
const LONGEST_HEAD = 16 << 10;
const LONGEST_BODY = 64 << 10;
const HEAD_END = '\r\n\r\n';
/** The code of an answer that has one. */
export function nameOf({ status, code }) {
    return code ?? `status ${status}`;
}
/**
 * @param bytes all that has come since the request. @param ended nothing more comes.
 * @returns undefined while the answer is not whole.
 * @throws Error for what is no answer, or too long; the message repeats nothing of it.
 */
function readAnswer(bytes, ended) {
    const end = bytes.indexOf(HEAD_END);
    if ((end < 0 ? bytes.length : end) > LONGEST_HEAD)
        throw new Error('the head of the answer is too long');
    if (end < 0)
        return undefined;
    const head = `${bytes.toString('latin1', 0, end)}\r\n`;
    const rest = bytes.subarray(end + HEAD_END.length);
    const [, minor, code] = /^HTTP\/1\.([01]) ([1-5]\d\d)[ \r]/.exec(head) ?? [];
    if (code === undefined)
        throw new Error('the answer does not begin as HTTP/1.1 does');
    const status = Number(code);
    // 100, 102, 103: the answer is still to come.
    if (status < 200)
        return readAnswer(rest, ended);
    const length = /\r\nContent-Length:[ \t]*(\d{1,9})[ \t]*\r\n/i.exec(head)?.[1];
    const body = bodyIn(rest, length, /\r\nTransfer-Encoding:[ \t]*chunked/i.test(head), ended);
    if (body === undefined)
        return undefined;
    const closes = minor === '0' || length === undefined || /\r\nConnection:[^\r]*\bclose\b/i.test(head);
    const exact = rest.length === Number(length);
    return { answer: answerOf(status, head, body), keepsOpen: !closes && exact };
}
/** RFC 9112 section 6.3. */
function bodyIn(rest, length, chunked, ended) {
    if (rest.length > 2 * LONGEST_BODY || Number(length ?? 0) > LONGEST_BODY) {
        throw new Error('the answer is too long');
    }
    if (chunked)
        return dechunked(rest);
    if (length === undefined)
        return ended ? rest : undefined;
    return rest.length >= Number(length) ? rest.subarray(0, Number(length)) : undefined;
}
/** RFC 9112 section 7.1. What follows the last chunk is not needed: the connection is not used again. */
function dechunked(rest) {
    const pieces = [];
    for (let at = 0;;) {
        const lineEnd = rest.indexOf('\r\n', at);
        if (lineEnd < 0)
            return undefined;
        const size = /^[0-9a-f]{1,6}(?=$|[ \t;])/i.exec(rest.toString('latin1', at, lineEnd))?.[0];
        if (size === undefined)
            throw new Error('a chunk of the answer has no size');
        const length = parseInt(size, 16);
        if (length === 0)
            return Buffer.concat(pieces);
        pieces.push(rest.subarray(lineEnd + 2, lineEnd + 2 + length));
        at = lineEnd + 2 + length + 2;
    }
}
function answerOf(status, head, body) {
    const said = jsonIn(body);
    if (status === 201) {
        if (said['status'] !== 'accepted')
            throw new Error('201 came without the body of a collector');
        return { status, code: undefined, details: undefined, retryAfterMs: undefined };
    }
    const { code, details } = said;
    const retryAfter = /\r\nRetry-After:[ \t]*(\d{1,5})[ \t]*\r\n/i.exec(head)?.[1];
    return {
        status,
        // It is printed: nothing but a word like those of the protocol's table.
        code: typeof code === 'string' && /^[a-z_]{1,40}$/.test(code) ? code : undefined,
        details: isObject(details) ? details : undefined,
        retryAfterMs: retryAfter === undefined ? undefined : 1000 * Number(retryAfter),
    };
}
function jsonIn(body) {
    try {
        const value = JSON.parse(body.toString());
        return isObject(value) ? value : {};
    }
    catch {
        return {};
    }
}
function isObject(value) {
    return typeof value === 'object' && value !== null && !Array.isArray(value);
}
/** An answer that takes longer is given up. */
const PATIENCE_MS = 30_000;
const READ_BYTES = 64 << 10;
/** A request up to this size is put together and written at once, which costs less than two pieces. */
const SMALL_BYTES = 16 << 10;
const NOTHING = Buffer.alloc(0);
/** One for all connections: what has come is taken before the next one reads. */
let readBuffer;
export class Connection {
    #socket;
    /** What has come of an answer that is not whole. */
    #partial = NOTHING;
    #waiting;
    #usable = true;
    /** @param base http or https. */
    constructor(base) {
        this.#socket = dial(base, (bytes) => this.#take(bytes));
        this.#socket.setTimeout(PATIENCE_MS, () => {
            this.#socket.destroy(new Error(`no answer within ${PATIENCE_MS / 1000} s`));
        });
        this.#socket.on('error', (error) => this.#fail(error));
        this.#socket.on('end', () => this.#closed());
        this.#socket.on('close', () => this.#closed());
    }
    /** Whether another request may go on it. */
    get usable() {
        return this.#usable && this.#waiting === undefined;
    }
    /**
     * Only on one that is usable.
     * @throws the system's error when no answer came; whether the event is stored is then not known.
     */
    send(head, body) {
        const { promise, resolve, reject } = Promise.withResolvers();
        this.#waiting = { resolve, reject };
        if (head.length + body.length <= SMALL_BYTES) {
            const request = Buffer.allocUnsafe(head.length + body.length);
            request.write(head, 'latin1');
            request.set(body, head.length);
            this.#socket.write(request);
            return promise;
        }
        this.#socket.cork();
        this.#socket.write(head, 'latin1');
        this.#socket.write(body);
        this.#socket.uncork();
        return promise;
    }
    destroy() {
        this.#fail(new Error('the connection was given up'));
    }
    #take(bytes) {
        if (this.#waiting === undefined)
            return this.destroy();
        const all = this.#partial.length === 0 ? bytes : Buffer.concat([this.#partial, bytes]);
        this.#read(all, false);
    }
    #read(all, ended) {
        try {
            const read = readAnswer(all, ended);
            if (read === undefined) {
                this.#partial = Buffer.from(all);
                return;
            }
            // Anyone who says it has stored what it has not got yet is no collector.
            if (read.answer.status === 201 && this.#socket.writableLength > 0) {
                throw new Error('201 came before the whole event was sent');
            }
            const waiting = this.#waiting;
            this.#waiting = undefined;
            this.#partial = NOTHING;
            if (!read.keepsOpen || this.#socket.writableLength > 0)
                this.destroy();
            waiting?.resolve(read.answer);
        }
        catch (error) {
            this.#fail(error);
        }
    }
    /** By the other side, or by what lies between. */
    #closed() {
        if (this.#waiting !== undefined && this.#partial.length > 0)
            this.#read(this.#partial, true);
        this.#fail(new Error('the connection was closed without an answer'));
    }
    #fail(error) {
        this.#usable = false;
        this.#socket.destroy();
        this.#waiting?.reject(error);
        this.#waiting = undefined;
    }
}
function dial(base, onData) {
    const buffer = (readBuffer ??= Buffer.allocUnsafeSlow(READ_BYTES));
    // An IPv6 address stands in brackets in a URL, and without them here.
    const host = base.hostname.replace(/^\[|\]$/g, '');
    const onread = {
        buffer,
        callback: (length) => {
            onData(buffer.subarray(0, length));
            return true;
        },
    };
    const options = { host, noDelay: true, onread };
    if (base.protocol === 'http:')
        return net.connect({ ...options, port: Number(base.port || 80) });
    const servername = net.isIP(host) === 0 ? { servername: host } : {};
    return tls.connect({
        ...{ ...options, ...servername, port: Number(base.port || 443), ALPNProtocols: ['http/1.1'] },
    });
}
//# sourceMappingURL=connection.js.map