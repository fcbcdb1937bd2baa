/**
 * The main thread's side of the thread that maps request bodies to events (translating-thread.ts). It asks
 * for some events at a time, so that a request of any size takes no more memory than its body and a few
 * hundred events.
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

/** Receives the results of one request body. */
export interface Task {
  readonly signal: Signal;
  readonly encoding: Encoding;
  readonly coding: Coding;
  readonly body: Buffer;
  readonly keyId: string;
  /** The organisation of the key; ids depend on it. */
  readonly organisation: string;
}

/** Some events, in the order of the request. */
export interface MadeEvents {
  readonly kinds: readonly EventKind[];
  readonly bodies: readonly Buffer[];
  /** For each event, the number of its span or log record, from 0. */
  readonly items: readonly number[];
}

interface Handlers {
  readonly made: (events: MadeEvents) => void;
  /** Called when no more events follow. */
  readonly done: (summary: Summary) => void;
  readonly failed: (fault: TranslationFault) => void;
}

export interface Translation {
  /** Asks for more events. Call it after each `made` when more can be accepted. */
  readonly more: () => void;
  /** Cancels the task: no callback is called any more. */
  readonly cancel: () => void;
}

const TOO_MUCH = 'Reading the request needs too much memory: send fewer spans per request.';

export class Translator {
  readonly #open = new Map<number, Handlers>();
  #worker: Worker | undefined;
  /** The request that the thread is reading (ThreadData). */
  #reading: Float64Array = new Float64Array(1);
  #last = 0;
  #stopping = false;

  /** @param data the settings of the mapping. */
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
    // A view of shared memory is copied, such as every empty body; most bodies own their memory.
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
      // Decoded requests are bounded far below this (translating-thread.ts, decoding/fault.ts). Beyond this
      // limit V8 ends the thread if possible; within JSON.parse it ends the process. Decoded values live
      // briefly: with a young generation of this size few are moved.
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

  /**
   * Handles the end of the thread. The request that it was reading is refused permanently: it would end the
   * next thread too.
   */
  #lost(worker: Worker, error: unknown): void {
    if (this.#stopping || this.#worker !== worker) return;
    this.#worker = undefined;
    const isMemory = systemCode(error) === 'ERR_WORKER_OUT_OF_MEMORY';
    const [reading] = this.#reading;
    if (isMemory) this.log.warn({}, 'an OTLP request needed too much memory to be read and was refused');
    else {
      // Its message may contain text of a body.
      const { name: reason, stack = '' } = error instanceof Error ? error : new Error();
      const [, where] = /\n +at (.*)/.exec(stack) ?? [];
      this.log.error({ reason, where }, 'the thread that reads OTLP requests has failed and is restarted');
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
