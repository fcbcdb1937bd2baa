/**
 * Finds entries by organisation and id.
 *
 * The id index gives candidates, which are compared with the log. The index may be missing, behind the log (a
 * running collector keeps the newest part in memory), damaged, or belong to another copy. Entries that it
 * does not cover are read and kept in tables in memory, about 22 bytes each.
 */
import path from 'node:path';
import { BEGINNING, type Cursor, type EventLog, type FoundEvent } from '../contract/events.js';
import { exists } from '../../files.js';
import { frameEventId, frameOrganisation, frameRunId, frameSequence } from './frame.js';
import { IdIndexError } from './id-index/sorted-run-format.js';
import { IdIndexReader } from './id-index/sorted-runs.js';
import { numberAt } from './log-frames.js';
import { RecentTable } from './id-index/sorted-run.js';

const TABLE_SLOTS = 1 << 18;

/** A log, as its reader provides it. */
interface Frames extends Pick<EventLog, 'pass'> {
  /** The valid frame at an address; undefined if there is none. */
  frameAt(address: number): Buffer | undefined;
}

export class EventFinder {
  /** The index; undefined before the first search. */
  #index: IdIndexReader | undefined;
  /** End of the part of the log that is searched in the index. */
  #coveredTo = 0;
  /** End of the part that is in the tables. */
  #noted: Cursor = BEGINNING;
  #tables: RecentTable[] = [];
  readonly #found: number[] = [];

  constructor(
    private readonly dataDirectory: string,
    private readonly log: Frames,
  ) {}

  /** The sequence after the last entry in the tables or the index. */
  get nextSequence(): number {
    return this.#noted.sequence;
  }

  async find(organisation: string, id: Uint8Array, before = Infinity): Promise<FoundEvent | undefined> {
    const index = this.#opened();
    index.fingerprint(organisation, id, 0);
    const { hi, lo } = index;
    const indexed = this.#findIndexed(index, organisation, id);
    const known = indexed ?? this.#findNoted(hi, lo, organisation, id);
    if (known !== undefined || this.#noted.sequence >= before) return known;
    await this.#note(index, before);
    return this.#findNoted(hi, lo, organisation, id);
  }

  async close(): Promise<void> {
    await this.#index?.close();
    this.#index = undefined;
  }

  #opened(): IdIndexReader {
    if (this.#index !== undefined) return this.#index;
    const directory = path.join(this.dataDirectory, 'index');
    // If there is no index, any directory without runs will do.
    const otherwise = path.join(this.dataDirectory, 'ledger');
    // Each page is checked when it is read; checking all of them takes as long as a thousand look-ups.
    const index = IdIndexReader.read({
      directory: exists(directory) ? directory : otherwise,
      verify: false,
    });
    const covered = this.#coveredBy(index);
    this.#coveredTo = covered?.at ?? 0;
    this.#noted = covered ?? BEGINNING;
    this.#tables = [];
    return (this.#index = index);
  }

  /** The end of the index; undefined if the newest event of a run is not at its address in the log. */
  #coveredBy(index: IdIndexReader): Cursor | undefined {
    let covered = BEGINNING;
    for (const { hi, lo, address } of index.newestOfRuns()) {
      const frame = this.log.frameAt(address);
      if (frame === undefined) return undefined;
      index.fingerprint(frameOrganisation(frame, 0), frameEventId(frame, 0), 0);
      if (index.hi !== hi || index.lo !== lo) return undefined;
      covered = { sequence: frameSequence(frame, 0) + 1, at: address + frame.length };
    }
    return covered.at === index.coveredTo ? covered : undefined;
  }

  #findIndexed(index: IdIndexReader, organisation: string, id: Uint8Array): FoundEvent | undefined {
    if (this.#coveredTo === 0) return undefined;
    try {
      const count = index.find(index.hi, index.lo, this.#found);
      for (let i = 0; i < count; i++) {
        const address = numberAt(this.#found, i);
        if (address >= this.#coveredTo) continue;
        const frame = this.log.frameAt(address);
        // The event is most likely here: reading the whole log reports the damage, or finds none.
        if (frame === undefined) {
          this.#forgetIndex();
          return undefined;
        }
        const found = foundIn(frame, address, organisation, id);
        if (found !== undefined) return found;
      }
      return undefined;
    } catch (error) {
      if (!(error instanceof IdIndexError)) throw error;
      this.#forgetIndex();
      return undefined;
    }
  }

  /** Stops using the index: everything is read from the log. */
  #forgetIndex(): void {
    this.#coveredTo = 0;
    this.#noted = BEGINNING;
    this.#tables = [];
  }

  #findNoted(hi: number, lo: number, organisation: string, id: Uint8Array): FoundEvent | undefined {
    let count = 0;
    for (const table of this.#tables) count = table.find(hi, lo, this.#found, count);
    for (let i = 0; i < count; i++) {
      const address = numberAt(this.#found, i);
      const frame = this.log.frameAt(address);
      const found = frame && foundIn(frame, address, organisation, id);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Adds new entries before a sequence to the tables. */
  async #note(index: IdIndexReader, before: number): Promise<void> {
    const pass = this.log.pass(this.#noted, before === Infinity ? {} : { through: before - 1 });
    for (;;) {
      const next = await pass.next();
      if (next.done) {
        this.#noted = next.value;
        return;
      }
      for (const { organisation, source, eventIdAt, sequence, at } of next.value) {
        index.fingerprint(organisation, source, eventIdAt);
        this.#tableWithRoom().add(index.hi, index.lo, at);
        this.#noted = { sequence: sequence + 1, at };
      }
    }
  }

  #tableWithRoom(): RecentTable {
    const last = this.#tables.at(-1);
    if (last !== undefined && last.count < last.limit) return last;
    const table = new RecentTable(TABLE_SLOTS << Math.min(this.#tables.length, 4));
    this.#tables.push(table);
    return table;
  }
}

function foundIn(frame: Buffer, at: number, organisation: string, id: Uint8Array): FoundEvent | undefined {
  if (!frameEventId(frame, 0).equals(id) || frameOrganisation(frame, 0) !== organisation) return undefined;
  return { at, size: frame.length, sequence: frameSequence(frame, 0), runId: frameRunId(frame, 0) };
}
