/** The last five minutes, second by second: how many events came, and how long an acknowledgement took. */
import type { IngestCounters } from '../ingest/ingest-counters.js';
import { quantile, TIME_BOUNDS_MS } from '../ledger/buckets.js';

/** What happened between two looks at the counters, about a second apart. */
export interface Sample {
  /** When it ended, in milliseconds since 1970 UTC. */
  readonly at: number;
  /** How long it was, in milliseconds: a thread that is busy looks late. */
  readonly ms: number;
  readonly accepted: number;
  readonly refused: number;
  /** Milliseconds to the acknowledgement; null when nothing was acknowledged. */
  readonly p50: number | null;
  readonly p99: number | null;
}

const KEPT = 300;

export class Samples {
  readonly #ring: Sample[] = [];
  #next = 0;
  #accepted = 0;
  #refused = 0;
  #latencies: Float64Array;
  #lookedAt: number;

  /** @param monotonicMs now; the first sample begins here. */
  constructor(
    private readonly counters: Pick<IngestCounters, 'answers' | 'latencies'>,
    monotonicMs: number,
  ) {
    this.#latencies = new Float64Array(TIME_BOUNDS_MS.length + 1);
    this.#lookedAt = monotonicMs;
  }

  /** Ends a sample and begins the next. */
  take(wallMs: number, monotonicMs: number): void {
    let accepted = 0;
    let refused = 0;
    for (const { code, count } of this.counters.answers()) {
      if (code === 'accepted') accepted += count;
      else refused += count;
    }
    const { counts } = this.counters.latencies();
    const since = counts.map((count, i) => count - (this.#latencies[i] ?? 0));
    this.#ring[this.#next] = {
      at: wallMs,
      ms: monotonicMs - this.#lookedAt,
      accepted: accepted - this.#accepted,
      refused: refused - this.#refused,
      p50: quantile(TIME_BOUNDS_MS, since, 0.5) ?? null,
      p99: quantile(TIME_BOUNDS_MS, since, 0.99) ?? null,
    };
    this.#next = (this.#next + 1) % KEPT;
    this.#accepted = accepted;
    this.#refused = refused;
    this.#latencies = counts;
    this.#lookedAt = monotonicMs;
  }

  /** Oldest first. */
  list(): Sample[] {
    return [...this.#ring.slice(this.#next), ...this.#ring.slice(0, this.#next)];
  }

  /** Per second, over the last samples that together make at least so many milliseconds, or over all there are. */
  rates(overMs: number): { readonly accepted: number; readonly refused: number } {
    let ms = 0;
    let accepted = 0;
    let refused = 0;
    for (const sample of this.list().reverse()) {
      ms += sample.ms;
      accepted += sample.accepted;
      refused += sample.refused;
      if (ms >= overMs) break;
    }
    return ms === 0
      ? { accepted: 0, refused: 0 }
      : { accepted: (accepted * 1000) / ms, refused: (refused * 1000) / ms };
  }
}
