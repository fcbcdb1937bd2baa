/**
 * What the grouping of runs by temporary files asks of the log, on top of the reader. Goes away with it (event-places.ts).
 */
import path from 'node:path';
import type { AskedEvents, EventPlaces, LogPart } from '../event-places.js';
import { ID_BYTES, type FoundEvent, type PassedEntry, type Place, type ReadEvents } from '../event-log.js';
import { exists, type Files } from '../../files.js';
import { frameEventId, frameOrganisation, frameRunId, frameSequence } from './frame.js';
import { PassedFrames } from './frame-views.js';
import { IdIndexError } from './id-index/id-index-error.js';
import { IdIndexReader } from './id-index/id-index-reader.js';
import { RecentTable } from './id-index/recent-table.js';
import { LogReader } from './log-reader.js';
import type { Segment } from './segment.js';

const TABLE_SLOTS = 1 << 18;

/** What one that has passed a log tells another that reads in it. */
export interface PlacesShare {
  /** Only what is before it is found, and of that perhaps not all. That the index is the log's has been seen to. */
  readonly coveredTo: number;
  /** What is before it was passed whole, and nobody writes there any more: its checksums are not looked at once more. */
  readonly checkedTo: number;
}

export class LogPlaces extends LogReader implements EventPlaces {
  readonly #listed: readonly Segment[];
  readonly #index: IdIndexReader;
  /** The log up to here is in the index. */
  readonly #coveredTo: number;
  readonly #checkedTo: number;
  /** The events behind that. */
  readonly #newer: RecentTable[] = [];
  readonly #found: number[] = [];

  constructor(dataDirectory: string, files: Files, share?: PlacesShare) {
    super(dataDirectory, files);
    const ledger = path.join(dataDirectory, 'ledger');
    // Before the segments are looked at: an index only grows, and would speak of events that came since.
    this.#index = IdIndexReader.read({
      directory: share?.coveredTo === 0 ? ledger : indexDirectory(dataDirectory, ledger),
      verify: share === undefined,
    });
    this.#listed = this.segments();
    this.#coveredTo = share?.coveredTo ?? (this.#agreesWithLog() ? this.#index.coveredTo : 0);
    this.#checkedTo = share?.checkedTo ?? 0;
  }

  /** For a thread beside another, which tells it what it knows. Not for passing the last part. */
  static beside(dataDirectory: string, files: Files, share: PlacesShare): LogPlaces {
    return new LogPlaces(dataDirectory, files, share);
  }

  /** For a thread beside this one. */
  get share(): PlacesShare {
    return { coveredTo: this.#coveredTo, checkedTo: this.#listed.at(-1)?.base ?? 0 };
  }

  parts(most: number): LogPart[] {
    // A part is some segments; what the index does not cover is noted by who passes the last.
    const froms = [0];
    for (const { base } of this.#listed) {
      if (base > this.#coveredTo || froms.length >= most) break;
      if (base >= (froms.length * this.extent) / most) froms.push(base);
    }
    return froms.map((from, i) => ({ from, to: froms[i + 1] ?? Infinity }));
  }

  *passPart({ from, to }: LogPart = { from: 0, to: Infinity }): Generator<PassedEntry, number> {
    const first = this.#listed.find(({ base }) => base >= from)?.firstSequence ?? 1;
    const blocks = this.blocks({ sequence: first, at: 0 });
    const passed = new PassedFrames();
    try {
      for (;;) {
        const next = blocks.next();
        if (next.done) return next.value.sequence;
        const { buffer, offsets, address } = next.value;
        if (address >= to) return frameSequence(buffer, offsets[0] ?? 0);
        for (const entry of passed.of(next.value)) {
          if (entry.isOwn) continue;
          if (entry.at >= this.#coveredTo) this.#note(entry);
          yield entry;
        }
      }
    } finally {
      // Closes the file that it was in.
      blocks.return(ABANDONED);
    }
  }

  override readNow(places: readonly Place[]): ReadEvents {
    return super.readNow(places, (at) => at < this.#checkedTo);
  }

  findPassed(organisation: string, ids: Buffer, at: number): FoundEvent | undefined {
    const count = this.#candidates(organisation, ids, at);
    for (let i = 0; i < count; i++) {
      const address = this.#found[i] ?? 0;
      const frame = this.frameAt(address);
      if (frame === undefined) throw new Error('the id index is damaged: see collector doctor');
      const isIt = ids.compare(frameEventId(frame, 0), 0, ID_BYTES, at, at + ID_BYTES) === 0;
      if (!isIt || frameOrganisation(frame, 0) !== organisation) continue;
      return {
        ...{ at: address, size: frame.length },
        ...{ sequence: frameSequence(frame, 0), runId: frameRunId(frame, 0) },
      };
    }
    return undefined;
  }

  findingOrder(asked: AskedEvents): Uint32Array {
    const { count, ids } = asked;
    const index = this.#index;
    const order = new Uint32Array(count);
    // The fingerprint, by which pages of the index are ordered, and behind it the number.
    for (let from = 0; from < count; from += ORDERED_AT_ONCE) {
      const keys = new Float64Array(Math.min(ORDERED_AT_ONCE, count - from));
      for (let i = 0; i < keys.length; i++) {
        index.fingerprint(asked.organisation(from + i), ids, asked.at(from + i));
        keys[i] = index.hi * ORDERED_AT_ONCE + i;
      }
      keys.sort();
      for (const [i, key] of keys.entries()) order[from + i] = from + (key % ORDERED_AT_ONCE);
    }
    return order;
  }

  override async close(): Promise<void> {
    await super.close();
    await this.#index.close();
  }

  /** @returns how many there are in `#found`. */
  #candidates(organisation: string, ids: Buffer, at: number): number {
    const index = this.#index;
    index.fingerprint(organisation, ids, at);
    const { hi, lo } = index;
    let count = 0;
    try {
      const indexed = this.#coveredTo > 0 ? index.find(hi, lo, this.#found) : 0;
      for (let i = 0; i < indexed; i++) {
        const address = this.#found[i] ?? 0;
        if (address < this.#coveredTo) this.#found[count++] = address;
      }
    } catch (error) {
      if (!(error instanceof IdIndexError)) throw error;
      throw new Error('the id index is damaged: see collector doctor', { cause: error });
    }
    for (const table of this.#newer) count = table.find(hi, lo, this.#found, count);
    return count;
  }

  #note(passed: PassedEntry): void {
    const index = this.#index;
    index.fingerprint(passed.organisation, passed.source, passed.eventIdAt);
    let table = this.#newer.at(-1);
    if (table === undefined || table.count >= table.limit) {
      table = new RecentTable(TABLE_SLOTS << Math.min(this.#newer.length, 4));
      this.#newer.push(table);
    }
    table.add(index.hi, index.lo, passed.at);
  }

  /** Whether the newest event of each run of the index stands in the log where the run says, and ends where the index does (event-finder.ts). */
  #agreesWithLog(): boolean {
    let to = 0;
    for (const { hi, lo, address } of this.#index.newestOfRuns()) {
      const frame = this.frameAt(address);
      if (frame === undefined) return false;
      this.#index.fingerprint(frameOrganisation(frame, 0), frameEventId(frame, 0), 0);
      if (this.#index.hi !== hi || this.#index.lo !== lo) return false;
      to = address + frame.length;
    }
    return to === this.#index.coveredTo;
  }
}

/** With 32 bits before it, it is a whole number that a double holds. */
const ORDERED_AT_ONCE = 1 << 20;
const ABANDONED = { sequence: 0, at: 0 };

/** Where there is no index, any directory without runs will do. */
function indexDirectory(dataDirectory: string, otherwise: string): string {
  const directory = path.join(dataDirectory, 'index');
  return exists(directory) ? directory : otherwise;
}
