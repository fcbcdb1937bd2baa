/**
 * The server in front of the management routes. It shares a thread with ingest, so anyone who floods it must not get more
 * than a small part of that thread.
 *
 * A connection is for one request, and its headers are gathered here before Node's HTTP parser sees them: it would
 * parse all that was sent at once, thousands of requests, before anybody is asked. What stands behind the headers is
 * not read. Beyond a steady rate nothing is refused, it waits: a refusal costs nearly what an answer does and invites
 * the next request, while a client that waits sends nothing. Connections beyond the limits, of which there is one for
 * each address, are held for a while and closed, the oldest of the address with the most when more come than can be held.
 * When all places are taken, the address with the most gives one up to anyone who has fewer. Health needs no place: it is
 * answered on a connection that is held, too, and waits less, so that a probe is answered in time in the middle of a flood
 * from its own address.
 *
 * With a certificate the first byte of a connection tells whether it is TLS (a handshake record, RFC 8446 section 5.1) or
 * plain HTTP, which probes may go on speaking. A handshake costs more than an answer, so beyond the rate it waits too.
 * What cannot be helped here is who opens connections and drops them at once; the port for events has that too.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import fs from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { ERRORS, errorBody } from '@clinical-events/protocol';
import { TokenBucket } from '../access/principal.js';
import { refuseOnSocket } from '../ingest/answers.js';
import { systemCode } from '../system-code.js';
const MOST_SERVED = 64;
const MOST_PER_ADDRESS = 32;
/** With those that are only held until they are closed. */
const MOST_CONNECTIONS = 512;
const RATE = { perSecond: 50, burst: 100 };
const WAIT_MS = 1000;
/** At least; longer with very many connections, so that health alone cannot be a flood. */
const HEALTH_WAIT_MS = 250;
const HEALTH_PER_SECOND = 600;
const MAX_HEADER_BYTES = 8 << 10;
const HEADERS_TIMEOUT_MS = 5000;
/** For the answer to be taken. */
const CONNECTION_TIMEOUT_MS = 30_000;
/** Between the end of the answer and that of the connection, for a client that does not end it. */
const LINGER_MS = 1000;
const LINGER_BYTES = 64 << 10;
const HANDSHAKE_RECORD = 22;
export class Gate {
    handler;
    #front = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => this.#connected(socket));
    /** Never listens: gets connections from the front. */
    #http = createHttpServer({ maxHeaderSize: MAX_HEADER_BYTES }, (request, response) => this.#serve(request, response));
    #bucket = new TokenBucket(RATE);
    /** For connections from now on; undefined when plain HTTP alone is spoken. */
    secureContext;
    #sockets = new Set();
    /** Connections that are served, by address, the oldest first; and those that are held. None of the sets is empty. */
    #served = new Map();
    #held = new Map();
    /** @param handler gets GET and HEAD requests without a body, and no others. */
    constructor(handler) {
        this.handler = handler;
        this.#http.on('clientError', (error, connection) => {
            if (connection.writable)
                refuseOnSocket(connection, codeOf(error));
            else
                connection.destroy();
        });
    }
    /** Resolves with the port once connections are accepted; rejects when the address cannot be had. */
    async listen(host, port) {
        await new Promise((resolve, reject) => {
            this.#front.once('error', reject).listen({ host, port }, () => {
                this.#front.off('error', reject);
                resolve();
            });
        });
        const address = this.#front.address();
        return typeof address === 'object' && address !== null ? address.port : port;
    }
    /** On return every connection is closed. */
    async close() {
        const closed = new Promise((resolve) => this.#front.close(resolve));
        for (const socket of this.#sockets)
            socket.destroy();
        await closed;
    }
    #connected(socket) {
        if (this.#sockets.size >= MOST_CONNECTIONS)
            this.#dropHeld();
        this.#sockets.add(socket);
        socket.once('close', () => this.#sockets.delete(socket));
        socket.on('error', () => socket.destroy());
        const address = socket.remoteAddress ?? '';
        const count = this.#served.get(address)?.size ?? 0;
        if (count < MOST_PER_ADDRESS && this.#hasPlaceBeside(count)) {
            enter(this.#served, address, socket);
            later(CONNECTION_TIMEOUT_MS, socket, () => socket.destroy());
            if (this.secureContext === undefined)
                this.#gather(socket);
            else
                this.#tellApart(socket, this.secureContext);
        }
        else {
            enter(this.#held, address, socket);
            this.#gather(socket, later(WAIT_MS, socket, () => socket.destroy()));
        }
    }
    /** Closes the oldest that is only held, of the address that has the most. Few are served, so there is one. */
    #dropHeld() {
        const [first, ...others] = this.#held;
        if (first === undefined)
            return;
        const [address, those] = others.reduce((a, b) => (b[1].size > a[1].size ? b : a), first);
        const [oldest] = those;
        if (oldest === undefined)
            return;
        // At once and not when it is closed, as below.
        this.#sockets.delete(oldest);
        those.delete(oldest);
        if (those.size === 0)
            this.#held.delete(address);
        oldest.destroy();
    }
    /** Whether one more can be served, of an address that has so many. Its place may be that of another address. */
    #hasPlaceBeside(count) {
        const all = [...this.#served.values()];
        if (all.reduce((sum, { size }) => sum + size, 0) < MOST_SERVED)
            return true;
        const most = all.reduce((a, b) => (b.size > a.size ? b : a));
        const [oldest] = most;
        if (oldest === undefined || most.size <= count + 1)
            return false;
        // At once and not when it is closed, which is after others have come.
        most.delete(oldest);
        oldest.destroy();
        return true;
    }
    /** Waits for the first byte, and goes on as it says. */
    #tellApart(socket, secureContext) {
        const giveUp = () => void socket.destroy();
        const timer = setTimeout(giveUp, HEADERS_TIMEOUT_MS);
        socket.once('close', () => clearTimeout(timer)).once('end', giveUp);
        socket.once('data', (chunk) => {
            clearTimeout(timer);
            socket.off('end', giveUp).pause().unshift(chunk);
            if (chunk[0] !== HANDSHAKE_RECORD)
                return this.#gather(socket);
            this.#pace(WAIT_MS, socket, () => {
                const secure = new TLSSocket(socket, { isServer: true, secureContext, ALPNProtocols: ['http/1.1'] });
                // Its end is that of the connection, which is what is counted.
                secure.on('error', giveUp).once('close', giveUp);
                this.#gather(secure);
            });
        });
        socket.resume();
    }
    /**
     * Reads the headers, and hands the connection on with them and nothing behind them.
     * @param hold ends a connection that is only held. Unless it asks for health, which it need not do by TLS, it is left alone.
     */
    #gather(socket, hold) {
        let head = Buffer.alloc(0);
        const refuse = (code) => {
            stop();
            if (hold === undefined)
                this.#pace(WAIT_MS, socket, () => refuseOnSocket(socket, code));
        };
        const timer = setTimeout(() => refuse('request_timeout'), HEADERS_TIMEOUT_MS);
        const stop = () => {
            clearTimeout(timer);
            socket.off('data', take).off('end', ended).off('close', stop).pause();
        };
        const ended = () => {
            stop();
            socket.destroy();
        };
        const take = (chunk) => {
            head = Buffer.concat([head, chunk.subarray(0, MAX_HEADER_BYTES)]);
            const end = head.indexOf('\r\n\r\n');
            const bytes = end < 0 ? head.length : end + 4;
            if (bytes > MAX_HEADER_BYTES || (end < 0 && chunk.length > MAX_HEADER_BYTES))
                return refuse('headers_too_large');
            if (end < 0)
                return;
            stop();
            const isHealth = /^(GET|HEAD) \/(livez|readyz)[ ?]/.test(head.toString('latin1', 0, 20));
            if (hold !== undefined && !isHealth)
                return;
            hold?.refresh();
            this.#pace(isHealth ? this.#healthWaitMs() : WAIT_MS, socket, () => {
                hold?.refresh();
                this.#http.emit('connection', new OneRequest(socket, head.subarray(0, bytes)));
            });
        };
        socket.on('data', take).on('end', ended).on('close', stop).resume();
    }
    /** Less than a held connection is held, and than probes commonly wait: a second. */
    #healthWaitMs() {
        return Math.max(HEALTH_WAIT_MS, (this.#sockets.size * 1000) / HEALTH_PER_SECOND);
    }
    #serve(...[request, response]) {
        response.shouldKeepAlive = false;
        const { method, headers } = request;
        const length = Number(headers['content-length'] ?? 0);
        if (method !== 'GET' && method !== 'HEAD')
            refuse(response, 'method_not_allowed', { Allow: 'GET, HEAD' });
        else if (headers['transfer-encoding'] !== undefined || length !== 0)
            refuse(response, 'body_too_large');
        else
            this.handler(request, response);
    }
    /** Does it now or, beyond the rate, after a while. */
    #pace(waitMs, socket, act) {
        if (this.#bucket.take(performance.now()) === 0)
            act();
        else
            later(waitMs, socket, act);
    }
}
/** A connection on which nothing comes but these headers. */
class OneRequest extends Duplex {
    socket;
    remoteAddress;
    /** As Node names it on a connection. */
    encrypted;
    constructor(socket, head) {
        super();
        this.socket = socket;
        this.remoteAddress = socket.remoteAddress;
        this.encrypted = socket instanceof TLSSocket;
        socket.once('close', () => this.destroy());
        this.push(head);
    }
    _read() {
        // What else the client sends is left where it is.
    }
    _write(chunk, _encoding, done) {
        this.socket.write(chunk, done);
    }
    _final(done) {
        this.socket.end(done);
        // Read and dropped, so that the end of the client's side is seen, and that unread bytes do not turn our end into a
        // reset, to which the answer could be lost. But not without an end.
        let dropped = 0;
        this.socket.on('data', (chunk) => {
            dropped += chunk.length;
            if (dropped > LINGER_BYTES)
                this.socket.pause();
        });
        this.socket.resume();
    }
    _destroy(error, done) {
        if (error)
            this.socket.destroy();
        else
            later(LINGER_MS, this.socket, () => this.socket.destroy());
        done(error);
    }
}
/** Until the connection is closed. */
function enter(sockets, address, socket) {
    const those = sockets.get(address) ?? new Set();
    sockets.set(address, those.add(socket));
    socket.once('close', () => {
        those.delete(socket);
        // Another set may have taken the place of one that was emptied before.
        if (those.size === 0 && sockets.get(address) === those)
            sockets.delete(address);
    });
}
/** Does it after so many milliseconds, unless the connection is gone by then. */
function later(ms, socket, act) {
    const timer = setTimeout(act, ms).unref();
    socket.once('close', () => clearTimeout(timer));
    return timer;
}
function refuse(response, code, headers = {}) {
    response.writeHead(ERRORS[code].status, { 'Content-Type': 'application/json', ...headers });
    response.end(JSON.stringify(errorBody(code)));
}
function codeOf(error) {
    return systemCode(error) === 'HPE_HEADER_OVERFLOW' ? 'headers_too_large' : 'malformed_request';
}
const CHALLENGES = ['Basic realm="collector", charset="UTF-8"', 'Bearer realm="collector"'];
const MISSING = {
    code: 'key_missing',
    message: 'The operator token is required, as a bearer or as the password of HTTP Basic.',
    challenges: CHALLENGES,
};
const WRONG = {
    code: 'key_invalid',
    message: 'The operator token is not valid.',
    challenges: CHALLENGES,
};
const TOO_MANY = { code: 'rate_limited', message: 'Too many wrong operator tokens.' };
const NOT_ENCRYPTED = {
    code: 'permission_denied',
    message: 'Ask by HTTPS. Only health is told by HTTP to other hosts than this one.',
};
const OTHER_HOST = {
    code: 'permission_denied',
    message: 'The Host header names another host. Without an operator token, ask for localhost or 127.0.0.1.',
};
/** A wrong token is told so, and logged, so often; beyond that it is only told to wait. The right one always passes. */
const FAILURES = { perSecond: 1, burst: 10 };
const THIS_HOST = /^(?:::ffff:)?127\.|^::1$/;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i;
export class OperatorAccess {
    token;
    speaksTls;
    log;
    #failures = new TokenBucket(FAILURES);
    /**
     * @param token undefined on loopback only.
     * @param speaksTls whether other hosts have to speak it too: who has sent the token in the clear once is told, and not
     *   served, so that it does not become the custom.
     */
    constructor(token, speaksTls, log) {
        this.token = token;
        this.speaksTls = speaksTls;
        this.log = log;
    }
    /** @returns why not, or undefined when it may. */
    refusal({ host, authorization, remote, encrypted }) {
        if (this.speaksTls && !encrypted && !THIS_HOST.test(remote ?? ''))
            return NOT_ENCRYPTED;
        if (this.token === undefined)
            return LOOPBACK.test(host ?? '') ? undefined : OTHER_HOST;
        if (authorization === undefined || authorization === '')
            return MISSING;
        if (this.token.matches(tokenIn(authorization)))
            return undefined;
        if (this.#failures.take(performance.now()) > 0)
            return TOO_MANY;
        this.log.warn({ remote }, 'a wrong operator token was presented to the management listener');
        return WRONG;
    }
}
/** What is presented, or an empty text, which no token is. */
function tokenIn(authorization) {
    const [scheme = '', value = ''] = authorization.trim().split(/ +/, 2);
    if (scheme.toLowerCase() === 'bearer')
        return value;
    if (scheme.toLowerCase() !== 'basic')
        return '';
    const pair = Buffer.from(value, 'base64').toString('utf8');
    return pair.slice(pair.indexOf(':') + 1);
}
/* The operator's token: what opens the management listener to other hosts. Kept as its SHA-256 alone. */
const LEAST_CHARACTERS = 32;
/** Anything longer was not meant to be a token, and no header that holds it would be taken. */
const MOST_BYTES = 1024;
/** The file cannot be used. The message names it and says what to do; it never repeats what it holds. */
export class OperatorTokenUnfit extends Error {
    name = 'OperatorTokenUnfit';
}
export class OperatorToken {
    #hash;
    constructor(token) {
        this.#hash = hashOf(token);
    }
    /**
     * Reads the token: the file's one line.
     * @throws {@link OperatorTokenUnfit} when it cannot be read, is open to other users, or is too short.
     */
    static read(file) {
        let text;
        let mode;
        try {
            const stat = fs.statSync(file);
            mode = stat.mode;
            if (!stat.isFile())
                throw new OperatorTokenUnfit(`${file} is not a regular file`);
            if (stat.size > MOST_BYTES)
                throw new OperatorTokenUnfit(`${file} is too long to hold a token`);
            text = fs.readFileSync(file, 'utf8');
        }
        catch (error) {
            if (error instanceof OperatorTokenUnfit)
                throw error;
            throw new OperatorTokenUnfit(`${file} cannot be read (${systemCode(error) ?? 'unknown'})`, {
                cause: error,
            });
        }
        // The modes that Node tells on Windows are made up. A group may read: that is how Kubernetes mounts a secret.
        if (process.platform !== 'win32' && (mode & 0o007) !== 0)
            throw new OperatorTokenUnfit(`${file} can be read by every user of the host: chmod 600`);
        const token = text.replace(/\r?\n$/, '');
        if (!/^[\x21-\x7e]*$/.test(token) || token.length < LEAST_CHARACTERS) {
            throw new OperatorTokenUnfit(`${file} does not hold a token: one line of at least ${LEAST_CHARACTERS} visible ASCII characters, such as openssl rand -hex 32 makes`);
        }
        return new OperatorToken(token);
    }
    /** In a time that does not depend on how much of it is right. */
    matches(presented) {
        return timingSafeEqual(hashOf(presented), this.#hash);
    }
}
function hashOf(text) {
    return createHash('sha256').update(text).digest();
}
//# sourceMappingURL=gate.js.map