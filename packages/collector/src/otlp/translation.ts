/**
 * The main thread's end of the thread that makes events of the bodies of requests (translating-thread.ts). It asks for
 * some events at a time, so that a request of any size takes no more memory than its body and a few hundred events.
 */
import { Worker } from 'node:worker_threads';
import type { EventKind } from '@clinical-events/protocol';
import type { Encoding as Coding } from '../ingest/request.js';
import type { Log } from '../ingest/refusal-log.js';
import { systemCode } from '../system-code.js';
import type { Encoding, Signal } from './decoded.js';
import type {
  FromThread,
  Summary,
  ThreadData,
  ToThread,
  TranslatingThreadData,
  TranslationFault,
} from './thread-messages.js';

/** What is made of the body of a request. */
export interface Task {
  readonly signal: Signal;
  readonly encoding: Encoding;
  readonly coding: Coding;
  readonly body: Buffer;
  readonly keyId: string;
  /** Of the key: ids are made of it. */
  readonly organisation: string;
}

/** Some events, in the order of the request. */
export interface MadeEvents {
  readonly kinds: readonly EventKind[];
  readonly bodies: readonly Buffer[];
  /** Of which span or log record each is, counted from 0. */
  readonly items: readonly number[];
}

interface Handlers {
  readonly made: (events: MadeEvents) => void;
  /** Nothing more is made. */
  readonly done: (summary: Summary) => void;
  readonly failed: (fault: TranslationFault) => void;
}

export interface Translation {
  /** To be called once for each `made` after which more can be taken. */
  readonly more: () => void;
  /** Nothing is called any more. */
  readonly cancel: () => void;
}

const TOO_MUCH = 'The request needs too much memory to be read: send fewer spans in a request.';

export class Translator {
  readonly #open = new Map<number, Handlers>();
  #worker: Worker | undefined;
  /** Of this thread: which request it reads (ThreadData). */
  #reading: Float64Array = new Float64Array(1);
  #last = 0;
  #stopping = false;

  /** @param data what the thread maps by. */
  constructor(
    private readonly data: TranslatingThreadData,
    private readonly log: Log,
  ) {
    this.#worker = this.#start();
  }

  translate({ body, ...task }: Task, handlers: Handlers): Translation {
    const id = ++this.#last;
    this.#open.set(id, handlers);
    this.#worker ??= this.#start();
    // A view of memory that others use too is copied, as that of all empty bodies is; most have theirs for themselves.
    const own = body.length > 0 && body.byteOffset === 0 && body.length === body.buffer.byteLength;
    const bytes = own ? body : Buffer.from(new Uint8Array(body).buffer);
    this.#send({ type: 'begin', id, ...task, body: bytes.buffer as ArrayBuffer }, [
      bytes.buffer as ArrayBuffer,
    ]);
    return {
      more: () => this.#send({ type: 'more', id }),
      cancel: () => {
        if (this.#forget(id) !== undefined) this.#send({ type: 'cancel', id });
      },
    };
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#worker?.terminate();
  }

  #start(): Worker {
    this.#reading = new Float64Array(new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT));
    const worker = new Worker(new URL('./translating-thread.js', import.meta.url), {
      workerData: { ...this.data, reading: this.#reading } satisfies ThreadData,
      // What is decoded at a time is bounded far below this (translating-thread.ts, decoding/fault.ts). Beyond it V8 ends
      // the thread where it can, and the process within JSON.parse.
      // What is decoded lives shortly: with a young generation of this size little of it is moved.
      resourceLimits: { maxOldGenerationSizeMb: 2048, maxYoungGenerationSizeMb: 192 },
    });
    worker.on('message', (message: FromThread) => this.#hear(message));
    worker.on('error', (error) => this.#lost(worker, error));
    worker.unref();
    return worker;
  }

  #hear(message: FromThread): void {
    const handlers = this.#open.get(message.id);
    if (handlers === undefined) return;
    if (message.type === 'made') {
      const { kinds, items, lengths, bytes } = message;
      handlers.made({ kinds, items: Array.from(items), bodies: cut(bytes, lengths) });
      return;
    }
    this.#forget(message.id);
    if (message.type === 'done') handlers.done(message.summary);
    else handlers.failed(message.fault);
  }

  #forget(id: number): Handlers | undefined {
    const handlers = this.#open.get(id);
    this.#open.delete(id);
    return handlers;
  }

  /** The thread has ended. The request that it was reading is refused for good: it would end the next one too. */
  #lost(worker: Worker, error: unknown): void {
    if (this.#stopping || this.#worker !== worker) return;
    this.#worker = undefined;
    const isMemory = systemCode(error) === 'ERR_WORKER_OUT_OF_MEMORY';
    const [reading] = this.#reading;
    if (isMemory) this.log.warn({}, 'a request of OTLP needed too much memory to be read, and was refused');
    else {
      // Its message may have words of a body.
      const { name: reason, stack = '' } = error instanceof Error ? error : new Error();
      const [, where] = /\n +at (.*)/.exec(stack) ?? [];
      this.log.error(
        { reason, where },
        'the thread that reads requests of OTLP has failed; another one is started',
      );
    }
    const guilty: TranslationFault = isMemory
      ? { code: 'body_too_large', message: TOO_MUCH }
      : { code: 'internal' };
    for (const id of [...this.#open.keys()])
      this.#forget(id)?.failed(id === reading ? guilty : { code: 'overloaded' });
  }

  #send(message: ToThread, transfer: ArrayBuffer[] = []): void {
    this.#worker?.postMessage(message, transfer);
  }
}

function cut(bytes: ArrayBuffer, lengths: Uint32Array): Buffer[] {
  let at = 0;
  return Array.from(lengths, (length) => {
    at += length;
    return Buffer.from(bytes, at - length, length);
  });
}
