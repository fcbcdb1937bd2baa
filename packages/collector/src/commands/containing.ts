/**
 * Finds runs whose inputs or outputs contain certain words. The catalogue has no payloads, so the log is
 * read.
 */
import type { EventKind } from '@clinical-events/protocol';
import type { CatalogueRun, RunFilter } from '../catalogue/catalogue.js';
import { counted } from '../quantity.js';
import { windowsOf } from '../records/record-windows.js';
import type { Words, WordSearch } from '../records/words.js';
import type { ReadEvents } from '../store/contract/events.js';
import type { RunReading } from './catalogue.js';

/** The member that is searched, by kind. */
const SAID: Partial<Readonly<Record<EventKind, string>>> = {
  'inference-start': 'inputs',
  'human-output': 'output',
};

export class Containing {
  #searched = 0;
  #erased = 0;
  #encrypted = 0;

  constructor(
    private readonly words: Words,
    private readonly source: Pick<RunReading, 'catalogue' | 'log' | 'signal' | 'bar'>,
  ) {}

  /** Number of runs read. */
  get searched(): number {
    return this.#searched;
  }

  /** The runs that match the filter and contain all the words, in the filter's order. Reads lazily. */
  async *among(filter: RunFilter): AsyncGenerator<CatalogueRun> {
    const { catalogue, log, signal, bar } = this.source;
    const of = catalogue.count(filter);
    for (const window of windowsOf(placed(catalogue.runs(filter)))) {
      signal.throwIfAborted();
      const read = await log.read(window.flatMap(({ places }) => places));
      let index = 0;
      for (const { run, places } of window) {
        const search = this.words.search();
        for (const { kind } of places) this.#look(search, read, index++, SAID[kind] ?? '');
        this.#searched++;
        if (search.isFound) yield run;
      }
      bar.show(this.#searched, of);
    }
  }

  #look(search: WordSearch, read: ReadEvents, index: number, member: string): void {
    const text = read.body(index);
    if (text === undefined) {
      if (read.facts(index).payloadState === 'erased') this.#erased++;
      else this.#encrypted++;
      return;
    }
    if (search.isFound || !search.mayBeIn(text)) return;
    search.look((JSON.parse(text) as Readonly<Record<string, unknown>>)[member]);
  }

  /** How many runs were searched, and which payloads could not be read. */
  remarks(): string[] {
    const unread = [
      ...(this.#erased > 0 ? [`${this.#erased} erased`] : []),
      ...(this.#encrypted > 0 ? [`${this.#encrypted} encrypted with a missing key`] : []),
    ];
    const payloads = counted(this.#erased + this.#encrypted, 'payload');
    return [
      `${counted(this.#searched, 'run')} searched`,
      ...(unread.length === 0 ? [] : [`warning: ${payloads} could not be read: ${unread.join(', ')}`]),
    ];
  }
}

function* placed(runs: Iterable<CatalogueRun>) {
  for (const run of runs) yield { run, places: run.events().filter(({ kind }) => SAID[kind] !== undefined) };
}
