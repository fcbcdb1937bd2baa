import { STATUS_CODES } from 'node:http';
import { EVENT_KINDS, EVENT_PATHS } from '@clinical-events/protocol';
import { keepPlace } from './connections.js';
import { readHeaders } from './request.js';
const KIND_OF_LINE = new Map(EVENT_KINDS.map((kind) => [`POST ${EVENT_PATHS[kind]} HTTP/1.1`, kind]));
/** Header lines as every client writes them: no folding, one space behind the colon, none at the end. */
const PLAIN_LINES = /^[^\r\n]+\r\n(?:[\w!#$%&'*+.^`|~-]+: [\x21-\x7e]+(?: +[\x21-\x7e]+)*\r\n)+\r\n$/;
/** What asks for more than an answer to this request, or for another kind of answer. */
const ODD_HEADER = /\r\n(?:transfer-encoding|te|trailer|expect|upgrade|http2-settings|(?:proxy-)?connection(?!: keep-alive\r\n)):/i;
const MOST_DIGITS = 9;
const PLAIN_LENGTH = /(\r\ncontent-length: )\d{1,9}\r\n/i;
const CR = 13;
const ZERO = 48;
const MOST_HEAD_BYTES = 4 << 10;
/** A larger request that comes in pieces is not waited for: Node's sockets gather 64 KiB. */
const MOST_AWAITED_BYTES = 48 << 10;
/** For the rest of a request: many clients send head and body by two calls. */
const PATIENCE_MS = 5;
const SWEEP_MS = 500;
const NOTHING = Buffer.alloc(0);
/**
 * A head as it was read, remembered with its connection. The next one is read by it: the same bytes mean the same, and
 * what differs from request to request is one of five first lines and the digits of the length.
 */
class Head {
    kind;
    /** Of the head; and of the request. */
    bytes;
    requestBytes;
    headers;
    #line;
    /** Between the first line and the digits of Content-Length, and behind those. */
    #before;
    #after;
    constructor(text, kind, headers) {
        this.kind = kind;
        this.headers = headers;
        this.bytes = text.length;
        this.requestBytes = text.length + (headers.contentLength ?? NaN);
        const length = PLAIN_LENGTH.exec(text);
        const digitsAt = (length?.index ?? 0) + (length?.[1]?.length ?? 0);
        this.#line = text.slice(0, text.indexOf('\r\n'));
        this.#before = Buffer.from(text.slice(this.#line.length, digitsAt), 'latin1');
        this.#after = Buffer.from(text.slice(text.indexOf('\r\n', digitsAt)), 'latin1');
    }
    /** @returns what the bytes begin with, or undefined for anything but a whole plain head. */
    static read(bytes) {
        const end = bytes.subarray(0, MOST_HEAD_BYTES).indexOf('\r\n\r\n') + 4;
        if (end < 4)
            return undefined;
        const text = bytes.toString('latin1', 0, end);
        const kind = KIND_OF_LINE.get(text.slice(0, text.indexOf('\r\n')));
        if (kind === undefined || !PLAIN_LINES.test(text) || ODD_HEADER.test(text) || !PLAIN_LENGTH.test(text))
            return undefined;
        const headers = readHeaders(rawHeadersOf(text));
        return headers.repeated || headers.host !== 1 ? undefined : new Head(text, kind, headers);
    }
    /** Reads a head that has the same lines as this one. @returns false when it is another, and nothing is changed. */
    readNext(bytes) {
        const lineEnd = bytes.indexOf(CR);
        const kind = KIND_OF_LINE.get(bytes.toString('latin1', 0, Math.max(0, lineEnd)));
        const digitsAt = lineEnd + this.#before.length;
        if (kind === undefined || digitsAt > bytes.length)
            return false;
        if (this.#before.compare(bytes, lineEnd, digitsAt) !== 0)
            return false;
        let at = digitsAt;
        let length = 0;
        for (; at < bytes.length && at < digitsAt + MOST_DIGITS; at++) {
            const digit = (bytes[at] ?? 0) - ZERO;
            if (digit < 0 || digit > 9)
                break;
            length = length * 10 + digit;
        }
        const end = at + this.#after.length;
        if (at === digitsAt || end > bytes.length || this.#after.compare(bytes, at, end) !== 0)
            return false;
        this.kind = kind;
        this.bytes = end;
        this.requestBytes = end + length;
        this.headers.contentLength = length;
        this.#line = bytes.toString('latin1', 0, lineEnd);
        return true;
    }
    get path() {
        return this.#line.split(' ')[1] ?? '';
    }
    get rawHeaders() {
        const length = String(this.headers.contentLength);
        return rawHeadersOf(this.#line + this.#before.toString() + length + this.#after.toString());
    }
}
function rawHeadersOf(head) {
    return head
        .slice(0, -4)
        .split('\r\n')
        .slice(1)
        .flatMap((line) => {
        const colon = line.indexOf(':');
        return [line.slice(0, colon), line.slice(colon + 2)];
    });
}
export class Shortcut {
    ingest;
    toServer;
    onError;
    onSilence;
    limits;
    #connections = new Set();
    #sweep;
    /** Of a monotonic clock, in milliseconds, and up to `SWEEP_MS` old. */
    #now = performance.now();
    #date = '';
    #dateEndsAt = 0;
    /**
     * @param toServer has Node's server take a connection, with what was put back to be read from it.
     * @param onError what it would be told of an error of the connection.
     * @param onSilence called for a connection on which nothing came in the time for a request's headers.
     */
    constructor(ingest, limits, toServer, onError, onSilence) {
        this.ingest = ingest;
        this.toServer = toServer;
        this.onError = onError;
        this.onSilence = onSilence;
        this.limits = limits;
        this.#sweep = setInterval(() => this.#endIdle(), SWEEP_MS).unref();
    }
    /** A new connection, on which nothing was read yet. */
    admit(socket) {
        this.#connections.add(new Connection(this, socket));
    }
    /** The connection is closed, or handed over. */
    forget(connection) {
        this.#connections.delete(connection);
    }
    get now() {
        return this.#now;
    }
    /** Closes the connections on which no request is open. */
    closeIdle() {
        for (const connection of this.#connections)
            if (connection.isIdle)
                connection.socket.destroy();
    }
    /** Closes all connections, and ends. */
    close() {
        clearInterval(this.#sweep);
        for (const connection of this.#connections)
            connection.socket.destroy();
    }
    /** The headers that Node puts behind ours, and the empty line. */
    lastHeaders(keepAlive) {
        const now = Date.now();
        // Also when the clock was set back.
        if (now >= this.#dateEndsAt || now < this.#dateEndsAt - 1000) {
            this.#dateEndsAt = now - (now % 1000) + 1000;
            this.#date = `Date: ${new Date(now).toUTCString()}\r\n`;
        }
        if (!keepAlive)
            return `${this.#date}Connection: close\r\n\r\n`;
        const seconds = Math.floor(this.limits.keepAliveTimeoutMs / 1000);
        return `${this.#date}Connection: keep-alive\r\nKeep-Alive: timeout=${seconds}\r\n\r\n`;
    }
    #endIdle() {
        const { headersTimeoutMs, requestTimeoutMs, keepAliveTimeoutMs } = this.limits;
        const now = (this.#now = performance.now());
        for (const connection of this.#connections) {
            const { socket, isIdle, isNew, since } = connection;
            const age = now - since;
            if (isNew && age > headersTimeoutMs) {
                connection.leave();
                this.onSilence(socket);
            }
            else if (isIdle && !isNew && age > keepAliveTimeoutMs + SWEEP_MS)
                socket.destroy();
            else if (age > requestTimeoutMs + keepAliveTimeoutMs)
                socket.destroy();
        }
    }
}
/** A connection, the request that is open on it, and the reply to that. */
class Connection {
    shortcut;
    socket;
    method = 'POST';
    httpVersion = '1.1';
    complete = true;
    readableEnded = true;
    body = NOTHING;
    shouldKeepAlive = true;
    /** When something was read or written last, by the shortcut's clock. */
    since = performance.now();
    /** Nothing was read yet. */
    isNew = true;
    #head;
    /** The answer up to its body. */
    #answer = '';
    #isOpen = false;
    /** Something came before the answer. */
    #isHeld = false;
    /** Nothing will come behind the request that is open. */
    #isLast = false;
    /** Bytes of the request whose first piece has come, or 0. */
    #awaited = 0;
    #patience;
    #gathered = NOTHING;
    constructor(shortcut, socket) {
        this.shortcut = shortcut;
        this.socket = socket;
        socket.on('data', this.#onData).on('end', this.#onEnd);
        socket.on('error', this.#onError).on('close', this.#onClose);
    }
    get isIdle() {
        return !this.#isOpen && this.#awaited === 0;
    }
    get destroyed() {
        return this.socket.destroyed;
    }
    get url() {
        return this.#head?.path ?? '';
    }
    get rawHeaders() {
        return this.#head?.rawHeaders ?? [];
    }
    writeHead(status, headers) {
        this.#answer = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
        for (let i = 0; i + 1 < headers.length; i += 2)
            this.#answer += `${headers[i]}: ${headers[i + 1]}\r\n`;
    }
    end(body) {
        const { socket, shortcut } = this;
        this.#isOpen = false;
        this.body = NOTHING;
        if (socket.destroyed)
            return;
        this.since = shortcut.now;
        this.shouldKeepAlive &&= !this.#isLast;
        socket.write(this.#answer + shortcut.lastHeaders(this.shouldKeepAlive) + body);
        if (!this.shouldKeepAlive) {
            this.leave();
            socket.resume().destroySoon();
        }
        else if (this.#isHeld) {
            this.#isHeld = false;
            socket.resume();
        }
    }
    /** Nothing more is taken from the connection; it is to be ended. */
    leave() {
        this.#letGo();
        this.socket.on('error', () => this.socket.destroy());
    }
    #letGo() {
        const { socket } = this;
        clearTimeout(this.#patience);
        socket.off('data', this.#onData).off('readable', this.#onReadable).off('end', this.#onEnd);
        socket.off('error', this.#onError).off('close', this.#onClose);
        this.shortcut.forget(this);
    }
    /** @param bytes that were read and belong to no request that was taken. */
    #handOver(bytes) {
        const { socket } = this;
        this.#letGo();
        socket.pause();
        socket.unshift(bytes);
        this.shortcut.toServer(socket);
        socket.resume();
    }
    #onData = (chunk) => {
        const { shortcut, socket } = this;
        this.since = shortcut.now;
        this.isNew = false;
        if (this.#isOpen) {
            this.#isHeld = true;
            socket.pause().unshift(chunk);
            return;
        }
        let bytes = chunk;
        if (this.#awaited > 0) {
            bytes = this.#gathered = Buffer.concat([this.#gathered, chunk]);
            if (bytes.length < this.#awaited)
                return;
            this.#awaited = 0;
            this.#gathered = NOTHING;
        }
        const head = this.#headOf(bytes);
        // The client leaves answers unread; Node knows how to wait for it.
        if (head === undefined || socket.writableLength > 0)
            return this.#handOver(bytes);
        const { requestBytes } = head;
        if (bytes.length > requestBytes)
            return this.#handOver(bytes);
        const isWhole = bytes.length === requestBytes;
        const principal = shortcut.ingest.principalOf(head.headers.apiKey, socket, isWhole);
        if (principal === undefined)
            return this.#handOver(bytes);
        if (!isWhole)
            return this.#await(bytes, requestBytes);
        this.#isOpen = true;
        this.shouldKeepAlive = true;
        this.body = bytes.subarray(head.bytes);
        shortcut.ingest.take(this, this, head.kind, head.headers, principal);
    };
    #headOf(bytes) {
        if (this.#head?.readNext(bytes) !== true)
            this.#head = Head.read(bytes);
        return this.#head;
    }
    /** Waits for the rest of a request. What has come lies in the socket meanwhile, as the next server will find it. */
    #await(bytes, requestBytes) {
        if (requestBytes > MOST_AWAITED_BYTES)
            return this.#handOver(bytes);
        const { socket } = this;
        keepPlace(socket);
        this.#awaited = requestBytes;
        this.#patience = setTimeout(() => this.#handOver(NOTHING), PATIENCE_MS);
        socket.on('readable', this.#onReadable).off('data', this.#onData).unshift(bytes);
    }
    #onReadable = () => {
        const { socket } = this;
        if (socket.readableLength < this.#awaited)
            return;
        clearTimeout(this.#patience);
        // It flows again, all of the request in this turn.
        socket.off('readable', this.#onReadable).on('data', this.#onData);
    };
    #onEnd = () => {
        this.#isLast = true;
        if (this.#isOpen)
            return;
        this.leave();
        this.socket.end();
    };
    #onError = (error) => this.shortcut.onError(error, this.socket);
    #onClose = () => this.#letGo();
}
//# sourceMappingURL=shortcut.js.map