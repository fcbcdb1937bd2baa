/** How runs are put together: what run-groups.ts says in its points 1 and 2. */
import path from 'node:path';
import { setImmediate as breath } from 'node:timers/promises';
import type { EventPlace, EventPlaces, LogPart } from '../store/event-places.js';
import { inCanonicalOrder } from './canonical-order.js';
import {
  entriesFile,
  LogPass,
  type AsideEvent,
  type PassedPart,
  type PassSettings,
  type RunSelection,
} from './log-pass.js';
import { placeRunless, type RecordKey } from './membership.js';
import { Nesting, type RunStart } from './nesting.js';
import { windowsOf } from './record-windows.js';
import {
  ENTRY_BYTES,
  entryAddress,
  entryFlags,
  entryId,
  entryOrganisation,
  entrySize,
  FLAG,
  HASH_SEED,
  idBytes,
  idHash,
  setFlag,
  setOrganisation,
  writeEntry,
  type RunEntry,
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
  readonly #log: EventPlaces;
  readonly #options: GroupingOptions;
  readonly #settings: PassSettings;
  readonly #organisations: string[] = [];
  readonly #numberByName = new Map<string, number>();
  /** For each part, which organisations its numbers mean. */
  readonly #numbers: Uint16Array[] = [];
  readonly #aside: AsideEvent[][] = [];
  /** By organisation, the records of the events that name no run. */
  readonly #placed: ReadonlyMap<string, RecordKey>[] = [];
  readonly #starts: RunStart[][] = [];
  readonly #late: SpillFile[];

  constructor(log: EventPlaces, selection: RunSelection, options: GroupingOptions) {
    this.#log = log;
    this.#options = options;
    const { bytesPerFile = BYTES_PER_FILE, scratch } = options;
    const files = Math.min(MOST_FILES, Math.max(1, Math.ceil(log.bytes / bytesPerFile)));
    const share = Math.min(LARGEST_BUFFER, Math.floor(BUFFER_BYTES / files));
    const bufferBytes = share - (share % ENTRY_BYTES);
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

  #addPart({ organisations, aside, nextSequence }: PassedPart): void {
    const numbers = Uint16Array.from(organisations, (name) => this.#numberOf(name));
    this.#numbers.push(numbers);
    for (const [number, those] of aside.entries()) {
      const organisation = numbers[number] ?? 0;
      for (const event of those)
        (this.#aside[organisation] ??= []).push({ ...event, place: { ...event.place, organisation } });
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
  placeRunless(): void {
    const { recordId } = this.#settings.selection;
    for (const [number, organisation] of this.#organisations.entries()) {
      const aside = this.#aside[number] ?? [];
      const placed = placeRunless(aside, (eventId) => this.#log.find(organisation, eventId)?.runId);
      this.#placed.push(placed);
      for (const { eventId, place } of aside) {
        const key = placed.get(eventId) ?? `event:${eventId}`;
        const [kind = '', id = ''] = key.split(':');
        if (kind === 'event') place.flags |= FLAG.runless;
        if (recordId === undefined || recordId === id) this.#noteLate(idBytes(id), place);
      }
    }
    this.#aside.length = 0;
  }

  #noteLate(id: Buffer, place: RunEntry): void {
    const file = this.#late[idHash(id, 0) % this.#late.length];
    if (file !== undefined) writeEntry(file.target, file.next(), id, 0, place);
  }

  /** All entries of one number, those of the parts one after the other, and what names no run behind them. */
  #entries(file: number): Buffer {
    const parts = this.#numbers.map((numbers, part) => {
      const entries = takeEntries(entriesFile(this.#settings.scratch, part, file));
      for (let at = 0; at < entries.length; at += ENTRY_BYTES) {
        setOrganisation(entries, at, numbers[entryOrganisation(entries, at)] ?? 0);
      }
      return entries;
    });
    const late = this.#late[file];
    if (late === undefined) return Buffer.concat(parts);
    parts.push(late.readAll());
    late.remove();
    return Buffer.concat(parts);
  }

  /** Puts the entries of each file together by run. */
  async sort(): Promise<void> {
    const { scratch, files, bufferBytes } = this.#settings;
    for (let file = 0; file < files; file++) {
      const entries = this.#entries(file);
      const table = new RunTable(entries);
      this.#noteNested(entries, table);
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
    const { recordId } = this.#settings.selection;
    return recordId === undefined || entryId(entries, table.first(run)) === recordId;
  }

  /** Notes for each run with a start that names a parent, what its first start names. */
  #noteNested(entries: Buffer, table: RunTable): void {
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
        this.#noteStart(entries, first, inCanonicalOrder(starts)[0]?.parentId ?? null);
      }
    }
  }

  #noteStart(entries: Buffer, at: number, parentEventId: string | null): void {
    if (parentEventId === null) return;
    const starts = (this.#starts[entryOrganisation(entries, at)] ??= []);
    starts.push({ runId: entryId(entries, at), parentEventId });
  }

  nestings(): Map<string, Nesting> {
    const nestings = new Map<string, Nesting>();
    for (const [number, organisation] of this.#organisations.entries()) {
      const placed = this.#placed[number];
      const recordOf = (eventId: string): RecordKey | undefined => {
        const found = this.#log.find(organisation, eventId);
        if (found === undefined) return undefined;
        return found.runId === undefined ? placed?.get(eventId) : `run:${found.runId}`;
      };
      nestings.set(organisation, new Nesting(this.#starts[number] ?? [], recordOf));
    }
    this.#starts.length = 0;
    return nestings;
  }
}
