/** How runs are put together: what run-groups.ts says in its points 1 and 2. */
import path from 'node:path';
import { setImmediate as breath } from 'node:timers/promises';
import type { EventPlace, EventPlaces, LogPart } from '../store/event-places.js';
import { inCanonicalOrder } from './canonical-order.js';
import { entriesFile, LogPass, type PassedPart, type PassSettings, type RunSelection } from './log-pass.js';
import { EventRecords } from './event-records.js';
import { Membership, RunlessEvents } from './membership.js';
import { NestedRuns } from './nesting.js';
import { windowsOf } from './record-windows.js';
import {
  ENTRY_BYTES,
  entryAddress,
  entryFlags,
  entryOrganisation,
  entrySize,
  FLAG,
  HASH_SEED,
  ID_BYTES,
  idBytes,
  idHash,
  isSameRecord,
  setFlag,
  setOrganisation,
} from './run-entry.js';
import { runEvent } from './run-event.js';
import { RunTable } from './run-table.js';
import { SpillFile, takeEntries } from './spill-file.js';

export interface GroupingOptions {
  /** An empty directory for temporary files, which the caller removes. */
  readonly scratch: string;
  readonly signal?: AbortSignal | undefined;
  /** Is told how many of the log's bytes have been passed. */
  readonly onPassed?: (bytes: number) => void;
  /** Where parts of the log can be passed beside the last one. */
  readonly elsewhere?: PassElsewhere | undefined;
  /** Bytes of log to a temporary file; tests make it small. */
  readonly bytesPerFile?: number;
}

/** Threads that pass a part each. */
export interface PassElsewhere {
  readonly threads: number;
  /** @param onPassed is told which part has been passed up to which address. */
  pass(
    parts: readonly LogPart[],
    settings: PassSettings,
    onPassed: (part: number, address: number) => void,
  ): Promise<PassedPart>[];
}

const BYTES_PER_FILE = 256 << 20;
const MOST_FILES = 256;
/** For the buffers of all files together. */
const BUFFER_BYTES = 16 << 20;
const LARGEST_BUFFER = 256 << 10;
/** More would not fit into an entry. */
const MOST_ORGANISATIONS = 1 << 16;

export class GroupMaker {
  readonly sorted: SpillFile[] = [];
  nextSequence = 1;
  records = 0;
  events = 0;
  bytes = 0;
  readonly nested = new NestedRuns();
  readonly #log: EventPlaces;
  readonly #options: GroupingOptions;
  readonly #settings: PassSettings;
  readonly #organisations: string[] = [];
  readonly #numberByName = new Map<string, number>();
  /** For each part, which organisations its numbers mean. */
  readonly #numbers: Uint16Array[] = [];
  /** Undefined from when they are placed. */
  #runless: RunlessEvents | undefined = new RunlessEvents();
  readonly #late: SpillFile[];
  readonly #wanted: Buffer | undefined;

  constructor(log: EventPlaces, selection: RunSelection, options: GroupingOptions) {
    this.#log = log;
    this.#options = options;
    const { bytesPerFile = BYTES_PER_FILE, scratch } = options;
    const files = Math.min(MOST_FILES, Math.max(1, Math.ceil(log.bytes / bytesPerFile)));
    const share = Math.min(LARGEST_BUFFER, Math.floor(BUFFER_BYTES / files));
    const bufferBytes = share - (share % ENTRY_BYTES);
    this.#wanted = selection.recordId === undefined ? undefined : idBytes(selection.recordId);
    this.#settings = { selection, scratch, files, bufferBytes, seed: HASH_SEED };
    this.#late = Array.from(
      { length: files },
      (_, file) => new SpillFile(path.join(scratch, `late-${file}`), ENTRY_BYTES << 6),
    );
  }

  get organisations(): readonly string[] {
    return this.#organisations;
  }

  /** Has other parts of the log passed elsewhere, if the caller can, and passes the last one here. */
  async pass(): Promise<void> {
    const { elsewhere, signal, onPassed } = this.#options;
    const parts = this.#log.parts(1 + (elsewhere?.threads ?? 0));
    const own = parts.length - 1;
    const passed = parts.map(() => 0);
    const tell = (part: number, address: number) => {
      passed[part] = address - (parts[part]?.from ?? 0);
      onPassed?.(passed.reduce((sum, bytes) => sum + bytes, 0));
    };
    const others = elsewhere?.pass(parts.slice(0, own), this.#settings, tell) ?? [];
    const pass = new LogPass(own, this.#settings);
    const all = [...others, pass.run(this.#log, parts[own], (address) => tell(own, address), signal)];
    // Of two places that are damaged the first is told of.
    const ended = await Promise.allSettled(all);
    for (const part of ended) {
      if (part.status === 'rejected') throw part.reason;
      this.#addPart(part.value);
    }
  }

  #addPart({ organisations, runless, nextSequence }: PassedPart): void {
    const numbers = Uint16Array.from(organisations, (name) => this.#numberOf(name));
    this.#numbers.push(numbers);
    for (const list of ['events', 'parents'] as const) {
      const { buffer, byteOffset, length } = runless[list];
      const entries = renumbered(Buffer.from(buffer, byteOffset, length), numbers);
      for (let at = 0; at < length; at += ENTRY_BYTES) this.#runless?.[list].append(entries, at);
    }
    this.nextSequence = nextSequence;
  }

  #numberOf(organisation: string): number {
    let number = this.#numberByName.get(organisation);
    if (number === undefined) {
      number = this.#organisations.push(organisation) - 1;
      if (number >= MOST_ORGANISATIONS) throw new RangeError('more than 65536 organisations');
      this.#numberByName.set(organisation, number);
    }
    return number;
  }

  /** Finds the records of those events that name no run, and notes them there. */
  placeRunless(): EventRecords {
    const runless = this.#runless ?? new RunlessEvents();
    this.#runless = undefined;
    const membership = new Membership(
      runless,
      (organisation, ids, at) => this.#log.find(this.#organisations[organisation] ?? '', ids, at)?.runId,
    );
    const { records } = membership;
    const events = runless.events.entries;
    for (let at = 0; at < events.length; at += ENTRY_BYTES) {
      if (!this.#isAskedFor(records, at)) continue;
      // In the files of its record, with what its record is.
      const file = this.#late[idHash(records, at) % this.#late.length];
      if (file === undefined) continue;
      const place = file.next();
      events.copy(file.target, place, at, at + ENTRY_BYTES);
      records.copy(file.target, place, at, at + ID_BYTES);
      setFlag(file.target, place, entryFlags(records, at));
    }
    return new EventRecords(this.#log, this.#organisations, membership);
  }

  /** All entries of one number, those of the parts one after the other, and what names no run behind them. */
  #entries(file: number): Buffer {
    const parts = this.#numbers.map((numbers, part) => {
      return renumbered(takeEntries(entriesFile(this.#settings.scratch, part, file)), numbers);
    });
    const late = this.#late[file];
    if (late === undefined) return Buffer.concat(parts);
    parts.push(late.readAll());
    late.remove();
    return Buffer.concat(parts);
  }

  /** Puts the entries of each file together by run. */
  async sort(records: EventRecords): Promise<void> {
    const { scratch, files, bufferBytes } = this.#settings;
    for (let file = 0; file < files; file++) {
      const entries = this.#entries(file);
      const table = new RunTable(entries);
      this.#noteNested(entries, table, records);
      const sorted = new SpillFile(path.join(scratch, `runs-${file}`), bufferBytes);
      this.sorted.push(sorted);
      for (let run = 0; run < table.runs; run++) {
        if (!this.#isWanted(entries, table, run)) continue;
        setFlag(entries, table.first(run), FLAG.first);
        this.records++;
        for (let at = table.first(run); at >= 0; at = table.after(at)) {
          this.events++;
          this.bytes += entrySize(entries, at);
          sorted.append(entries, at);
        }
      }
      await breath();
      this.#options.signal?.throwIfAborted();
    }
  }

  #isWanted(entries: Buffer, table: RunTable, run: number): boolean {
    const flags = table.flags(run);
    if ((flags & FLAG.after) === 0 || (flags & FLAG.within) === 0) return false;
    return this.#isAskedFor(entries, table.first(run));
  }

  #isAskedFor(records: Buffer, at: number): boolean {
    return this.#wanted === undefined || records.compare(this.#wanted, 0, ID_BYTES, at, at + ID_BYTES) === 0;
  }

  /** Notes for each run with a start that names a parent, what its first start names. */
  #noteNested(entries: Buffer, table: RunTable, records: EventRecords): void {
    const nested: { first: number; places: EventPlace[] }[] = [];
    for (let run = 0; run < table.runs; run++) {
      if ((table.flags(run) & FLAG.nestedStart) === 0) continue;
      const places: EventPlace[] = [];
      const first = table.first(run);
      for (let at = first; at >= 0; at = table.after(at)) {
        if ((entryFlags(entries, at) & FLAG.start) === 0) continue;
        places.push({ address: entryAddress(entries, at), size: entrySize(entries, at) });
      }
      nested.push({ first, places });
    }
    for (const window of windowsOf(nested)) {
      const read = this.#log.read(window.flatMap(({ places }) => places));
      let index = 0;
      for (const { first, places } of window) {
        const starts = places.map(() => runEvent(read.facts(index), read.body(index++)));
        const parentId = inCanonicalOrder(starts)[0]?.parentId ?? null;
        const organisation = entryOrganisation(entries, first);
        const parent = parentId === null ? undefined : records.of(organisation, idBytes(parentId));
        // A start that expands on an event of its own run is nested in nothing.
        if (parent === undefined || isSameRecord(entries, first, parent, 0)) continue;
        this.nested.add(entries, first, parent);
      }
    }
  }
}

/** The organisations of a part by the numbers that all parts have. */
function renumbered(entries: Buffer, numbers: Uint16Array): Buffer {
  for (let at = 0; at < entries.length; at += ENTRY_BYTES) {
    setOrganisation(entries, at, numbers[entryOrganisation(entries, at)] ?? 0);
  }
  return entries;
}
