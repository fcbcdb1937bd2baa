import { TIME_BOUNDS_MS, quantile } from '../ledger/buckets.js';
import {} from '../ledger/ledger-counters.js';
const KEPT_SECONDS = 300;
export class Samples {
    counters;
    #ring = [];
    #next = 0;
    #accepted = 0;
    #refused = 0;
    #latencies;
    #lookedAt;
    /** @param monotonicMs now; the first sample begins here. */
    constructor(counters, monotonicMs) {
        this.counters = counters;
        this.#latencies = new Float64Array(TIME_BOUNDS_MS.length + 1);
        this.#lookedAt = monotonicMs;
    }
    /** Ends a sample and begins the next. */
    take(wallMs, monotonicMs) {
        let accepted = 0;
        let refused = 0;
        for (const { code, count } of this.counters.answers()) {
            if (code === 'accepted')
                accepted += count;
            else
                refused += count;
        }
        const { counts } = this.counters.latencies();
        const since = counts.map((count, i) => count - (this.#latencies[i] ?? 0));
        this.#ring[this.#next] = {
            at: wallMs,
            ms: monotonicMs - this.#lookedAt,
            accepted: accepted - this.#accepted,
            refused: refused - this.#refused,
            p50: quantile(TIME_BOUNDS_MS, since, 0.5) ?? null,
            p99: quantile(TIME_BOUNDS_MS, since, 0.99) ?? null,
        };
        this.#next = (this.#next + 1) % KEPT_SECONDS;
        this.#accepted = accepted;
        this.#refused = refused;
        this.#latencies = counts;
        this.#lookedAt = monotonicMs;
    }
    /** Oldest first. */
    list() {
        return [...this.#ring.slice(this.#next), ...this.#ring.slice(0, this.#next)];
    }
    /** Per second, over the last samples that together make at least so many milliseconds, or over all there are. */
    rates(overMs) {
        let ms = 0;
        let accepted = 0;
        let refused = 0;
        for (const sample of this.list().reverse()) {
            ms += sample.ms;
            accepted += sample.accepted;
            refused += sample.refused;
            if (ms >= overMs)
                break;
        }
        return ms === 0
            ? { accepted: 0, refused: 0 }
            : { accepted: (accepted * 1000) / ms, refused: (refused * 1000) / ms };
    }
}
/* How fast the ledger grows, and so when the disk is full. */
/** So many looks are kept, a minute apart: a day, so that a night does not look like the end of all growth. */
const KEPT_MINUTES = 24 * 60;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Below this a burst would pass for a day's work. */
const SHORTEST_MS = 10 * 60_000;
/** What an event takes beside its frame: some 33 bytes in the tree, and an entry in the id index. */
const DERIVED_BYTES = 64;
export class GrowthWatch {
    #looks = [];
    /** Keeps a look when the last kept one is a minute old. @param at a monotonic clock, milliseconds. */
    note(look) {
        const last = this.#looks.at(-1);
        if (last !== undefined && look.at - last.at < MINUTE_MS)
            return;
        this.#looks.push(look);
        if (this.#looks.length > KEPT_MINUTES)
            this.#looks.shift();
    }
    /** @param now what the ledger holds now. */
    growth(now) {
        const first = this.#looks[0] ?? now;
        const watchedMs = now.at - first.at;
        if (watchedMs < SHORTEST_MS)
            return { watchedMs, eventsPerHour: undefined, bytesPerHour: undefined, diskBytesPerDay: undefined };
        const events = (now.events - first.events) / watchedMs;
        const bytes = (now.bytes - first.bytes) / watchedMs;
        return {
            watchedMs,
            eventsPerHour: events * HOUR_MS,
            bytesPerHour: bytes * HOUR_MS,
            diskBytesPerDay: (bytes + events * DERIVED_BYTES) * DAY_MS,
        };
    }
}
/** @returns undefined when that cannot be told, Infinity when nothing grows. */
export function daysUntilFull({ diskBytesPerDay }, freeBytes) {
    if (diskBytesPerDay === undefined)
        return undefined;
    return diskBytesPerDay <= 0 ? Infinity : freeBytes / diskBytesPerDay;
}
/* What has to be looked at every second, so that the listener can tell of rates and of what went on meanwhile. */
const EVERY_MS = 1000;
const DISK_EVERY_MS = 5000;
export class Watch {
    samples;
    /** Undefined until the disk has answered once. What it answered last stays when it hangs. */
    disk;
    #collectorStatus;
    #growth = new GrowthWatch();
    #timer;
    #looking = false;
    #lookedAt = -Infinity;
    constructor(collectorStatus) {
        this.#collectorStatus = collectorStatus;
        this.samples = new Samples(collectorStatus.ingest.counters, performance.now());
    }
    /** Does not keep the process alive. */
    start() {
        this.#lookAtDisk(performance.now());
        this.#timer ??= setInterval(() => this.#look(), EVERY_MS).unref();
    }
    stop() {
        clearInterval(this.#timer);
    }
    get growth() {
        return this.#growth.growth(this.#ledger(performance.now()));
    }
    #look() {
        const wall = Date.now();
        const now = performance.now();
        this.samples.take(wall, now);
        // What is read while the ledger is being opened is nothing, and everything after it would look like growth.
        if (this.#collectorStatus.phase() === 'running') {
            this.#growth.note(this.#ledger(now));
            this.#collectorStatus.askThread();
        }
        if (now - this.#lookedAt >= DISK_EVERY_MS)
            this.#lookAtDisk(now);
    }
    /** One look is under way at most: a mount that hangs must not take one thread of the pool after the other. */
    #lookAtDisk(now) {
        if (this.#looking)
            return;
        this.#looking = true;
        this.#lookedAt = now;
        this.#collectorStatus
            .lookAtDisk()
            .then((space) => (this.disk = space))
            .catch(() => undefined)
            .finally(() => (this.#looking = false));
    }
    #ledger(at) {
        const { events, bytes } = this.#collectorStatus.ledger();
        return { at, events, bytes };
    }
}
//# sourceMappingURL=status.js.map