/** How runs are put together: what run-groups.ts says in its points 1 and 2. */
import { setImmediate as breath } from 'node:timers/promises';
import type { EventPlaces, LogPart } from '../store/event-places.js';
import { EventRecords } from './event-records.js';
import { entriesFile, LogPass, type PassedPart, type PassSettings, type RunSelection } from './log-pass.js';
import { Membership, RunlessEvents } from './membership.js';
import { NestedRuns } from './nesting.js';
import {
  ENTRY_BYTES,
  entryFlags,
  entryOrganisation,
  FLAG,
  HASH_SEED,
  ID_BYTES,
  idBytes,
  idHash,
  isSameRecord,
  isUnderId,
  setFlag,
} from './run-entry.js';
import {
  renumbered,
  runsFile,
  RunSorter,
  type RunLog,
  type SortedNumbers,
  type SortSettings,
} from './run-sorter.js';
import { SpillFile } from './spill-file.js';

export interface GroupingOptions {
  /** An empty directory for temporary files, which the caller removes. */
  readonly scratch: string;
  readonly signal?: AbortSignal | undefined;
  /** Is told how many of the log's bytes have been passed. */
  readonly onPassed?: (bytes: number) => void;
  /** Where parts of the log can be passed beside the last one. */
  readonly elsewhere?: GroupElsewhere | undefined;
  /** Bytes of log to a temporary file; tests make it small. */
  readonly bytesPerFile?: number;
}

/** Threads that pass a part each, and sort some numbers each. */
export interface GroupElsewhere {
  readonly threads: number;
  /** @param onPassed is told which part has been passed up to which address. */
  pass(
    parts: readonly LogPart[],
    settings: PassSettings,
    onPassed: (part: number, address: number) => void,
  ): Promise<PassedPart>[];
  /** @param shares some numbers for each thread. */
  sort(shares: readonly (readonly number[])[], settings: SortSettings): Promise<SortedNumbers>[];
}

const BYTES_PER_FILE = 256 << 20;
const MOST_FILES = 256;
/** For the buffers of all files together. */
const BUFFER_BYTES = 16 << 20;
const LARGEST_BUFFER = 256 << 10;
/** More would not fit into an entry. */
const MOST_ORGANISATIONS = 1 << 16;

export class GroupMaker {
  /** The files of the runs. */
  readonly sorted: string[] = [];
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

  constructor(log: EventPlaces, selection: RunSelection, options: GroupingOptions) {
    this.#log = log;
    this.#options = options;
    const { bytesPerFile = BYTES_PER_FILE, scratch } = options;
    const files = Math.min(MOST_FILES, Math.max(1, Math.ceil(log.extent / bytesPerFile)));
    const share = Math.min(LARGEST_BUFFER, Math.floor(BUFFER_BYTES / files));
    const bufferBytes = share - (share % ENTRY_BYTES);
    this.#settings = { selection, scratch, files, bufferBytes, seed: HASH_SEED };
  }

  /** For each file. */
  get bufferBytes(): number {
    return this.#settings.bufferBytes;
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
      const entries = renumbered(bufferOf(runless[list]), numbers);
      for (let at = 0; at < entries.length; at += ENTRY_BYTES) this.#runless?.[list].append(entries, at);
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

  /** Finds the records of those events that name no run, and notes them as if they were a part of the log. */
  placeRunless(): EventRecords {
    const runless = this.#runless ?? new RunlessEvents();
    this.#runless = undefined;
    const membership = new Membership(
      runless,
      (organisation, ids, at) =>
        this.#log.findPassed(this.#organisations[organisation] ?? '', ids, at)?.runId,
    );
    this.#noteRunless(runless.events.entries, membership.records);
    return new EventRecords(this.#log, this.#organisations, membership);
  }

  #noteRunless(events: Buffer, records: Buffer): void {
    const { scratch, files: count, selection, seed } = this.#settings;
    const part = this.#numbers.push(Uint16Array.from(this.#organisations, (_, number) => number)) - 1;
    const files = Array.from(
      { length: count },
      (_, file) => new SpillFile(entriesFile(scratch, part, file), ENTRY_BYTES << 6),
    );
    const wanted = selection.recordId === undefined ? undefined : idBytes(selection.recordId);
    for (let at = 0; at < events.length; at += ENTRY_BYTES) {
      if (wanted !== undefined && !isUnderId(records, at, wanted)) continue;
      const file = files[idHash(records, at, seed) % count];
      if (file === undefined) continue;
      const place = file.next();
      events.copy(file.target, place, at, at + ENTRY_BYTES);
      records.copy(file.target, place, at, at + ID_BYTES);
      setFlag(file.target, place, entryFlags(records, at));
    }
    for (const file of files) file.close();
  }

  /** Puts the entries of each number together by run: some elsewhere, if the caller can, and the others here. */
  async sort(records: EventRecords): Promise<void> {
    const { scratch, files, bufferBytes, selection } = this.#settings;
    const { elsewhere, signal } = this.#options;
    const settings = {
      scratch,
      bufferBytes,
      numbers: this.#numbers,
      organisations: this.#organisations,
      recordId: selection.recordId,
    };
    const threads = 1 + (elsewhere?.threads ?? 0);
    const shares: number[][] = Array.from({ length: threads }, () => []);
    for (let file = 0; file < files; file++) shares[file % threads]?.push(file);
    const [own = [], ...theirs] = shares;
    const others =
      elsewhere?.sort(
        theirs.filter(({ length }) => length > 0),
        settings,
      ) ?? [];
    const all = [...others, sortShare(this.#log, own, settings, signal)];
    const ended = await Promise.allSettled(all);
    for (const share of ended) {
      if (share.status === 'rejected') throw share.reason;
      this.#addSorted(share.value, records);
    }
    for (let file = 0; file < files; file++) this.sorted.push(runsFile(scratch, file));
  }

  #addSorted({ records, events, bytes, ...nested }: SortedNumbers, eventRecords: EventRecords): void {
    this.records += records;
    this.events += events;
    this.bytes += bytes;
    const runs = bufferOf(nested.runs);
    const parents = bufferOf(nested.parents);
    for (let at = 0; at < runs.length; at += ENTRY_BYTES) {
      const isRun = (entryFlags(parents, at) & FLAG.ofRun) !== 0;
      const parent = isRun
        ? parents.subarray(at, at + ENTRY_BYTES)
        : eventRecords.of(entryOrganisation(parents, at), parents.subarray(at, at + ID_BYTES));
      // A start that expands on an event of its own run is nested in nothing.
      if (parent !== undefined && !isSameRecord(runs, at, parent, 0)) this.nested.add(runs, at, parent);
    }
  }
}

/** Sorts some numbers. */
export async function sortShare(
  log: RunLog,
  files: readonly number[],
  settings: SortSettings,
  signal?: AbortSignal,
): Promise<SortedNumbers> {
  const sorter = new RunSorter(log, settings);
  for (const file of files) {
    sorter.sort(file);
    await breath();
    signal?.throwIfAborted();
  }
  return sorter.finish();
}

function bufferOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length);
}
