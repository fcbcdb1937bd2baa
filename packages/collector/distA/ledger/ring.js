import { EVENT_KINDS, PROFILES, SALT_BYTES } from '@clinical-events/protocol';
const SLOT_WORDS = 8;
/** Publish at the latest when this number waits: the ledger starts on them while the rest of the tick is read. */
const PUBLISH_EVERY = 64;
/** What becomes of an event in the ring, in word 6 of its slot. */
export const ANSWER = {
    accepted: 1,
    conflict: 2,
    fault: 3,
    notCommitted: 4,
    unknown: 5,
    unreadable: 6,
    retired: 7,
};
const ANSWER_NAMES = Object.fromEntries(Object.entries(ANSWER).map(([name, code]) => [code, name]));
/** A slot keeps an offset in 31 bits; beyond them a reader would find another event's bytes. */
const MAX_RING_BYTES = 2 ** 31 - 1;
/**
 * @param bytes of data.
 * @param events capacity, rounded up to a power of two so that counting may wrap.
 * @throws RangeError above `MAX_RING_BYTES`.
 */
export function createRingMemory(bytes, events, doorbell) {
    if (bytes > MAX_RING_BYTES)
        throw new RangeError(`a queue has at most ${MAX_RING_BYTES} bytes`);
    const capacity = 2 ** Math.ceil(Math.log2(events));
    return {
        data: new SharedArrayBuffer(bytes),
        slots: new SharedArrayBuffer(capacity * SLOT_WORDS * 4),
        control: new SharedArrayBuffer(4),
        doorbell,
    };
}
/** The HTTP side. `T` is whatever the caller needs to answer with. */
export class RingWriter {
    onAnswer;
    #data;
    #words;
    #doubles;
    #control;
    #doorbell;
    #mask;
    #waiting;
    /** Bytes of ring that each waiting event holds, its share of a skipped end included. */
    #held;
    /** Where the largest event could have to be skipped to: never promised. */
    #spare;
    #head = 0;
    #usedBytes = 0;
    #reservedBytes = 0;
    #reservedEvents = 0;
    #pushed = 0;
    #published = 0;
    #answered = 0;
    constructor(memory, port, maxBodyBytes, 
    /**
     * `place`: how many answers came before it in the same message. `tookMs`: how long the ledger's thread was busy
     * with this event alone, in milliseconds.
     */
    onAnswer) {
        this.onAnswer = onAnswer;
        this.#data = Buffer.from(memory.data);
        this.#words = new Int32Array(memory.slots);
        this.#doubles = new Float64Array(memory.slots);
        this.#control = new Int32Array(memory.control);
        this.#doorbell = new Int32Array(memory.doorbell);
        const capacity = this.#words.length / SLOT_WORDS;
        this.#mask = capacity - 1;
        this.#waiting = new Array(capacity).fill(undefined);
        this.#held = new Int32Array(capacity);
        this.#spare = maxBodyBytes + MAX_SENDER_BYTES;
        port.on('message', (answered) => this.#settle(answered));
    }
    /** Events that are being received or wait for their answer. */
    get pending() {
        return this.#reservedEvents + ((this.#pushed - this.#answered) | 0);
    }
    /** Bytes that are promised or taken. */
    get usedBytes() {
        return this.#usedBytes + this.#reservedBytes;
    }
    /** Room in all, in bytes and in events. */
    get capacity() {
        return { bytes: this.#data.length, events: this.#mask + 1 };
    }
    /** Whether more than half of the room is promised or taken. */
    get crowded() {
        return 2 * this.usedBytes > this.#data.length || 2 * this.pending > this.#mask + 1;
    }
    /**
     * Promises room for one event whose body has at most `bodyBytes`, or returns false: the queue is full.
     * Every true is followed by exactly one `push` or `release` with the same number, plus what `extend` added.
     */
    reserve(bodyBytes) {
        const bytes = bodyBytes + MAX_SENDER_BYTES;
        if (this.pending > this.#mask)
            return false;
        if (this.#usedBytes + this.#reservedBytes + bytes + this.#spare > this.#data.length)
            return false;
        this.#reservedBytes += bytes;
        this.#reservedEvents++;
        return true;
    }
    /** Promises `more` bytes on top of what was promised to one event, or returns false and promises nothing more. */
    extend(more) {
        if (this.#usedBytes + this.#reservedBytes + more + this.#spare > this.#data.length)
            return false;
        this.#reservedBytes += more;
        return true;
    }
    release(bodyBytes) {
        this.#reservedBytes -= bodyBytes + MAX_SENDER_BYTES;
        this.#reservedEvents--;
    }
    /**
     * Copies an event into the ring; its answer comes through `onAnswer`, in the order of the pushes.
     * @param reserved what was promised for its body.
     * @param chunks the body in pieces, together at most `reserved` bytes.
     */
    push(waiting, reserved, kind, profile, { organisation, keyId }, receivedAt, chunks) {
        this.release(reserved);
        let bodyBytes = 0;
        for (const chunk of chunks)
            bodyBytes += chunk.length;
        const bytes = organisation.length + keyId.length + SALT_BYTES + bodyBytes;
        // Nothing is skipped when the event before ended exactly where the ring does.
        const wraps = this.#head + bytes > this.#data.length;
        const skipped = wraps ? this.#data.length - this.#head : 0;
        const offset = wraps ? 0 : this.#head;
        let at = offset + this.#data.write(organisation, offset, 'latin1');
        at += this.#data.write(keyId, at, 'latin1') + SALT_BYTES;
        for (const chunk of chunks) {
            this.#data.set(chunk, at);
            at += chunk.length;
        }
        this.#head = at;
        const slot = this.#pushed & this.#mask;
        const word = slot * SLOT_WORDS;
        this.#words[word] = offset;
        this.#words[word + 1] = organisation.length | (keyId.length << 8);
        this.#words[word + 2] = bodyBytes;
        this.#words[word + 3] = EVENT_KINDS.indexOf(kind) | (PROFILES.indexOf(profile) << 8);
        this.#doubles[slot * (SLOT_WORDS / 2) + 2] = receivedAt;
        this.#waiting[slot] = waiting;
        this.#held[slot] = bytes + skipped;
        this.#usedBytes += bytes + skipped;
        this.#pushed = (this.#pushed + 1) | 0;
        const unpublished = (this.#pushed - this.#published) | 0;
        if (unpublished >= PUBLISH_EVERY)
            this.#publish();
        else if (unpublished === 1)
            setImmediate(this.#publish);
    }
    #publish = () => {
        if (this.#published === this.#pushed)
            return;
        this.#published = this.#pushed;
        Atomics.store(this.#control, 0, this.#published);
        Atomics.add(this.#doorbell, 0, 1);
        Atomics.notify(this.#doorbell, 0);
    };
    #settle({ upTo, faults }) {
        let nextFault = 0;
        let place = 0;
        while (this.#answered !== upTo) {
            const number = this.#answered;
            const slot = number & this.#mask;
            const waiting = this.#waiting[slot];
            this.#waiting[slot] = undefined;
            this.#usedBytes -= this.#held[slot] ?? 0;
            this.#answered = (number + 1) | 0;
            const answer = ANSWER_NAMES[this.#words[slot * SLOT_WORDS + 6] ?? 0];
            const fault = answer === 'fault' ? faults?.[nextFault++]?.[1] : undefined;
            if (waiting === undefined || answer === undefined)
                throw new Error('an answer for no event');
            this.onAnswer(waiting, answer, fault, place++, (this.#words[slot * SLOT_WORDS + 7] ?? 0) / 1000);
        }
    }
}
/** Organisation, key id and salt together, at their longest (access/ limits the first to 64 and 12 characters). */
const MAX_SENDER_BYTES = 128;
/** The ledger's side. */
export class RingReader {
    port;
    #data;
    #words;
    #doubles;
    #control;
    #mask;
    #taken = 0;
    #faults = [];
    #answered = 0;
    #sent = 0;
    constructor(memory, port) {
        this.port = port;
        this.#data = Buffer.from(memory.data);
        this.#words = new Int32Array(memory.slots);
        this.#doubles = new Float64Array(memory.slots);
        this.#control = new Int32Array(memory.control);
        this.#mask = this.#words.length / SLOT_WORDS - 1;
    }
    /** How many events are published and not taken. */
    get waiting() {
        return (Atomics.load(this.#control, 0) - this.#taken) | 0;
    }
    /** The next event, or undefined when all that were published are taken. */
    take() {
        if (this.#taken === Atomics.load(this.#control, 0))
            return undefined;
        const slot = this.#taken & this.#mask;
        const word = slot * SLOT_WORDS;
        this.#taken = (this.#taken + 1) | 0;
        const lengths = this.#words[word + 1] ?? 0;
        const keyStart = (this.#words[word] ?? 0) + (lengths & 255);
        const saltStart = keyStart + (lengths >> 8);
        const codes = this.#words[word + 3] ?? 0;
        return {
            kind: EVENT_KINDS[codes & 255],
            profile: PROFILES[codes >> 8],
            organisation: this.#data.toString('latin1', this.#words[word], keyStart),
            keyId: this.#data.toString('latin1', keyStart, saltStart),
            receivedAt: this.#doubles[slot * (SLOT_WORDS / 2) + 2] ?? 0,
            salted: this.#data.subarray(saltStart, saltStart + SALT_BYTES + (this.#words[word + 2] ?? 0)),
        };
    }
    /** Notes the answer of the oldest event taken that has none yet. */
    answer(answer, fault, tookMs = 0) {
        const word = (this.#answered & this.#mask) * SLOT_WORDS;
        this.#words[word + 6] = ANSWER[answer];
        this.#words[word + 7] = tookMs * 1000;
        if (fault)
            this.#faults.push([this.#answered, fault]);
        this.#answered = (this.#answered + 1) | 0;
    }
    /** Sends the answers noted since the last call, if there are any. */
    send() {
        if (this.#answered === this.#sent)
            return;
        this.#sent = this.#answered;
        const message = this.#faults.length > 0 ? { upTo: this.#answered, faults: this.#faults } : { upTo: this.#answered };
        this.#faults = [];
        this.port.postMessage(message);
    }
}
//# sourceMappingURL=ring.js.map