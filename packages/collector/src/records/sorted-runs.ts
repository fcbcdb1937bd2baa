/** Runs out of several files that have them in the order of their first event: merged, they are in that order too. */
import type { Place } from '../store/event-log.js';
import { EntryList } from './entry-list.js';
import { ENTRY_BYTES, entryAddress, entryFlags, entrySize, FLAG } from './run-entry.js';
import { entriesOf } from './spill-file.js';

/** Runs as the entries of their events, one after the other; the first of each run has FLAG.first. */
export class RunList extends EntryList {
  runs = 0;
  /** How many bytes their events have in the log. */
  logBytes = 0;

  override append(source: Buffer, at: number): void {
    super.append(source, at);
    if ((entryFlags(source, at) & FLAG.first) !== 0) this.runs++;
    this.logBytes += entrySize(source, at);
  }
}

/** Where the events of each run are, in a list of entries. */
export function* runsIn(entries: Buffer): Generator<{ readonly at: number; readonly places: Place[] }> {
  for (let at = 0; at < entries.length;) {
    const first = at;
    const places: Place[] = [];
    do {
      places.push({ at: entryAddress(entries, at), size: entrySize(entries, at) });
      at += ENTRY_BYTES;
    } while (at < entries.length && (entryFlags(entries, at) & FLAG.first) === 0);
    yield { at: first, places };
  }
}

/** The runs of one sorted file. */
class SortedRuns {
  /** Of the first event of the next run; infinite when there is none. */
  address = Infinity;
  readonly #entries: ReturnType<typeof entriesOf>;
  #next: ReturnType<ReturnType<typeof entriesOf>['next']>;

  constructor(file: string, bufferBytes: number) {
    this.#entries = entriesOf(file, bufferBytes);
    this.#next = this.#entries.next();
    this.#look();
  }

  /** Appends the next run to the list. */
  take(list: RunList): void {
    let next = this.#next;
    while (!next.done) {
      list.append(next.value.source, next.value.at);
      next = this.#entries.next();
      if (!next.done && (entryFlags(next.value.source, next.value.at) & FLAG.first) !== 0) break;
    }
    this.#next = next;
    this.#look();
  }

  #look(): void {
    this.address = this.#next.done ? Infinity : entryAddress(this.#next.value.source, this.#next.value.at);
  }
}

/** The files by the first address of their next runs: a binary heap. */
export class MergedRuns {
  readonly #files: SortedRuns[];

  /** @param bufferBytes for each file, a multiple of ENTRY_BYTES. */
  constructor(files: readonly string[], bufferBytes: number) {
    this.#files = files.map((file) => new SortedRuns(file, bufferBytes));
    for (let i = (this.#files.length >> 1) - 1; i >= 0; i--) this.#sink(i);
  }

  /** Appends the next run to the list. @returns false when there was none. */
  take(list: RunList): boolean {
    const [least] = this.#files;
    if (least === undefined || least.address === Infinity) return false;
    least.take(list);
    this.#sink(0);
    return true;
  }

  #sink(from: number): void {
    const files = this.#files;
    for (let at = from; ;) {
      let least = at;
      for (let child = 2 * at + 1; child <= 2 * at + 2; child++) {
        if (addressOf(files[child]) < addressOf(files[least])) least = child;
      }
      if (least === at) return;
      const [a, b] = [files[at], files[least]];
      if (a === undefined || b === undefined) return;
      files[at] = b;
      files[least] = a;
      at = least;
    }
  }
}

function addressOf(file: SortedRuns | undefined): number {
  return file?.address ?? Infinity;
}
