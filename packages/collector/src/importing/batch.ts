/**
 * Events on their way from the thread that reads and examines lines to the one that stores them: a batch is one block of
 * memory, which changes hands without being copied, and a table of numbers.
 *
 * Blocks come back when their batch is stored, and are used again: fresh memory, of which each page is new to the process,
 * took a tenth of the time.
 *
 * Block. Each event is event id, run id, parent id, room for the salt, body; and behind these its line, where that is
 *   not the body.
 * Table. `WORDS` 32-bit words an event:
 *   0 where it begins  1 length of the body  2 length of the line, 0 when it is the body  3 kind | profile << 8
 *   4 place of its organisation in the list  5 line - firstLine
 */
import { EVENT_KINDS, PROFILES, SALT_BYTES, type EventKind, type Profile } from '@clinical-events/protocol';
import type { Examined } from '../ledger/examine.js';
import { MAX_BATCH_BYTES, MAX_BATCH_EVENTS } from '../ledger/ledger.js';
import type { Refusal } from './line-fault.js';

const WORDS = 6;
const ID_BYTES = 16;
const FIXED_BYTES = 3 * ID_BYTES + SALT_BYTES;

/** How far an input has been read. */
export interface Reached {
  /** Its lines so far, empty ones among them. */
  readonly lines: number;
  /** Lines that hold nothing but white space: no events and no faults. */
  readonly empty: number;
  /** Events whose timestamps were fixed. */
  readonly fixed: number;
  /** Bytes read of all inputs, those of a compressed one twice. */
  readonly bytesRead: number;
  /** Once all of it is read: its size, and its SHA-256 in hexadecimal. */
  readonly whole: { readonly bytes: number; readonly sha256: string } | undefined;
}

export interface PreparedBatch extends Reached {
  /** Which input, by its place in the list; a batch is of one. */
  readonly input: number;
  readonly block: Uint8Array<ArrayBuffer>;
  readonly table: Int32Array<ArrayBuffer>;
  readonly organisations: readonly string[];
  readonly firstLine: number;
  /** In the order of their lines, like the events. */
  readonly refusals: readonly Refusal[];
}

/** An event of a batch; the views are good as long as the batch. */
export interface PreparedEvent {
  readonly kind: EventKind;
  readonly profile: Profile;
  readonly organisation: string;
  readonly eventId: Buffer;
  readonly runId: Buffer;
  readonly parentId: Buffer;
  /** SALT_BYTES to be filled, and behind them the body. */
  readonly salted: Buffer;
  readonly line: number;
  /** The exact text of the line. */
  readonly lineText: Buffer;
}

/** What a good line holds. */
export interface GoodLine extends Examined {
  readonly kind: EventKind;
  readonly profile: Profile;
  readonly organisation: string;
  readonly body: Uint8Array;
  /** Undefined when it is the body. */
  readonly lineText: Uint8Array | undefined;
  readonly line: number;
}

/** Blocks that are free. */
export class BlockPool {
  readonly #free: Uint8Array<ArrayBuffer>[] = [];

  /** @returns a block of at least so many bytes, with anything in it. */
  take(bytes: number): Buffer<ArrayBuffer> {
    const free = bytes <= MAX_BATCH_BYTES ? this.#free.pop() : undefined;
    if (free === undefined) return Buffer.allocUnsafeSlow(Math.max(MAX_BATCH_BYTES, bytes));
    return Buffer.from(free.buffer, free.byteOffset, free.byteLength);
  }

  give(block: Uint8Array<ArrayBuffer>): void {
    // One that was made for a large event is not kept.
    if (block.length === MAX_BATCH_BYTES) this.#free.push(block);
  }
}

export class BatchBuilder {
  readonly #pool: BlockPool;
  #block: Buffer<ArrayBuffer> | undefined;
  readonly #table = new Int32Array(MAX_BATCH_EVENTS * WORDS);
  readonly #organisations: string[] = [];
  readonly #refusals: Refusal[] = [];
  readonly #firstLine: number;
  #used = 0;
  #events = 0;
  #refusedBytes = 0;

  constructor(firstLine: number, pool: BlockPool) {
    this.#firstLine = firstLine;
    this.#pool = pool;
  }

  get isEmpty(): boolean {
    return this.#events === 0 && this.#refusals.length === 0;
  }

  /** No more lines should be added: their number or their size is that of a batch of the ledger. */
  get isFull(): boolean {
    const lines = this.#events + this.#refusals.length;
    return lines >= MAX_BATCH_EVENTS || this.#used + this.#refusedBytes >= MAX_BATCH_BYTES;
  }

  /** Whether there is room for the event; any one fits into an empty batch. */
  fits(good: GoodLine): boolean {
    return this.#block === undefined || this.#used + sizeOf(good) <= this.#block.length;
  }

  add(good: GoodLine): void {
    const { kind, profile, organisation, eventId, runId, parentId, body, lineText, line } = good;
    const block = (this.#block ??= this.#pool.take(sizeOf(good)));
    let place = this.#organisations.indexOf(organisation);
    if (place < 0) place = this.#organisations.push(organisation) - 1;
    const word = this.#events++ * WORDS;
    this.#table[word] = this.#used;
    this.#table[word + 1] = body.length;
    this.#table[word + 2] = lineText?.length ?? 0;
    this.#table[word + 3] = EVENT_KINDS.indexOf(kind) | (PROFILES.indexOf(profile) << 8);
    this.#table[word + 4] = place;
    this.#table[word + 5] = line - this.#firstLine;
    block.set(eventId, this.#used);
    block.set(runId, this.#used + ID_BYTES);
    block.set(parentId, this.#used + 2 * ID_BYTES);
    block.set(body, this.#used + FIXED_BYTES);
    this.#used += FIXED_BYTES + body.length;
    if (lineText === undefined) return;
    block.set(lineText, this.#used);
    this.#used += lineText.length;
  }

  refuse(refusal: Refusal): void {
    this.#refusals.push(refusal);
    this.#refusedBytes += refusal.bytes?.length ?? 0;
  }

  /** The builder must not be used afterwards. */
  cut(input: number, reached: Reached): PreparedBatch {
    return {
      ...reached,
      input,
      block: this.#block ?? Buffer.alloc(0),
      table: this.#table.subarray(0, this.#events * WORDS),
      organisations: this.#organisations,
      firstLine: this.#firstLine,
      refusals: this.#refusals,
    };
  }
}

/** The room that an event takes. */
function sizeOf({ body, lineText }: GoodLine): number {
  return FIXED_BYTES + body.length + (lineText?.length ?? 0);
}

/** The events of a batch, in the order of their lines. */
export function eventsOf({ block, table, organisations, firstLine }: PreparedBatch): PreparedEvent[] {
  const bytes = Buffer.from(block.buffer, block.byteOffset, block.byteLength);
  const events: PreparedEvent[] = [];
  const word = (at: number) => table[at] ?? 0;
  for (let at = 0; at < table.length; at += WORDS) {
    const start = word(at);
    const body = start + FIXED_BYTES;
    const end = body + word(at + 1);
    const codes = word(at + 3);
    events.push({
      kind: EVENT_KINDS[codes & 255] as EventKind,
      profile: PROFILES[codes >> 8] as Profile,
      organisation: organisations[word(at + 4)] as string,
      eventId: bytes.subarray(start, start + ID_BYTES),
      runId: bytes.subarray(start + ID_BYTES, start + 2 * ID_BYTES),
      parentId: bytes.subarray(start + 2 * ID_BYTES, start + 3 * ID_BYTES),
      salted: bytes.subarray(body - SALT_BYTES, end),
      line: firstLine + word(at + 5),
      lineText: word(at + 2) === 0 ? bytes.subarray(body, end) : bytes.subarray(end, end + word(at + 2)),
    });
  }
  return events;
}
