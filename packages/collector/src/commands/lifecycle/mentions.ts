/**
 * Events in which ids of a person stand, whomever they are about: each payload is opened and looked through. That is done
 * on as many threads as there are cores, each with a stretch of the log.
 */
import os from 'node:os';
import { Worker } from 'node:worker_threads';
import { SequenceSet } from '../../privacy/sequence-set.js';
import { type EventLog, ID_BYTES } from '../../store/contract/events.js';
import { isNoId, uuidText } from '../../store/text.js';
import type { CatalogueAccess } from '../catalogue.js';
import { revived } from '../records/record-threads.js';
import { runOf, type SelectedEvent } from './selection.js';

/** A thread takes a quarter of a second to start, in which another looks through so many events. */
const LEAST_OF_A_THREAD = 16_384;
const MOST_THREADS = 4;

/** What is looked for, and from where to where. */
export interface Search {
  readonly ids: readonly string[];
  /** As SequenceSet.toText has it: events that are passed over. */
  readonly selected: string;
  readonly from: number;
  readonly through: number;
}

/** What a thread is started with. */
export type SearchSettings = Search & { readonly dataDir: string };

/** How many bytes of the log were looked through since the last time; at the end, what was found. */
export type SearchAnswer = { readonly bytes: number } | { readonly found: readonly Mention[] };

type Mention = Omit<SelectedEvent, 'run'> & { readonly recordId: string };

export interface MentionsOptions {
  readonly ids: readonly string[];
  /** Events that are passed over. */
  readonly selected: SequenceSet;
  readonly signal: AbortSignal;
  /** Called with how many bytes of the log were looked through. */
  readonly onProgress: (bytes: number) => void;
}

/**
 * Events in which an id stands: as a string or a number of their JSON, or in a text of it with no letter, digit, - or _ on
 * either side.
 * @throws what the signal is aborted with; StoreDamaged.
 */
export async function mentions(
  access: CatalogueAccess,
  dataDir: string,
  { ids, selected, signal, onProgress }: MentionsOptions,
): Promise<SelectedEvent[]> {
  const last = (await access.log.end()).sequence - 1;
  const worth = Math.max(1, Math.floor(last / LEAST_OF_A_THREAD));
  const most = Math.min(MOST_THREADS, os.availableParallelism(), worth);
  const ends = Array.from({ length: most }, (_, i) => Math.floor((last * (i + 1)) / most));
  const [own, ...others] = ends.map((through, i) => ({
    ...{ ids, selected: selected.toText(), from: (ends[i - 1] ?? 0) + 1, through },
  }));
  let done = 0;
  const progress = (bytes: number) => onProgress((done += bytes));
  const threads = others.map((search) => new SearchThread({ ...search, dataDir }, progress));
  const stop = () => threads.forEach((thread) => thread.stop());
  signal.addEventListener('abort', stop, { once: true });
  try {
    const found = await Promise.all([
      own === undefined ? [] : mentionsIn(access.log, own, progress, signal),
      ...threads.map((thread) => thread.found),
    ]);
    return await access.ask(async (catalogue) => {
      const events: SelectedEvent[] = [];
      for (const { recordId, ...event } of found.flat()) {
        const run = await runOf(catalogue, access.log, event.organisation, recordId);
        events.push({ ...event, run });
      }
      return events;
    });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener('abort', stop);
    stop();
  }
}

/** The same in a stretch of the log, on this thread. */
export async function mentionsIn(
  log: Pick<EventLog, 'pass'>,
  { ids, selected, from, through }: Search,
  onProgress: (bytes: number) => void,
  signal?: AbortSignal,
): Promise<Mention[]> {
  const needles = new Needles(ids);
  const passedOver = SequenceSet.fromText(selected) ?? SequenceSet.EMPTY;
  const found: Mention[] = [];
  for await (const batch of log.pass({ sequence: from, at: 0 }, { through })) {
    signal?.throwIfAborted();
    let bytes = 0;
    for (const entry of batch) {
      bytes += entry.size;
      if (entry.isOwn || passedOver.has(entry.sequence)) continue;
      const body = entry.body();
      if (body === undefined || !needles.areIn(body)) continue;
      const { at, size, sequence, kind, organisation, receivedAt, source, eventIdAt, runIdAt } = entry;
      const runId = source.subarray(runIdAt, runIdAt + ID_BYTES);
      const recordId = isNoId(runId)
        ? uuidText(source.subarray(eventIdAt, eventIdAt + ID_BYTES))
        : uuidText(runId);
      found.push({ at, size, sequence, kind, organisation, receivedAt, recordId });
    }
    onProgress(bytes);
  }
  return found;
}

class SearchThread {
  readonly found: Promise<readonly Mention[]>;
  readonly #worker: Worker;

  constructor(settings: SearchSettings, onProgress: (bytes: number) => void) {
    this.#worker = new Worker(new URL('mention-thread.js', import.meta.url), { workerData: settings });
    this.found = new Promise((resolve, reject) => {
      this.#worker.on('message', (answer: SearchAnswer) => {
        if ('found' in answer) resolve(answer.found);
        else onProgress(answer.bytes);
      });
      this.#worker.on('error', (error: Error) => reject(revived(error)));
      this.#worker.on('exit', () => reject(new Error('a thread that looks for ids has ended')));
    });
    // It is awaited together with the others.
    this.found.catch(() => undefined);
  }

  stop(): void {
    this.#worker.terminate().catch(() => undefined);
  }
}

/** Ids that are looked for in bodies. */
class Needles {
  readonly #ids: readonly string[];
  /** One of these is in a body that an id stands in: the id itself, or an escape that may hide a character of it. */
  readonly #likely: readonly Buffer[];
  readonly #standing: RegExp;

  constructor(ids: readonly string[]) {
    this.#ids = ids;
    // Escapes that JSON.stringify does not write, and others may (RFC 8259, section 7).
    const escapes = ['\\u', ...(ids.some((id) => id.includes('/')) ? ['\\/'] : [])];
    const needles = ids.map((id) => JSON.stringify(id).slice(1, -1));
    this.#likely = [...needles, ...escapes].map((each) => Buffer.from(each));
    const any = ids.map((id) => id.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)).join('|');
    this.#standing = new RegExp(String.raw`(?<![\p{L}\p{N}_\-])(?:${any})(?![\p{L}\p{N}_\-])`, 'u');
  }

  areIn(body: Buffer): boolean {
    return this.#likely.some((each) => body.includes(each)) && this.#standIn(JSON.parse(body.toString()));
  }

  #standIn(value: unknown): boolean {
    if (typeof value === 'string') return this.#standing.test(value);
    if (typeof value === 'number') return this.#ids.includes(String(value));
    if (typeof value !== 'object' || value === null) return false;
    return Object.entries(value).some(([name, each]) => this.#standing.test(name) || this.#standIn(each));
  }
}
