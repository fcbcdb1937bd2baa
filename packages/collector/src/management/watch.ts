/** What has to be looked at every second, so that the listener can tell of rates and of what went on meanwhile. */
import { GrowthWatch, type Growth } from './growth.js';
import { Samples } from './samples.js';
import type { DiskSpace, Vitals } from './vitals.js';

const EVERY_MS = 1000;
const DISK_EVERY_MS = 5000;
/** The wall clock has been set when it and the monotonic one part by more than this between two looks. */
const STEP_MS = 1000;

/** The wall clock was set, by so many milliseconds. */
export interface ClockStep {
  /** When, by the new time: milliseconds since 1970 UTC. */
  readonly at: number;
  readonly by: number;
}

export class Watch {
  readonly samples: Samples;
  /** Undefined until the disk has answered once. What it answered last stays when it hangs. */
  disk: DiskSpace | undefined;
  /** The newest one. */
  clockStep: ClockStep | undefined;
  clockSteps = 0;
  readonly #vitals: Vitals;
  readonly #growth = new GrowthWatch();
  #timer: NodeJS.Timeout | undefined;
  #looking = false;
  #lookedAt = -Infinity;
  #clocksApart: number;

  constructor(vitals: Vitals) {
    this.#vitals = vitals;
    this.samples = new Samples(vitals.ingest.counters, performance.now());
    this.#clocksApart = Date.now() - performance.now();
  }

  /** Does not keep the process alive. */
  start(): void {
    this.#lookAtDisk(performance.now());
    this.#timer ??= setInterval(() => this.#look(), EVERY_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  get growth(): Growth {
    return this.#growth.growth(this.#ledger(performance.now()));
  }

  #look(): void {
    const wall = Date.now();
    const now = performance.now();
    this.samples.take(wall, now);
    // What is read while the ledger is being opened is nothing, and everything after it would look like growth.
    if (this.#vitals.phase() === 'running') {
      this.#growth.note(this.#ledger(now));
      this.#vitals.askLedger();
    }
    if (now - this.#lookedAt >= DISK_EVERY_MS) this.#lookAtDisk(now);
    const by = wall - now - this.#clocksApart;
    if (Math.abs(by) > STEP_MS) {
      this.clockStep = { at: wall, by };
      this.clockSteps++;
    }
    this.#clocksApart = wall - now;
  }

  /** One look is under way at most: a mount that hangs must not take one thread of the pool after the other. */
  #lookAtDisk(now: number): void {
    if (this.#looking) return;
    this.#looking = true;
    this.#lookedAt = now;
    this.#vitals
      .lookAtDisk()
      .then((space) => (this.disk = space))
      .catch(() => undefined)
      .finally(() => (this.#looking = false));
  }

  #ledger(at: number): { at: number; events: number; bytes: number } {
    const { events, bytes } = this.#vitals.ledger();
    return { at, events, bytes };
  }
}
