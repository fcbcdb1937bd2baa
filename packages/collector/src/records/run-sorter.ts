/**
 * Puts the entries of one number together by run: what run-groups.ts says in its point 2. Numbers can be shared among
 * threads: what the settings are and what it comes to can be posted.
 */
import path from 'node:path';
import type { Place } from '../store/event-log.js';
import type { EventPlaces } from '../store/event-places.js';
import { inCanonicalOrder } from './canonical-order.js';
import { EntryList } from './entry-list.js';
import { entriesFile } from './log-pass.js';
import { putRuns } from './parent-runs.js';
import { windowsOf } from './record-windows.js';
import {
  ENTRY_BYTES,
  entryAddress,
  entryFlags,
  entryOrganisation,
  entrySize,
  FLAG,
  idBytes,
  isUnderId,
  setFlag,
  setOrganisation,
  writeEntry,
} from './run-entry.js';
import { runEvent } from './run-event.js';
import { RunTable } from './run-table.js';
import { SpillFile, takeEntries } from './spill-file.js';

export interface SortSettings {
  readonly scratch: string;
  readonly bufferBytes: number;
  /** For each part, which organisations its numbers mean. */
  readonly numbers: readonly Uint16Array[];
  readonly organisations: readonly string[];
  /** Only the records of this id are wanted; all when undefined. */
  readonly recordId: string | undefined;
}

/** What some numbers come to. The runs are in their files then. */
export interface SortedNumbers {
  /** How many records are wanted, how many events they have, and how many bytes these take in the log. */
  records: number;
  events: number;
  bytes: number;
  /**
   * Runs with a start that names a parent, and the events that the first start of each names, or the runs that these are
   * of (parent-runs.ts), in the same order.
   */
  readonly runs: Uint8Array;
  readonly parents: Uint8Array;
}

/** Where the runs of a number are, in the order of their first events. */
export function runsFile(scratch: string, file: number): string {
  return path.join(scratch, `runs-${file}`);
}

/** Where starts are read, and their parents found. */
export type RunLog = Pick<EventPlaces, 'readNow' | 'findPassed' | 'findingOrder'>;

export class RunSorter {
  readonly #log: RunLog;
  readonly #settings: SortSettings;
  readonly #wanted: Buffer | undefined;
  readonly #runs = new EntryList();
  readonly #parents = new EntryList();
  #records = 0;
  #events = 0;
  #bytes = 0;

  constructor(log: RunLog, settings: SortSettings) {
    this.#log = log;
    this.#settings = settings;
    this.#wanted = settings.recordId === undefined ? undefined : idBytes(settings.recordId);
  }

  /** @returns what all numbers come to that were sorted. */
  finish(): SortedNumbers {
    putRuns(this.#parents.entries, this.#settings.organisations, this.#log);
    return {
      records: this.#records,
      events: this.#events,
      bytes: this.#bytes,
      runs: this.#runs.entries,
      parents: this.#parents.entries,
    };
  }

  sort(file: number): void {
    const { scratch, bufferBytes } = this.#settings;
    const entries = this.#entries(file);
    const table = new RunTable(entries);
    this.#noteNested(entries, table);
    const sorted = new SpillFile(runsFile(scratch, file), bufferBytes);
    for (let run = 0; run < table.runs; run++) {
      if (!this.#isWanted(entries, table, run)) continue;
      setFlag(entries, table.first(run), FLAG.first);
      this.#records++;
      for (let at = table.first(run); at >= 0; at = table.after(at)) {
        this.#events++;
        this.#bytes += entrySize(entries, at);
        sorted.append(entries, at);
      }
    }
    sorted.close();
  }

  /** All entries of one number, those of the parts one after the other. */
  #entries(file: number): Buffer {
    const { scratch, numbers } = this.#settings;
    return Buffer.concat(
      numbers.map((own, part) => renumbered(takeEntries(entriesFile(scratch, part, file)), own)),
    );
  }

  #isWanted(entries: Buffer, table: RunTable, run: number): boolean {
    const flags = table.flags(run);
    if ((flags & FLAG.after) === 0 || (flags & FLAG.within) === 0) return false;
    return this.#wanted === undefined || isUnderId(entries, table.first(run), this.#wanted);
  }

  /** Notes for each run with a start that names a parent, what its first start names. */
  #noteNested(entries: Buffer, table: RunTable): void {
    const nested: { first: number; places: Place[] }[] = [];
    for (let run = 0; run < table.runs; run++) {
      if ((table.flags(run) & FLAG.nestedStart) === 0) continue;
      const places: Place[] = [];
      const first = table.first(run);
      for (let at = first; at >= 0; at = table.after(at)) {
        if ((entryFlags(entries, at) & FLAG.start) === 0) continue;
        places.push({ at: entryAddress(entries, at), size: entrySize(entries, at) });
      }
      nested.push({ first, places });
    }
    for (const window of windowsOf(nested)) {
      const read = this.#log.readNow(window.flatMap(({ places }) => places));
      let index = 0;
      for (const { first, places } of window) {
        const starts = places.map(() => runEvent(read.facts(index), read.body(index++)));
        const parentId = inCanonicalOrder(starts)[0]?.parentId ?? null;
        if (parentId !== null) this.#noteParent(entries, first, idBytes(parentId));
      }
    }
  }

  #noteParent(entries: Buffer, first: number, parentId: Buffer): void {
    this.#runs.append(entries, first);
    const place = { address: 0, size: 0, organisation: entryOrganisation(entries, first), flags: 0 };
    const parent = this.#parents.next();
    writeEntry(this.#parents.target, parent, parentId, 0, place);
  }
}

/** The organisations of a part by the numbers that all parts have. */
export function renumbered(entries: Buffer, numbers: Uint16Array): Buffer {
  for (let at = 0; at < entries.length; at += ENTRY_BYTES) {
    setOrganisation(entries, at, numbers[entryOrganisation(entries, at)] ?? 0);
  }
  return entries;
}
