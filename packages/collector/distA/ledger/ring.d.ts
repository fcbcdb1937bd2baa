/**
 * The bounded queue between the thread that speaks HTTP and the thread that writes the ledger: a ring in shared
 * memory, one writer and one reader. An event's bytes are copied once, into the ring; nothing is allocated for
 * it, and when the ring is full it is full.
 *
 * Data. Each event is a run of bytes without a break: organisation, key id, room for the salt, body. One that does
 * not fit before the end begins at 0 again. The room for the salt is the reader's: with it in place, salt and body can
 * be hashed and copied as one.
 * Slots. `SLOT_WORDS` 32-bit words an event, at its number modulo the capacity:
 *   0 offset  1 length of organisation | length of key id << 8  2 length of body  3 kind | profile << 8
 *   4-5 received_at as a double  6 answer  7 microseconds that it took
 *   Words 0 to 5 belong to the writer until it publishes, then no one changes them; 6 and 7 belong to the reader.
 * Control. Word 0: how many events were ever published, modulo 2^32; the writer's.
 * Doorbell. One word, shared by all rings of a ledger: rung at each publication; the reader sleeps on it.
 *
 * Answers come back by message, one a batch: `Answered`. Messages of 64 events each instead of the ring cost
 * 6 microseconds an event in garbage collection alone (docs/internals/adr/0002-two-threads-one-ring.md).
 */
import type { MessagePort } from 'node:worker_threads';
import { type EventKind, type Profile } from '@clinical-events/protocol';
import type { Fault } from './examine.js';
/** What becomes of an event in the ring, in word 6 of its slot. */
export declare const ANSWER: {
    readonly accepted: 1;
    readonly conflict: 2;
    readonly fault: 3;
    readonly notCommitted: 4;
    readonly unknown: 5;
    readonly unreadable: 6;
    readonly retired: 7;
};
export type Answer = keyof typeof ANSWER;
export interface RingMemory {
    readonly data: SharedArrayBuffer;
    readonly slots: SharedArrayBuffer;
    readonly control: SharedArrayBuffer;
    readonly doorbell: SharedArrayBuffer;
}
/** Every event below `upTo` (modulo 2^32) has its answer; the faults among them are here, by event number. */
export interface Answered {
    readonly upTo: number;
    readonly faults?: readonly (readonly [number, Fault])[];
}
/**
 * @param bytes of data.
 * @param events capacity, rounded up to a power of two so that counting may wrap.
 * @throws RangeError above `MAX_RING_BYTES`.
 */
export declare function createRingMemory(bytes: number, events: number, doorbell: SharedArrayBuffer): RingMemory;
/** Who sends an event, under which rules. */
export interface Sender {
    readonly organisation: string;
    readonly keyId: string;
}
/** The HTTP side. `T` is whatever the caller needs to answer with. */
export declare class RingWriter<T> {
    #private;
    /**
     * `place`: how many answers came before it in the same message. `tookMs`: how long the ledger's thread was busy
     * with this event alone, in milliseconds.
     */
    private readonly onAnswer;
    constructor(memory: RingMemory, port: MessagePort, maxBodyBytes: number, 
    /**
     * `place`: how many answers came before it in the same message. `tookMs`: how long the ledger's thread was busy
     * with this event alone, in milliseconds.
     */
    onAnswer: (waiting: T, answer: Answer, fault: Fault | undefined, place: number, tookMs: number) => void);
    /** Events that are being received or wait for their answer. */
    get pending(): number;
    /** Bytes that are promised or taken. */
    get usedBytes(): number;
    /** Room in all, in bytes and in events. */
    get capacity(): {
        readonly bytes: number;
        readonly events: number;
    };
    /** Whether more than half of the room is promised or taken. */
    get crowded(): boolean;
    /**
     * Promises room for one event whose body has at most `bodyBytes`, or returns false: the queue is full.
     * Every true is followed by exactly one `push` or `release` with the same number, plus what `extend` added.
     */
    reserve(bodyBytes: number): boolean;
    /** Promises `more` bytes on top of what was promised to one event, or returns false and promises nothing more. */
    extend(more: number): boolean;
    release(bodyBytes: number): void;
    /**
     * Copies an event into the ring; its answer comes through `onAnswer`, in the order of the pushes.
     * @param reserved what was promised for its body.
     * @param chunks the body in pieces, together at most `reserved` bytes.
     */
    push(waiting: T, reserved: number, kind: EventKind, profile: Profile, { organisation, keyId }: Sender, receivedAt: number, chunks: readonly Uint8Array[]): void;
}
/** An event as the reader finds it in the ring; the views are good until its answer is sent. */
export interface Queued {
    readonly kind: EventKind;
    readonly profile: Profile;
    readonly organisation: string;
    readonly keyId: string;
    readonly receivedAt: number;
    /** SALT_BYTES for the reader to fill, and behind them the body. */
    readonly salted: Buffer;
}
/** The ledger's side. */
export declare class RingReader {
    #private;
    private readonly port;
    constructor(memory: RingMemory, port: MessagePort);
    /** How many events are published and not taken. */
    get waiting(): number;
    /** The next event, or undefined when all that were published are taken. */
    take(): Queued | undefined;
    /** Notes the answer of the oldest event taken that has none yet. */
    answer(answer: Answer, fault?: Fault, tookMs?: number): void;
    /** Sends the answers noted since the last call, if there are any. */
    send(): void;
}
