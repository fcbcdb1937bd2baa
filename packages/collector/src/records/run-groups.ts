/**
 * The events of a log by the record that they are part of, however large the log is.
 *
 * 1. One pass over the log notes each event in 32 bytes (run-entry.ts), in one of some temporary files, by the hash of
 *    its run; so a run is in one file. Events that name no run are kept aside, and noted once the pass has ended and
 *    their parents can be found (membership.ts).
 * 2. Each file in turn is read whole, its entries put together by run, and the runs that are asked for written to
 *    another file in the order of their first event. What is nested in what is noted on the way.
 * 3. Those files are merged: the runs come in the order of their first event in the log. So who reads their bodies
 *    goes through the log once more, mostly forward, and only late events are fetched from far ahead.
 *
 * Memory: one file's entries (a quarter of a gigabyte of log is some 10 MB of them), the buffers of the files, and
 * what has no bound but its number: some 400 bytes for each event that names no run and for each run that is nested in
 * another. The events of one run are in memory together, because a record is. The temporary files take at most 64
 * bytes an event, and hold ids and no payload.
 */
import path from 'node:path';
import { setImmediate as breath } from 'node:timers/promises';
import { ID_BYTES, type EventPlace, type EventPlaces, type PassedEvent } from '../store/event-places.js';
import { inCanonicalOrder } from './canonical-order.js';
import { placeRunless, type RecordKey, type RunlessEvent } from './membership.js';
import { Nesting, UNLINKED, type RunLinks, type RunStart } from './nesting.js';
import {
  ENTRY_BYTES,
  entryAddress,
  entryFlags,
  entryId,
  entryKey,
  entryOrganisation,
  entrySize,
  FLAG,
  setFlag,
  writeEntry,
  type RunEntry,
} from './run-entry.js';
import { runEventOf, type RunEvent } from './run-event.js';
import { SpillFile } from './spill-file.js';
import { statedParent } from './stated-parent.js';

/** Which records are wanted, as far as that can be told without making them. Every condition given must hold. */
export interface RunSelection {
  /** A run id, or the id that a record without a run is known by; lower case. */
  readonly recordId?: string;
  readonly organisation?: string;
  /** Only records that have an event with a higher sequence. */
  readonly after?: number;
  /** Only records that have an event received at this time or later, and before `until`. Milliseconds since 1970. */
  readonly since?: number;
  readonly until?: number;
}

/** Where the events of one record are. */
export interface RunPlaces {
  readonly organisation: string;
  readonly key: RecordKey;
  /** By address, at least one. */
  readonly places: readonly EventPlace[];
}

export interface GroupingOptions {
  /** An empty directory for temporary files, which the caller removes. */
  readonly scratch: string;
  readonly signal?: AbortSignal | undefined;
  /** Is told how many of the log's bytes have been passed. */
  readonly onPassed?: (bytes: number) => void;
  /** Bytes of log to a temporary file; tests make it small. */
  readonly bytesPerFile?: number;
}

const BYTES_PER_FILE = 256 << 20;
const MOST_FILES = 256;
/** For the buffers of all files together. */
const BUFFER_BYTES = 16 << 20;
const LARGEST_BUFFER = 256 << 10;
/** The event loop gets its turn so often, or nobody could stop this. */
const BREATH_MS = 50;
const BREATH_EVENTS = 2048;

interface AsideEvent extends RunlessEvent {
  readonly place: RunEntry;
}

export class RunGroups {
  /** The sequence behind the last event that was passed. */
  readonly nextSequence: number;
  /** How many records there are among those asked for. */
  readonly records: number;
  /** How many events they have, and how many bytes these take in the log. */
  readonly events: number;
  readonly bytes: number;
  readonly #sorted: readonly SpillFile[];
  readonly #organisations: readonly string[];
  readonly #nestings: ReadonlyMap<string, Nesting>;

  private constructor(made: GroupMaker) {
    this.nextSequence = made.nextSequence;
    this.records = made.records;
    this.events = made.events;
    this.bytes = made.bytes;
    this.#sorted = made.sorted;
    this.#organisations = made.organisations.names;
    this.#nestings = made.nestings();
  }

  /** @throws the signal's reason once it is aborted, at the latest after 50 milliseconds. */
  static async of(log: EventPlaces, selection: RunSelection, options: GroupingOptions): Promise<RunGroups> {
    const maker = new GroupMaker(log, selection, options);
    await maker.pass();
    maker.placeRunless();
    await maker.sort();
    return new RunGroups(maker);
  }

  /** The records asked for, by the address of their first event. Can be asked for once. */
  *runs(): Generator<RunPlaces> {
    const streams = this.#sorted.map((file) => new SortedRuns(file, this.#organisations));
    const heap = new RunHeap(streams.filter((stream) => stream.advance()));
    for (let stream = heap.least; stream !== undefined; stream = heap.least) {
      yield stream.run;
      heap.replaceLeast(stream.advance());
    }
    for (const file of this.#sorted) file.remove();
  }

  /** What the record has to know of the rest of the log. */
  linksOf(run: Pick<RunPlaces, 'organisation' | 'key'> | undefined): RunLinks {
    if (run === undefined) return UNLINKED;
    const { organisation, key } = run;
    const nesting = this.#nestings.get(organisation);
    if (nesting === undefined) throw new RangeError('an organisation that was not among those passed');
    return nesting.linksOf(key);
  }
}

class Organisations {
  readonly names: string[] = [];
  readonly #numbers = new Map<string, number>();

  numberOf(name: string): number {
    let number = this.#numbers.get(name);
    if (number === undefined) {
      number = this.names.push(name) - 1;
      if (number > 0xffff) throw new RangeError('more than 65536 organisations');
      this.#numbers.set(name, number);
    }
    return number;
  }
}

class GroupMaker {
  readonly organisations = new Organisations();
  readonly sorted: SpillFile[] = [];
  nextSequence = 1;
  records = 0;
  events = 0;
  bytes = 0;
  readonly #log: EventPlaces;
  readonly #selection: RunSelection;
  readonly #options: GroupingOptions;
  readonly #files: SpillFile[];
  readonly #bufferBytes: number;
  readonly #aside = new Map<string, AsideEvent[]>();
  readonly #placed = new Map<string, ReadonlyMap<string, RecordKey>>();
  readonly #starts = new Map<string, RunStart[]>();
  readonly #wanted: Buffer | undefined;

  constructor(log: EventPlaces, selection: RunSelection, options: GroupingOptions) {
    this.#log = log;
    this.#selection = selection;
    this.#options = options;
    const { bytesPerFile = BYTES_PER_FILE, scratch } = options;
    const files = Math.min(MOST_FILES, Math.max(1, Math.ceil(log.bytes / bytesPerFile)));
    const share = Math.min(LARGEST_BUFFER, Math.floor(BUFFER_BYTES / files));
    this.#bufferBytes = share - (share % ENTRY_BYTES);
    this.#files = Array.from(
      { length: files },
      (_, number) => new SpillFile(path.join(scratch, `entries-${number}`), this.#bufferBytes),
    );
    this.#wanted = selection.recordId === undefined ? undefined : idBytes(selection.recordId);
  }

  async pass(): Promise<void> {
    const pass = this.#log.pass();
    let told = performance.now();
    for (let passed = 1; ; passed++) {
      const next = pass.next();
      if (next.done) {
        this.nextSequence = next.value;
        return;
      }
      this.#take(next.value);
      if (passed % BREATH_EVENTS !== 0 || performance.now() - told < BREATH_MS) continue;
      this.#options.onPassed?.(next.value.address);
      await breath();
      this.#options.signal?.throwIfAborted();
      told = performance.now();
    }
  }

  #take(event: PassedEvent): void {
    const { organisation: only, after, since, until } = this.#selection;
    const { organisation, kind, source, runIdAt, receivedAt } = event;
    if (only !== undefined && organisation !== only) return;
    let flags = 0;
    if (after === undefined || event.sequence > after) flags |= FLAG.after;
    if ((since === undefined || receivedAt >= since) && (until === undefined || receivedAt < until)) {
      flags |= FLAG.within;
    }
    const isStart = kind === 'inference-start';
    if (isStart) {
      flags |= FLAG.start;
      if (parentOf(event) !== null) flags |= FLAG.nestedStart;
    }
    const entry: RunEntry = {
      address: event.address,
      size: event.size,
      organisation: this.organisations.numberOf(organisation),
      flags,
    };
    if (isNoRun(source, runIdAt)) {
      const eventId = entryId(source, event.eventIdAt);
      const aside = { eventId, parentEventId: parentOf(event), place: entry };
      const those = this.#aside.get(organisation);
      if (those === undefined) this.#aside.set(organisation, [aside]);
      else those.push(aside);
      return;
    }
    // What other runs are nested in is asked of their starts alone.
    const wanted = this.#wanted;
    if (
      wanted !== undefined &&
      !isStart &&
      source.compare(wanted, 0, ID_BYTES, runIdAt, runIdAt + ID_BYTES) !== 0
    )
      return;
    this.#note(source, runIdAt, entry);
  }

  #note(id: Buffer, idAt: number, entry: RunEntry): void {
    const file = this.#files[hashOf(id, idAt) % this.#files.length];
    if (file !== undefined) writeEntry(file.target, file.next(), id, idAt, entry);
  }

  /** Finds the records of those events that name no run, and notes them there. */
  placeRunless(): void {
    for (const organisation of this.organisations.names) {
      const aside = this.#aside.get(organisation) ?? [];
      const placed = placeRunless(aside, (eventId) => this.#log.find(organisation, eventId)?.runId);
      this.#placed.set(organisation, placed);
      for (const { eventId, place } of aside) {
        const key = placed.get(eventId) ?? `event:${eventId}`;
        const [kind = '', id = ''] = key.split(':');
        if (kind === 'event') place.flags |= FLAG.runless;
        if (this.#selection.recordId === undefined || this.#selection.recordId === id) {
          this.#note(idBytes(id), 0, place);
        }
      }
    }
    this.#aside.clear();
  }

  /** Puts the entries of each file together by run. */
  async sort(): Promise<void> {
    for (const [number, file] of this.#files.entries()) {
      const entries = file.readAll();
      file.remove();
      const runs = runsIn(entries);
      this.#noteNested(entries, runs);
      const chosen = runs.filter((run) => this.#isWanted(entries, run));
      chosen.sort((a, b) => entryAddress(entries, a[0]) - entryAddress(entries, b[0]));
      const sorted = new SpillFile(path.join(this.#options.scratch, `runs-${number}`), this.#bufferBytes);
      this.sorted.push(sorted);
      for (const run of chosen) {
        setFlag(entries, run[0], FLAG.first);
        this.records++;
        this.events += run.length;
        for (const at of run) {
          this.bytes += entrySize(entries, at);
          entries.copy(sorted.target, sorted.next(), at, at + ENTRY_BYTES);
        }
      }
      await breath();
      this.#options.signal?.throwIfAborted();
    }
  }

  #isWanted(entries: Buffer, run: Run): boolean {
    let flags = 0;
    for (const at of run) flags |= entryFlags(entries, at);
    if ((flags & FLAG.after) === 0 || (flags & FLAG.within) === 0) return false;
    return (
      this.#wanted === undefined ||
      entries.compare(this.#wanted, 0, ID_BYTES, run[0], run[0] + ID_BYTES) === 0
    );
  }

  /** Notes for each run with a start that names a parent, what its first start names. */
  #noteNested(entries: Buffer, runs: readonly Run[]): void {
    const starts: { at: number; run: Run; address: number; size: number }[] = [];
    for (const run of runs) {
      if (!run.some((at) => (entryFlags(entries, at) & FLAG.nestedStart) !== 0)) continue;
      for (const at of run) {
        if ((entryFlags(entries, at) & FLAG.start) === 0) continue;
        starts.push({ at, run, address: entryAddress(entries, at), size: entrySize(entries, at) });
      }
    }
    starts.sort((a, b) => a.address - b.address);
    const events = new Map<Run, RunEvent[]>();
    this.#log.read(starts, (stored, index) => {
      const run = starts[index]?.run;
      if (run === undefined) return;
      const those = events.get(run);
      if (those === undefined) events.set(run, [runEventOf(stored)]);
      else those.push(runEventOf(stored));
    });
    for (const [run, those] of events) {
      const parentEventId = inCanonicalOrder(those)[0]?.parentId ?? null;
      if (parentEventId === null) continue;
      const organisation = this.organisations.names[entryOrganisation(entries, run[0])] ?? '';
      const start = { runId: entryId(entries, run[0]), parentEventId };
      const others = this.#starts.get(organisation);
      if (others === undefined) this.#starts.set(organisation, [start]);
      else others.push(start);
    }
  }

  nestings(): Map<string, Nesting> {
    const nestings = new Map<string, Nesting>();
    for (const organisation of this.organisations.names) {
      const placed = this.#placed.get(organisation);
      const recordOf = (eventId: string): RecordKey | undefined => {
        const found = this.#log.find(organisation, eventId);
        if (found === undefined) return undefined;
        return found.runId === undefined ? placed?.get(eventId) : `run:${found.runId}`;
      };
      nestings.set(organisation, new Nesting(this.#starts.get(organisation) ?? [], recordOf));
    }
    this.#starts.clear();
    return nestings;
  }
}

/** Where the entries of a run are, by address. */
type Run = readonly [number, ...number[]];

function runsIn(entries: Buffer): Run[] {
  const runs = new Map<string, [number, ...number[]]>();
  for (let at = 0; at < entries.length; at += ENTRY_BYTES) {
    const key = entryKey(entries, at);
    const run = runs.get(key);
    if (run === undefined) runs.set(key, [at]);
    else run.push(at);
  }
  const byAddress = (a: number, b: number) => entryAddress(entries, a) - entryAddress(entries, b);
  // Only what named no run was noted after the pass, and so out of order.
  for (const run of runs.values())
    if (run.some((at, i) => i > 0 && byAddress(run[i - 1] ?? at, at) > 0)) run.sort(byAddress);
  return [...runs.values()];
}

/** The runs of one sorted file. */
class SortedRuns {
  run: RunPlaces = { organisation: '', key: 'run:', places: [] };
  readonly #entries: ReturnType<SpillFile['entries']>;
  readonly #organisations: readonly string[];
  #next: IteratorResult<{ readonly source: Buffer; readonly at: number }>;

  constructor(file: SpillFile, organisations: readonly string[]) {
    this.#entries = file.entries();
    this.#organisations = organisations;
    this.#next = this.#entries.next();
  }

  get address(): number {
    return this.run.places[0]?.address ?? 0;
  }

  /** @returns whether `run` is another run now. */
  advance(): boolean {
    if (this.#next.done) return false;
    const { source, at } = this.#next.value;
    const runless = (entryFlags(source, at) & FLAG.runless) !== 0;
    const key: RecordKey = `${runless ? 'event' : 'run'}:${entryId(source, at)}`;
    const organisation = this.#organisations[entryOrganisation(source, at)] ?? '';
    const places: EventPlace[] = [];
    for (;;) {
      const entry = this.#next.value;
      places.push({
        address: entryAddress(entry.source, entry.at),
        size: entrySize(entry.source, entry.at),
      });
      this.#next = this.#entries.next();
      if (this.#next.done) break;
      const following = this.#next.value;
      if ((entryFlags(following.source, following.at) & FLAG.first) !== 0) break;
    }
    this.run = { organisation, key, places };
    return true;
  }
}

/** The streams by the first address of their runs: a binary heap. */
class RunHeap {
  constructor(private readonly streams: SortedRuns[]) {
    for (let i = (streams.length >> 1) - 1; i >= 0; i--) this.#sink(i);
  }

  get least(): SortedRuns | undefined {
    return this.streams[0];
  }

  /** @param more whether the least has another run; else it is removed. */
  replaceLeast(more: boolean): void {
    const last = more ? undefined : this.streams.pop();
    if (last !== undefined && this.streams.length > 0) this.streams[0] = last;
    this.#sink(0);
  }

  #sink(from: number): void {
    const { streams } = this;
    for (let at = from; ;) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < streams.length && addressOf(streams[child]) < addressOf(streams[least])) least = child;
      }
      if (least === at) return;
      const [a, b] = [streams[at], streams[least]];
      if (a === undefined || b === undefined) return;
      streams[at] = b;
      streams[least] = a;
      at = least;
    }
  }
}

function addressOf(stream: SortedRuns | undefined): number {
  return stream?.address ?? Infinity;
}

function parentOf(event: PassedEvent): string | null {
  const { payloadState, body } = event.decode();
  return payloadState === 'plain' ? statedParent(body) : null;
}

function isNoRun(source: Buffer, at: number): boolean {
  return (
    source.readUInt32LE(at) === 0 &&
    source.readUInt32LE(at + 4) === 0 &&
    source.readUInt32LE(at + 8) === 0 &&
    source.readUInt32LE(at + 12) === 0
  );
}

/** Senders choose the ids, and count in some of their bytes: all have to make a difference. */
function hashOf(id: Buffer, at: number): number {
  let hash = 0;
  for (let word = 0; word < ID_BYTES; word += 4) {
    hash = Math.imul(hash ^ id.readUInt32LE(at + word), 0x9e37_79b1);
    hash ^= hash >>> 15;
  }
  return hash >>> 0;
}

function idBytes(id: string): Buffer {
  return Buffer.from(id.replaceAll('-', ''), 'hex');
}
