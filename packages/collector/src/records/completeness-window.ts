/**
 * How complete the newest runs are (completeness.ts), told without reading the log anew: it is shown each event once, in
 * the order of the log, and keeps the newest {@link MOST_EVENTS} of them in some 35 bytes each, and their runs in some 25.
 * It holds fingerprints of ids and counts, and gives out counts alone.
 *
 * A run is forgotten with the last of its events, so a late outcome finds its run as long as anything of it is
 * remembered. What is told is about runs with a start, by the time of the first event that was seen of them. An event whose run has
 * no start, or whose parent is not there, is an orphan. Once the beginning of the log is no longer remembered, that can
 * be said only of events that follow their start closely: an outcome, or a word of a user, may be of a run before. Of
 * two starts of one run the first received is taken, where a record follows the first by their timestamps.
 */
import { randomInt } from 'node:crypto';
import type { EventKind } from '@clinical-events/protocol';
import type { PassedEntry } from '../store/event-log.js';
import { grown, NumberedIds } from './numbered-ids.js';
import { idHash, isNoId } from './run-entry.js';

export const MOST_EVENTS = 1 << 20;
export const WINDOW_MS = 30 * 86_400_000;
/** What follows a start closely is there after so long. */
const CLOSE_MS = 86_400_000;
/** An event without a run is placed by its parent, and that by its own: so many steps up at each count. */
const STEPS = 8;

/** Counts of runs that began in a while, and of events that came in it. Times in milliseconds since 1970. */
export interface RunCounts {
  readonly since: number;
  /** Whether all of the log is remembered. */
  readonly fromBeginning: boolean;
  readonly full: number;
  readonly minimum: number;
  readonly incomplete: number;
  /** Of all of these: those of which no outcome is known yet. */
  readonly withoutOutcome: number;
  readonly orphanEvents: number;
  /** The newest event that was looked at; 0 when there was none. */
  readonly through: number;
}

const START = 1;
const MODEL = 2;
const USER = 4;
const TARGET = 8;
const INPUTS = 16;
/** An output that says where it is. */
const OUTPUT = 32;
const OUTCOME = 64;
const FEEDBACK = 128;
const FULL = START | MODEL | USER | TARGET | INPUTS | OUTPUT | OUTCOME | FEEDBACK;
/** A payload that cannot be read: nobody knows what it lacks. */
const UNREADABLE = 256;
const START_OBJECTS = [
  ['model_instance', MODEL],
  ['user_identity', USER],
  ['target_identity', TARGET],
  ['inputs', INPUTS],
] as const;

/** Of an event. Its parent was not there when it was looked for last. */
const PARENT_LOST = 1;
/** It names no run: its bits go where its parent is. */
const RUNLESS = 2;
/** It may come long after its run. */
const LATE = 4;

const NO_RUN = -1;

type Seeds = readonly [number, number];

export class CompletenessWindow {
  readonly #seeds = new Map<string, Seeds>();
  /** Events have the numbers of their places in a ring of the newest ones. */
  readonly #events = new NumberedIds();
  #eventRun = new Int32Array(16);
  #eventAt = new Uint32Array(16);
  #eventFlags = new Uint8Array(16);
  #eventBits = new Uint16Array(16);
  #parentHi = new Uint32Array(16);
  #parentLo = new Uint32Array(16);
  #first = 0;
  #held = 0;
  readonly #runs = new NumberedIds();
  #runBits = new Uint16Array(16);
  #runAt = new Uint32Array(16);
  #runEvents = new Uint32Array(16);
  #runsUsed = 0;
  readonly #freeRuns: number[] = [];
  #through = 0;
  #fromBeginning = true;

  /** @param most events that are kept, 16 at least. */
  constructor(private readonly most = MOST_EVENTS) {}

  /** The sequence of the newest entry that was looked at; 0 when there was none. */
  get through(): number {
    return this.#through;
  }

  /** Takes the next event of the log, or an entry of its own. The first one that is given may be any. */
  add(event: PassedEntry): void {
    const { sequence } = event;
    if (this.#through === 0 && sequence > 1) this.#fromBeginning = false;
    this.#through = sequence;
    if (event.isOwn) return;
    const { kind, organisation, receivedAt, source, eventIdAt, runIdAt, parentIdAt } = event;
    if (this.#held === this.most) this.#forgetOldest();
    const seeds = this.#seedsOf(organisation);
    const bits = bitsOf(kind, event.body());
    const place = (this.#first + this.#held++) % this.most;
    this.#makeRoom(place);
    const isRunless = isNoId(source, runIdAt);
    const run = isRunless ? NO_RUN : this.#runOf(seeds, source, runIdAt, receivedAt);
    this.#eventAt[place] = receivedAt / 1000;
    this.#eventBits[place] = bits;
    this.#eventFlags[place] =
      (isRunless ? RUNLESS : 0) | (kind === 'outcome' || kind === 'user-feedback' ? LATE : 0);
    this.#eventRun[place] = NO_RUN;
    if (run !== NO_RUN) this.#join(place, run);
    this.#events.add(place, ...fingerprint(seeds, source, eventIdAt));
    if (isNoId(source, parentIdAt)) return;
    const [hi, lo] = fingerprint(seeds, source, parentIdAt);
    this.#parentHi[place] = hi;
    this.#parentLo[place] = lo;
    this.#setFlag(place, PARENT_LOST);
    this.#findParent(place);
  }

  /** @param now milliseconds since 1970. */
  count(now: number): RunCounts {
    this.#findParents();
    const oldest = this.#fromBeginning ? 0 : 1000 * (this.#eventAt[this.#first] ?? 0);
    const since = Math.max(now - WINDOW_MS, oldest);
    const broken = new Uint8Array(this.#runsUsed);
    let orphanEvents = 0;
    for (let i = 0; i < this.#held; i++) {
      const place = (this.#first + i) % this.most;
      const run = this.#eventRun[place] ?? NO_RUN;
      const flags = this.#eventFlags[place] ?? 0;
      const hasStart = run !== NO_RUN && ((this.#runBits[run] ?? 0) & START) !== 0;
      if (hasStart && (flags & PARENT_LOST) === 0) continue;
      const at = 1000 * (this.#eventAt[place] ?? 0);
      if (!this.#fromBeginning && ((flags & LATE) !== 0 || at < oldest + CLOSE_MS)) continue;
      if (run !== NO_RUN) broken[run] = 1;
      if (at >= since) orphanEvents++;
    }
    let [full, minimum, incomplete, withoutOutcome] = [0, 0, 0, 0];
    for (let run = 0; run < this.#runsUsed; run++) {
      const bits = this.#runBits[run] ?? 0;
      if (this.#runEvents[run] === 0 || (bits & START) === 0 || 1000 * (this.#runAt[run] ?? 0) < since)
        continue;
      if (broken[run] === 1 || (bits & UNREADABLE) !== 0) incomplete++;
      else if (bits === FULL) full++;
      else minimum++;
      if ((bits & OUTCOME) === 0) withoutOutcome++;
    }
    return {
      ...{ since, fromBeginning: this.#fromBeginning, full, minimum, incomplete },
      ...{ withoutOutcome, orphanEvents, through: this.#through },
    };
  }

  #runOf(seeds: Seeds, source: Buffer, at: number, receivedAt: number): number {
    const [hi, lo] = fingerprint(seeds, source, at);
    const known = this.#runs.find(hi, lo);
    if (known >= 0) return known;
    const run = this.#freeRuns.pop() ?? this.#runsUsed++;
    if (run >= this.#runBits.length) {
      this.#runBits = grown(this.#runBits, run);
      this.#runAt = grown(this.#runAt, run);
      this.#runEvents = grown(this.#runEvents, run);
    }
    this.#runs.add(run, hi, lo);
    this.#runBits[run] = 0;
    this.#runAt[run] = receivedAt / 1000;
    this.#runEvents[run] = 0;
    return run;
  }

  #join(place: number, run: number): void {
    const known = this.#runBits[run] ?? 0;
    let bits = this.#eventBits[place] ?? 0;
    // What a second start says does not count.
    if ((bits & known & START) !== 0) bits &= UNREADABLE;
    this.#eventRun[place] = run;
    this.#runBits[run] = known | bits;
    this.#runEvents[run] = (this.#runEvents[run] ?? 0) + 1;
  }

  /** Events that came before their parents find them later. */
  #findParents(): void {
    for (let step = 0; step < STEPS; step++) {
      let found = false;
      for (let i = 0; i < this.#held; i++) found = this.#findParent((this.#first + i) % this.most) || found;
      if (!found) return;
    }
  }

  /** @returns whether anything was learnt. */
  #findParent(place: number): boolean {
    const flags = this.#eventFlags[place] ?? 0;
    const isPlaced = (flags & RUNLESS) === 0 || this.#eventRun[place] !== NO_RUN;
    if (((flags & PARENT_LOST) === 0 && isPlaced) || !this.#namesParent(place)) return false;
    const parent = this.#events.find(this.#parentHi[place] ?? 0, this.#parentLo[place] ?? 0);
    if (parent < 0) return false;
    this.#eventFlags[place] = flags & ~PARENT_LOST;
    const run = this.#eventRun[parent] ?? NO_RUN;
    if (isPlaced || run === NO_RUN) return (flags & PARENT_LOST) !== 0;
    this.#join(place, run);
    return true;
  }

  #namesParent(place: number): boolean {
    return this.#parentHi[place] !== 0 || this.#parentLo[place] !== 0;
  }

  #forgetOldest(): void {
    const place = this.#first;
    this.#first = (place + 1) % this.most;
    this.#held--;
    this.#fromBeginning = false;
    this.#events.remove(place);
    this.#parentHi[place] = 0;
    this.#parentLo[place] = 0;
    const run = this.#eventRun[place] ?? NO_RUN;
    if (run === NO_RUN) return;
    const left = (this.#runEvents[run] ?? 1) - 1;
    this.#runEvents[run] = left;
    if (left > 0) return;
    this.#runs.remove(run);
    this.#freeRuns.push(run);
  }

  #makeRoom(place: number): void {
    if (place < this.#eventRun.length) return;
    this.#eventRun = grown(this.#eventRun, place);
    this.#eventAt = grown(this.#eventAt, place);
    this.#eventFlags = grown(this.#eventFlags, place);
    this.#eventBits = grown(this.#eventBits, place);
    this.#parentHi = grown(this.#parentHi, place);
    this.#parentLo = grown(this.#parentLo, place);
  }

  #setFlag(place: number, flag: number): void {
    this.#eventFlags[place] = (this.#eventFlags[place] ?? 0) | flag;
  }

  /** Senders choose the ids, and must not be able to choose their fingerprints, nor to meet those of others. */
  #seedsOf(organisation: string): Seeds {
    let seeds = this.#seeds.get(organisation);
    if (seeds === undefined) {
      seeds = [randomInt(2 ** 32), randomInt(2 ** 32)];
      this.#seeds.set(organisation, seeds);
    }
    return seeds;
  }
}

function fingerprint(seeds: Seeds, source: Buffer, at: number): [hi: number, lo: number] {
  return [idHash(source, at, seeds[0]), idHash(source, at, seeds[1])];
}

/** What an event adds to its run. */
function bitsOf(kind: EventKind, body: Buffer | undefined): number {
  let bits =
    kind === 'inference-start'
      ? START
      : kind === 'outcome'
        ? OUTCOME
        : kind === 'user-feedback'
          ? FEEDBACK
          : 0;
  if (body === undefined) return bits | UNREADABLE;
  // Only these have to be parsed.
  if (kind === 'inference-start' || kind === 'human-output') {
    const said = JSON.parse(body.toString()) as Record<string, unknown>;
    if (kind === 'human-output') {
      if ((said['output'] as { output_uri?: unknown }).output_uri !== undefined) bits |= OUTPUT;
    } else {
      for (const [field, bit] of START_OBJECTS) if (said[field] !== undefined) bits |= bit;
    }
  }
  return bits;
}
