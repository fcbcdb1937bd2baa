/** Decompresses, decodes and maps the bodies of requests of OTLP, on a thread of its own: this is where bodies are read. */
import { parentPort, workerData } from 'node:worker_threads';
import type { EventKind } from '@clinical-events/protocol';
import { decompress } from '../ingest/request.js';
import { decodeLogs, decodeSpans } from './decoding/decode.js';
import { DecodingFault } from './decoding/fault.js';
import { eventsOfLog, eventsOfSpan, type Mapped } from './mapping/mapping.js';
import type { FromThread, ToThread, TranslatingThreadData, TranslationFault } from './thread-messages.js';

/** Events that are made at a time: at least one. */
const MOST_EVENTS = 256;
const MOST_BYTES = 512 << 10;

const CODES = {
  malformed: 'validation_failed',
  too_deep: 'nesting_too_deep',
  too_many: 'body_too_large',
} as const;

const data = workerData as TranslatingThreadData;
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
    /** What it counts for, in bytes. */
    readonly bytes: number,
    mapped: Iterator<Mapped>,
  ) {
    this.#mapped = mapped;
  }

  /** The next events, or that there are no more. */
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
        const reason = value.reason ?? 'nothing_to_say';
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
/** Not decoded yet: what is decoded takes many times the memory. */
const waiting: Begin[] = [];
const open = new Map<number, Translating>();
let openBytes = 0;

port.on('message', (message: ToThread) => {
  if (message.type === 'begin') waiting.push(message);
  else if (message.type === 'more') give(message.id);
  else cancel(message.id);
  beginWaiting();
});

function cancel(id: number): void {
  const at = waiting.findIndex((each) => each.id === id);
  if (at >= 0) waiting.splice(at, 1);
  close(id);
}

/** Begins those that wait, as long as what is decoded is together no more than one request may have. */
function beginWaiting(): void {
  for (let first = waiting[0]; first !== undefined; first = waiting[0]) {
    const { id } = first;
    const body = plain(first);
    if (!Buffer.isBuffer(body)) {
      waiting.shift();
      port?.postMessage({ type: 'failed', id, fault: body } satisfies FromThread);
      continue;
    }
    if (openBytes > 0 && openBytes + body.length > data.maxBodyBytes) {
      // It is decompressed by now, and not once more.
      waiting[0] = { ...first, coding: 'identity', body: exact(body) };
      return;
    }
    waiting.shift();
    begin(first, body);
  }
}

function begin({ id, signal, encoding, organisation }: Begin, body: Buffer): void {
  try {
    const options = { ...data, organisation };
    const mapped =
      signal === 'traces'
        ? each(decodeSpans(body, encoding), (span) => eventsOfSpan(span, options))
        : each(decodeLogs(body, encoding), (log) => eventsOfLog(log, options));
    open.set(id, new Translating(id, body.length, mapped));
    openBytes += body.length;
    give(id);
  } catch (error) {
    if (!(error instanceof DecodingFault)) throw error;
    const fault: TranslationFault = { code: CODES[error.code], message: error.message };
    port?.postMessage({ type: 'failed', id, fault } satisfies FromThread);
  }
}

function* each<Item>(items: Iterable<Item>, map: (item: Item) => Mapped): Generator<Mapped, undefined> {
  for (const item of items) yield map(item);
}

function give(id: number): void {
  const made = open.get(id)?.next();
  if (made === undefined) return;
  if (made.type !== 'made') close(id);
  port?.postMessage(made, made.type === 'made' ? [made.bytes] : []);
}

function close(id: number): void {
  openBytes -= open.get(id)?.bytes ?? 0;
  open.delete(id);
}

function plain({ coding, body }: Begin): Buffer | TranslationFault {
  const bytes = Buffer.from(body);
  const made = coding === 'identity' ? bytes : decompress(coding, bytes, data.maxBodyBytes);
  return typeof made === 'string' ? { code: made } : made;
}

function exact(body: Buffer): ArrayBuffer {
  return body.buffer.slice(body.byteOffset, body.byteOffset + body.length) as ArrayBuffer;
}
