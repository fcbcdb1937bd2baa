import { ERRORS } from '@clinical-events/protocol';
import { systemCode } from '../system-code.js';
/* Lets N lines of each sort into the log in a period, and counts what it keeps out. */
export class LineLimit {
    tell;
    lines;
    periodMs;
    #sorts = new Map();
    #period = 0;
    #timer;
    /** @param tell reports how many of a sort were kept out, at the end of the period at the latest. */
    constructor(tell, lines = 10, periodMs = 1000) {
        this.tell = tell;
        this.lines = lines;
        this.periodMs = periodMs;
    }
    /**
     * @param nowMs a monotonic clock.
     * @returns whether the line may be written.
     */
    admits(sort, nowMs) {
        const period = Math.floor(nowMs / this.periodMs);
        if (period !== this.#period) {
            this.flush();
            this.#period = period;
        }
        let count = this.#sorts.get(sort);
        if (count === undefined)
            this.#sorts.set(sort, (count = { lines: 0, unsaid: 0 }));
        if (count.lines >= this.lines) {
            count.unsaid++;
            this.#timer ??= setTimeout(() => this.flush(), this.periodMs - (nowMs % this.periodMs)).unref();
            return false;
        }
        count.lines++;
        return true;
    }
    /** Reports what was kept out, and begins again. */
    flush() {
        clearTimeout(this.#timer);
        this.#timer = undefined;
        for (const [sort, { unsaid }] of this.#sorts)
            if (unsaid > 0)
                this.tell(sort, unsaid);
        this.#sorts.clear();
    }
}
/** Where no key was proven: one example of each sort and the number of the others, each such period in milliseconds. */
const [EXAMPLES, PERIOD_MS] = [1, 10_000];
export class RefusalLog {
    log;
    #proven;
    #unproven;
    #places;
    constructor(log) {
        this.log = log;
        const tell = (code, refusals) => log[ERRORS[code].logLevel]({ code, refusals }, 'more refused, not listed');
        this.#proven = new LineLimit(tell);
        this.#unproven = new LineLimit(tell, EXAMPLES, PERIOD_MS);
        this.#places = new LineLimit((reason, connections) => log.warn({ reason, connections }, 'more connections closed, not listed'), EXAMPLES, PERIOD_MS);
    }
    /**
     * @param remoteOf asked only when a line is written.
     * @param nowMs a monotonic clock.
     */
    note(refusal, remoteOf, nowMs) {
        const limit = refusal.keyId === undefined ? this.#unproven : this.#proven;
        if (!limit.admits(refusal.code, nowMs))
            return;
        const { logLevel, status } = ERRORS[refusal.code];
        this.log[logLevel]({ ...refusal, remote: remoteOf(), status }, 'refused');
    }
    noteLostPlace(reason, remote, nowMs) {
        if (this.#places.admits(reason, nowMs))
            this.log.warn({ reason, remote }, 'connection closed: all were taken');
    }
    /** Reports how many were not listed, and begins to list again. */
    flush() {
        for (const limit of [this.#proven, this.#unproven, this.#places])
            limit.flush();
    }
}
export class TlsFailures {
    log;
    /** How many there were since the start. */
    counts = {
        timeout: 0,
        closed: 0,
        plain_http: 0,
        client_certificate: 0,
        refused_by_client: 0,
        protocol: 0,
    };
    #limit;
    constructor(log) {
        this.log = log;
        this.#limit = new LineLimit((reason, failures) => log[levelOf(reason)]({ reason, failures }, 'more TLS connections failed, not listed'));
    }
    /** @param error as Node reports it; of its text only the code is logged, which OpenSSL takes from a fixed list. */
    note(error, socket) {
        const code = systemCode(error);
        const reason = faultOf(code, socket);
        this.counts[reason]++;
        if (!this.#limit.admits(reason, performance.now()))
            return;
        // Of a client that said nothing the address is no longer known once its time is up.
        this.log[levelOf(reason)]({ reason, code, remote: socket.remoteAddress }, 'TLS connection failed');
    }
    /** Says how many were not listed. */
    flush() {
        this.#limit.flush();
    }
}
function levelOf(fault) {
    return fault === 'closed' ? 'debug' : 'info';
}
/** @param socket the typings do not know that it has no `authorizationError` unless a certificate was looked at. */
function faultOf(code, { authorizationError }) {
    if (code === 'ERR_TLS_HANDSHAKE_TIMEOUT')
        return 'timeout';
    if (code === 'ERR_SSL_HTTP_REQUEST')
        return 'plain_http';
    // Node ends a connection whose certificate was not verified as if the client had.
    if (authorizationError || code === 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE')
        return 'client_certificate';
    if (code?.includes('_ALERT_'))
        return 'refused_by_client';
    return code?.startsWith('ERR_SSL_') ? 'protocol' : 'closed';
}
//# sourceMappingURL=refusal-log.js.map