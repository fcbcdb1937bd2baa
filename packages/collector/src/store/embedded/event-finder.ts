/**
 * Finds entries by organisation and id.
 *
 * The id index says where to look. It is derived, so it may be missing, behind (a running collector holds the newest
 * part in its memory), damaged, or that of another copy of this ledger. What it says is believed only where the log
 * agrees. What it does not cover is passed and noted in memory, in about 22 bytes an event: of a running collector its
 * newest ones, of a directory whose index is lost all.
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

/** The log as its reader has it. */
interface Frames extends Pick<EventLog, 'pass'> {
  /** The frame at an address, checked; undefined when none begins there that can be read. */
  frameAt(address: number): Buffer | undefined;
}

export class EventFinder {
  /** Undefined before the first time. */
  #index: IdIndexReader | undefined;
  /** The log up to here is looked for in the index. */
  #coveredTo = 0;
  /** Behind what is in the tables. */
  #noted: Cursor = BEGINNING;
  #tables: RecentTable[] = [];
  readonly #found: number[] = [];

  constructor(
    private readonly dataDirectory: string,
    private readonly log: Frames,
  ) {}

  /** Behind the last entry that has been noted, or that the index covers. */
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
    // Any directory without runs will do where there is none.
    const otherwise = path.join(this.dataDirectory, 'ledger');
    // Each page is checked when it is read: to check all of them now takes as long as a thousand look-ups.
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

  /** @returns undefined when the newest event of a run of the index is not where the run says. */
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
        // The event is most likely just here: reading the log will name the damage, or show that there is none.
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

  /** All is read from the log from here on. */
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

  /** Notes what came since the last time and is before a sequence. */
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
