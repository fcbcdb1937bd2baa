/**
 * What is counted of requests, as plain numbers: a call for an answer costs some ten nanoseconds and allocates
 * nothing.
 */
import { ERRORS, EVENT_KINDS } from '@clinical-events/protocol';
import { bucketOf, TIME_BOUNDS_MS } from '../ledger/buckets.js';
const ANSWER_CODES = ['accepted', ...Object.keys(ERRORS)];
/** `none`: refused before it was known of which kind it would be. */
const KINDS = [...EVENT_KINDS, 'none'];
const KIND_ROWS = placesOf(KINDS);
const CODE_PLACES = placesOf(ANSWER_CODES);
export class IngestCounters {
    /** Connections that were closed because all were taken. */
    lostPlaces = { displaced: 0, no_place: 0 };
    #answers = new Float64Array(KINDS.length * ANSWER_CODES.length);
    #latencies = new Float64Array(TIME_BOUNDS_MS.length + 1);
    #latencySum = 0;
    /** An event was acknowledged. @param milliseconds since the last of its headers had come. */
    accepted(kind, milliseconds) {
        const place = KIND_ROWS[kind] * ANSWER_CODES.length;
        this.#answers[place] = (this.#answers[place] ?? 0) + 1;
        const bucket = bucketOf(TIME_BOUNDS_MS, milliseconds);
        this.#latencies[bucket] = (this.#latencies[bucket] ?? 0) + 1;
        this.#latencySum += milliseconds;
    }
    refused(kind, code) {
        const place = KIND_ROWS[kind ?? 'none'] * ANSWER_CODES.length + CODE_PLACES[code];
        this.#answers[place] = (this.#answers[place] ?? 0) + 1;
    }
    lostPlace(reason) {
        this.lostPlaces[reason]++;
    }
    /** Every pair of a kind and an answer, also those that never came. */
    answers() {
        return KINDS.flatMap((kind, row) => ANSWER_CODES.map((code, place) => ({
            kind,
            code,
            status: code === 'accepted' ? 201 : ERRORS[code].status,
            count: this.#answers[row * ANSWER_CODES.length + place] ?? 0,
        })));
    }
    /** From headers to 201: one count a bucket of {@link TIME_BOUNDS_MS}, and their sum in milliseconds. A copy. */
    latencies() {
        return { counts: this.#latencies.slice(), sum: this.#latencySum };
    }
}
function placesOf(names) {
    return Object.fromEntries(names.map((name, place) => [name, place]));
}
//# sourceMappingURL=ingest-counters.js.map