/**
 * A pass over the log, or over a part of it, that notes each event in one of some temporary files by the hash of its
 * run. Parts can be passed beside each other, in threads: what a pass comes to can be posted.
 */
import path from 'node:path';
import { setImmediate as breath } from 'node:timers/promises';
import { ID_BYTES, type PassedEntry } from '../store/event-log.js';
import type { EventPlaces, LogPart } from '../store/event-places.js';
import { RunlessEvents } from './membership.js';
import { putRuns } from './parent-runs.js';
import { FLAG, idBytes, idHash, isNoId, writeEntry, type RunEntry } from './run-entry.js';
import { SpillFile } from './spill-file.js';

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

/** What the passes over all parts have in common. */
export interface PassSettings {
  readonly selection: RunSelection;
  readonly scratch: string;
  readonly files: number;
  readonly bufferBytes: number;
  /** So that a run goes to the files of the same number. */
  readonly seed: number;
}

export interface PassedPart {
  /** The numbers that entries have for organisations are places in this. */
  readonly organisations: readonly string[];
  /** What names no run, as RunlessEvents has it. */
  readonly runless: { readonly events: Uint8Array; readonly parents: Uint8Array };
  /** The sequence behind the last event. */
  readonly nextSequence: number;
}

/** The event loop gets its turn so often, or nobody could stop this. */
const BREATH_MS = 50;
const BREATH_EVENTS = 2048;

/** Where the entries of a part are. */
export function entriesFile(scratch: string, part: number, file: number): string {
  return path.join(scratch, `entries-${part}-${file}`);
}

export class LogPass {
  readonly #settings: PassSettings;
  readonly #files: SpillFile[];
  readonly #organisations: string[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #runless = new RunlessEvents();
  readonly #wanted: Buffer | undefined;
  #lastOrganisation = '';
  #lastNumber = 0;

  /** @param part a number for its files. */
  constructor(part: number, settings: PassSettings) {
    const { scratch, files, bufferBytes, selection } = settings;
    this.#settings = settings;
    this.#files = Array.from(
      { length: files },
      (_, file) => new SpillFile(entriesFile(scratch, part, file), bufferBytes),
    );
    this.#wanted = selection.recordId === undefined ? undefined : idBytes(selection.recordId);
  }

  /**
   * Its files are closed and whole when it returns.
   * @param onPassed is told up to which address.
   */
  async run(
    log: Pick<EventPlaces, 'passPart' | 'findPassed' | 'findingOrder'>,
    part: LogPart | undefined,
    onPassed: (address: number) => void,
    signal?: AbortSignal,
  ): Promise<PassedPart> {
    const pass = log.passPart(part);
    let told = performance.now();
    for (let passed = 1; ; passed++) {
      const next = pass.next();
      if (next.done) {
        for (const file of this.#files) file.close();
        putRuns(this.#runless.parents.entries, this.#organisations, log);
        const runless = { events: this.#runless.events.entries, parents: this.#runless.parents.entries };
        return { organisations: this.#organisations, runless, nextSequence: next.value };
      }
      this.#take(next.value);
      if (passed % BREATH_EVENTS !== 0 || performance.now() - told < BREATH_MS) continue;
      onPassed(next.value.at);
      await breath();
      signal?.throwIfAborted();
      told = performance.now();
    }
  }

  #take(event: PassedEntry): void {
    const { organisation: only, after, since, until } = this.#settings.selection;
    const { organisation, kind, source, runIdAt, parentIdAt, receivedAt } = event;
    if (only !== undefined && organisation !== only) return;
    let flags = 0;
    if (after === undefined || event.sequence > after) flags |= FLAG.after;
    if ((since === undefined || receivedAt >= since) && (until === undefined || receivedAt < until)) {
      flags |= FLAG.within;
    }
    const isStart = kind === 'inference-start';
    if (isStart) {
      flags |= FLAG.start;
      if (!isNoId(source, parentIdAt)) flags |= FLAG.nestedStart;
    }
    const { at: address, size } = event;
    const number = this.#numberOf(organisation);
    const entry: RunEntry = { address, size, organisation: number, flags };
    if (isNoId(source, runIdAt)) {
      this.#runless.add(source, event.eventIdAt, parentIdAt, entry);
      return;
    }
    // What other runs are nested in is asked of their starts alone.
    if (!isStart && this.#wanted !== undefined && !this.#isWanted(source, runIdAt)) return;
    const file = this.#files[idHash(source, runIdAt, this.#settings.seed) % this.#files.length];
    if (file !== undefined) writeEntry(file.target, file.next(), source, runIdAt, entry);
  }

  #isWanted(source: Buffer, at: number): boolean {
    return this.#wanted === undefined || source.compare(this.#wanted, 0, ID_BYTES, at, at + ID_BYTES) === 0;
  }

  #numberOf(organisation: string): number {
    if (organisation === this.#lastOrganisation) return this.#lastNumber;
    let number = this.#numbers.get(organisation);
    if (number === undefined) {
      number = this.#organisations.push(organisation) - 1;
      this.#numbers.set(organisation, number);
    }
    this.#lastOrganisation = organisation;
    this.#lastNumber = number;
    return number;
  }
}
