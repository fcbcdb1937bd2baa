/** Calls that may continue: by a retry, or by an answer that is fetched later. */
import { performance } from 'node:perf_hooks';
import { forgetOldest, type ModelCall, quietly, type RunsIn, startsRuns } from './model-call.js';
import type { AnswerReader } from './readers/reader.js';

/** SDKs wait at most a minute before a retry. */
const RETRIED_WITHIN_MS = 120_000;
const MOST_RECENT = 1000;

/** Finds the call that a request retries. */
export class RecentCalls {
  #calls: { readonly key: string; readonly call: ModelCall; readonly at: number }[] = [];

  add(key: string | undefined, call: ModelCall): void {
    const at = performance.now();
    this.#calls = this.#calls
      .filter((each) => each.call !== call && mayBeRepeated(each, at))
      .slice(1 - MOST_RECENT);
    if (key !== undefined) this.#calls.push({ key, call, at });
  }

  /**
   * Equal requests at the same time cannot be distinguished, and a mistake could name the wrong patient. So a
   * call is returned only if exactly one matches.
   */
  retried(key: string | undefined, attempt: number, runs: RunsIn): ModelCall | undefined {
    const within = quietly(() => startsRuns(runs));
    const now = performance.now();
    const [one, ...others] = this.#calls.filter(
      (each) =>
        each.key === key &&
        each.call.attempt === attempt - 1 &&
        each.call.within === within &&
        mayBeRepeated(each, now),
    );
    return others.length === 0 ? one?.call : undefined;
  }
}

function mayBeRepeated(
  { call, at }: { readonly call: ModelCall; readonly at: number },
  now: number,
): boolean {
  return call.ending === undefined || (call.mayBeRetried && now - at < RETRIED_WITHIN_MS);
}

interface LaterCall {
  readonly call: ModelCall;
  readonly reader: AnswerReader;
}

/** Calls with unfinished answers by their addresses; beyond `MOST_RECENT` the oldest are forgotten. */
class LaterCalls {
  readonly #calls = new Map<string, LaterCall | undefined>();

  add(address: string, later: LaterCall): void {
    const isTaken = this.#calls.has(address) && this.#calls.get(address)?.call !== later.call;
    this.#calls.delete(address);
    // Two answers with one id may belong to two patients, so neither is found.
    this.#calls.set(address, isTaken ? undefined : later);
    forgetOldest(this.#calls, MOST_RECENT);
  }

  get(address: string): LaterCall | undefined {
    return this.#calls.get(address);
  }

  /** @returns false if the call was removed before. */
  remove(address: string, later: LaterCall): boolean {
    return this.get(address) === later && this.#calls.delete(address);
  }
}

/** Keyed by the client, run or function, which several instances of an SDK may share. */
const laterCalls = new WeakMap<RunsIn, LaterCalls>();

export function laterCallsOf(runs: RunsIn): LaterCalls {
  const known = laterCalls.get(runs) ?? new LaterCalls();
  laterCalls.set(runs, known);
  return known;
}
