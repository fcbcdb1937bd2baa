/** The thread that decompresses, decodes and maps the bodies of OTLP requests. */
import { parentPort, workerData } from 'node:worker_threads';
import type { EventKind } from '@clinical-events/protocol';
import { decompress } from '../ingest/request.js';
import { decodeLogs, decodeSpans } from './decoding/decode.js';
import { DecodingFault, MOST_ITEMS } from './decoding/fault.js';
import { eventsOfLog, eventsOfSpan, type Mapped } from './mapping/mapping.js';
import type { FromThread, ThreadData, ToThread, TranslationFault } from './thread-messages.js';

/** Number of events that are made at a time, at least one. */
const MOST_EVENTS = 256;
const MOST_BYTES = 512 << 10;

const CODES = {
  malformed: 'validation_failed',
  too_deep: 'nesting_too_deep',
  too_many: 'body_too_large',
} as const;

/** Maximum heap for decoded requests, and the estimates per byte of a body, per span and per event. */
const MOST_DECODED_BYTES = 768 << 20;
const BYTES_OF_BYTE = 8;
const BYTES_OF_ITEM = 600;

const data = workerData as ThreadData;
const port = parentPort;
if (port === null) throw new Error('this is the program of a thread');

/** A request whose body is decoded. */
class Translating {
  readonly #mapped: Iterator<Mapped>;
  readonly #ignored: Record<string, number> = {};
  #items = 0;
  #shortened = 0;

  constructor(
    readonly id: number,
    /** Its estimated memory in bytes. */
    readonly bytes: number,
    mapped: Iterator<Mapped>,
  ) {
    this.#mapped = mapped;
  }

  /** The next events, or the end. */
  next(): FromThread {
    const kinds: EventKind[] = [];
    const items: number[] = [];
    const bodies: Buffer[] = [];
    let bytes = 0;
    let isOver = false;
    while (kinds.length < MOST_EVENTS && bytes < MOST_BYTES) {
      const { value, done } = this.#mapped.next() as IteratorResult<Mapped, undefined>;
      if (done) {
        isOver = true;
        break;
      }
      const item = this.#items++;
      if (value.events.length === 0) {
        const { reason } = value;
        if (reason === undefined) throw new Error('a span or log record without events has no reason');
        this.#ignored[reason] = (this.#ignored[reason] ?? 0) + 1;
      }
      for (const { kind, body, isShortened } of value.events) {
        kinds.push(kind);
        items.push(item);
        bodies.push(body);
        bytes += body.length;
        if (isShortened) this.#shortened++;
      }
    }
    const { id } = this;
    if (isOver && kinds.length === 0)
      return {
        type: 'done',
        id,
        summary: { items: this.#items, ignored: this.#ignored, shortened: this.#shortened },
      };
    const joined = new Uint8Array(bytes);
    let at = 0;
    for (const body of bodies) {
      joined.set(body, at);
      at += body.length;
    }
    return {
      ...{ type: 'made', id, kinds, bytes: joined.buffer },
      items: Uint32Array.from(items),
      lengths: Uint32Array.from(bodies, ({ length }) => length),
    };
  }
}

type Begin = Extract<ToThread, { type: 'begin' }>;
interface Waiting extends Begin {
  /** Bytes of decoded requests when there was no room for it. */
  foundFullAt?: number;
}
/**
 * Requests to decode, by key, because decoding multiplies their memory. The key that was served last is at
 * the end.
 */
const waiting = new Map<string, Waiting[]>();
const open = new Map<number, Translating>();
let decodedBytes = 0;
let isScheduled = false;

port.on('message', (message: ToThread) => {
  if (message.type === 'begin') {
    const line = waiting.get(message.keyId);
    if (line === undefined) waiting.set(message.keyId, [message]);
    else line.push(message);
  } else if (message.type === 'more') give(message.id);
  else cancel(message.id);
  schedule();
});

function cancel(id: number): void {
  for (const [keyId, line] of waiting) {
    const at = line.findIndex((each) => each.id === id);
    if (at < 0) continue;
    line.splice(at, 1);
    if (line.length === 0) waiting.delete(keyId);
  }
  close(id);
}

/** Begins waiting requests one at a time, so that new requests do not delay open ones. */
function schedule(): void {
  if (isScheduled || waiting.size === 0) return;
  isScheduled = true;
  setImmediate(() => {
    isScheduled = false;
    if (beginNext()) schedule();
  });
}

/**
 * Begins the first request for which there is room: decoded requests are bounded, but a single one is always
 * allowed.
 * @returns whether another one may begin.
 */
function beginNext(): boolean {
  for (const [keyId, line] of waiting) {
    const [next] = line as [Waiting];
    // It is decompressed again only when there is more room than at the last attempt.
    if (open.size > 0 && decodedBytes >= (next.foundFullAt ?? Infinity)) continue;
    const body = plain(next);
    if (Buffer.isBuffer(body) && isFull(body.length)) {
      next.foundFullAt = decodedBytes;
      continue;
    }
    line.shift();
    waiting.delete(keyId);
    if (line.length > 0) waiting.set(keyId, line);
    if (Buffer.isBuffer(body)) begin(next, body);
    else port?.postMessage({ type: 'failed', id: next.id, fault: body } satisfies FromThread);
    return true;
  }
  return false;
}

function isFull(length: number): boolean {
  if (open.size === 0) return false;
  return decodedBytes + estimated(length, Math.min(length / 2, MOST_ITEMS)) > MOST_DECODED_BYTES;
}

function estimated(bytes: number, items: number): number {
  return bytes * BYTES_OF_BYTE + items * BYTES_OF_ITEM;
}

function begin({ id, signal, encoding, organisation }: Begin, body: Buffer): void {
  data.reading[0] = id;
  try {
    const options = { ...data, organisation };
    let mapped: Iterator<Mapped>;
    let items: number;
    if (signal === 'traces') {
      const spans = decodeSpans(body, encoding);
      items = spans.reduce((sum, { events }) => sum + 1 + events.length, 0);
      mapped = each(spans, (span) => eventsOfSpan(span, options));
    } else {
      const logs = decodeLogs(body, encoding);
      items = logs.length;
      mapped = each(logs, (log) => eventsOfLog(log, options));
    }
    const bytes = estimated(body.length, items);
    open.set(id, new Translating(id, bytes, mapped));
    decodedBytes += bytes;
    give(id);
  } catch (error) {
    if (!(error instanceof DecodingFault)) throw error;
    const fault: TranslationFault = { code: CODES[error.code], message: error.message };
    data.reading[0] = 0;
    port?.postMessage({ type: 'failed', id, fault } satisfies FromThread);
  }
}

function* each<Item>(items: Iterable<Item>, map: (item: Item) => Mapped): Generator<Mapped, undefined> {
  for (const item of items) yield map(item);
}

function give(id: number): void {
  data.reading[0] = id;
  const made = open.get(id)?.next();
  data.reading[0] = 0;
  if (made === undefined) return;
  if (made.type !== 'made') close(id);
  port?.postMessage(made, made.type === 'made' ? [made.bytes] : []);
}

function close(id: number): void {
  decodedBytes -= open.get(id)?.bytes ?? 0;
  open.delete(id);
}

function plain({ coding, body }: Begin): Buffer | TranslationFault {
  const bytes = Buffer.from(body);
  const made = coding === 'identity' ? bytes : decompress(coding, bytes, data.maxBodyBytes);
  return typeof made === 'string' ? { code: made } : made;
}
