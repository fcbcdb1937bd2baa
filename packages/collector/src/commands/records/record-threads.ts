/**
 * Threads that make records, one per core: reading, scanning and encoding are nearly all of the work. Pieces
 * come back in the order of the records.
 */
import os from 'node:os';
import { setImmediate as breath } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { PlacedRecord, RunFilter } from '../../catalogue/catalogue.js';
import { FORMATS } from '../../records/exports/formats.js';
import { StoreDamaged } from '../../store/contract/events.js';
import type {
  Job,
  Linked,
  PlacedPiece,
  Question,
  ThreadAnswer,
  ThreadMessage,
  ThreadSettings,
} from './job.js';
import { runOfEvent, type RecordSource } from '../catalogue.js';

/** Records per job, and bytes of log per job unless the format needs more; they bound memory. */
const JOB_RECORDS = 16_384;
const JOB_BYTES = 4 << 20;
const MOST_THREADS = 4;
/**
 * Size of the young generation: large enough that the garbage of one window dies in it without being copied.
 */
const YOUNG_MEBIBYTES = 96;

export interface Made {
  readonly pieces: readonly PlacedPiece[];
  /** Sequence of the first event of the last record. */
  readonly sequence: number;
}

/** A full job. */
interface Filled {
  readonly job: Job;
  readonly sequence: number;
}

export class RecordThreads {
  readonly #threads: RecordThread[] = [];

  constructor(
    private readonly settings: ThreadSettings,
    private readonly source: RecordSource,
  ) {}

  /**
   * The pieces of all records, in order.
   * @throws the error of a thread, such as StoreDamaged.
   */
  async *pieces(filter: RunFilter, signal: AbortSignal): AsyncGenerator<Made> {
    const most = Math.min(MOST_THREADS, os.availableParallelism());
    const waiting: Promise<Made>[] = [];
    let turn = 0;
    for await (const { job, sequence } of this.#jobs(filter, signal)) {
      // A job takes about as long as starting a thread.
      const thread = (this.#threads[turn % most] ??= new RecordThread(this.settings, this.source));
      turn++;
      waiting.push(thread.make(job).then((pieces) => ({ pieces, sequence })));
      waiting.at(-1)?.catch(() => undefined);
      // Each thread has a current and a next job.
      while (waiting.length >= 2 * most) yield await first(waiting, signal);
    }
    while (waiting.length > 0) yield await first(waiting, signal);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.stop()));
  }

  async *#jobs(filter: RunFilter, signal: AbortSignal): AsyncGenerator<Filled> {
    const mostBytes = FORMATS[this.settings.format]?.jobBytes ?? JOB_BYTES;
    let filling = new FillingJob();
    for (const page of this.source.catalogue.placed(filter)) {
      for (const record of page) {
        filling.add(record, this.#linksOf(record));
        if (filling.records < JOB_RECORDS && filling.logBytes < mostBytes) continue;
        yield filling.done();
        filling = new FillingJob();
      }
      await breath();
      signal.throwIfAborted();
    }
    if (filling.records > 0) yield filling.done();
  }

  #linksOf(record: PlacedRecord): Linked | undefined {
    const { parent, hasChildren, isInCircle } = record;
    if (parent === undefined && !hasChildren && !isInCircle) return undefined;
    const { catalogue } = this.source;
    return {
      parent,
      children: hasChildren ? catalogue.children(record) : [],
      cycle: isInCircle ? catalogue.cycle(record) : [],
    };
  }
}

class FillingJob {
  readonly #places: number[] = [];
  readonly #ends: number[] = [];
  readonly #links = new Map<number, Linked>();
  #sequence = 0;
  logBytes = 0;

  get records(): number {
    return this.#ends.length;
  }

  add(record: PlacedRecord, links: Linked | undefined): void {
    if (links !== undefined) this.#links.set(this.records, links);
    for (const { at, size } of record.places()) {
      this.#places.push(at, size);
      this.logBytes += size;
    }
    this.#ends.push(this.#places.length);
    this.#sequence = record.firstSequence;
  }

  done(): Filled {
    const places = Float64Array.from(this.#places);
    return { job: { places, ends: this.#ends, links: this.#links }, sequence: this.#sequence };
  }
}

async function first(waiting: Promise<Made>[], signal: AbortSignal): Promise<Made> {
  const made = await waiting.shift();
  if (made === undefined) throw new RangeError('nothing is under way');
  signal.throwIfAborted();
  return made;
}

/** A thread that receives its next job before the current one is done. */
class RecordThread {
  readonly #worker: Worker;
  /** Callers waiting, in the order of the jobs. */
  readonly #waiting: PromiseWithResolvers<readonly PlacedPiece[]>[] = [];
  #failure: Error | undefined;
  #answered: Promise<void> = Promise.resolve();

  constructor(
    settings: ThreadSettings,
    private readonly source: RecordSource,
  ) {
    const resourceLimits = { maxYoungGenerationSizeMb: YOUNG_MEBIBYTES };
    this.#worker = new Worker(new URL('record-thread.js', import.meta.url), {
      ...{ workerData: settings, resourceLimits },
    });
    this.#worker.on('message', (message: ThreadAnswer) => {
      if ('pieces' in message) this.#waiting.shift()?.resolve(message.pieces);
      else this.#answer(message.questions);
    });
    this.#worker.on('error', (error: Error) => this.#fail(revived(error)));
    this.#worker.on('exit', () => this.#fail(new Error('a thread that reads the log has ended')));
  }

  /** Rejects with the error that ended the thread, such as StoreDamaged. */
  make(job: Job): Promise<readonly PlacedPiece[]> {
    const made = Promise.withResolvers<readonly PlacedPiece[]>();
    if (this.#failure !== undefined) made.reject(this.#failure);
    else {
      this.#waiting.push(made);
      this.#worker.postMessage({ job } satisfies ThreadMessage, [job.places.buffer]);
    }
    return made.promise;
  }

  async stop(): Promise<void> {
    await this.#worker.terminate();
  }

  /** Answers are sent in the order of the questions. */
  #answer(questions: readonly Question[]): void {
    this.#answered = this.#answered.then(async () => {
      const runs: (string | null | undefined)[] = [];
      for (const { organisation, eventId } of questions)
        runs.push(await runOfEvent(this.source, organisation, eventId));
      this.#worker.postMessage({ runs } satisfies ThreadMessage);
    });
    this.#answered.catch((error: unknown) =>
      this.#fail(error instanceof Error ? error : new Error(String(error))),
    );
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    for (const { reject } of this.#waiting.splice(0)) reject(this.#failure);
  }
}

/** Restores the class of an error, which is lost between threads. */
function revived(error: Error): Error {
  if (error.name !== 'StoreDamaged' || !('place' in error)) return error;
  return Object.assign(new StoreDamaged(error.place as StoreDamaged['place'], ''), {
    message: error.message,
  });
}
