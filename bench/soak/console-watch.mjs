/**
 * Reads the state of the console each second and compares its totals with the counts of the senders: at least
 * what had been answered before the request, and at most that plus what was under way after it.
 */
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { KINDS } from './soak-events.mjs';

const EVERY_MS = 1000;
const WITHIN_MS = 10_000;
/** All requests within a quarter of a second get the same state. */
const SHARED_MS = 250;
const KEPT_FAULTS = 20;

const sum = (counts) => Object.values(counts).reduce((total, count) => total + count, 0);

/** @returns sentences about totals that contradict the senders' counts. */
function faultsOf({ totals }, before, { lives, life }) {
  const after = lives[life];
  const faults = [];
  const compare = (what, shown, least, most) => {
    if (shown < least || shown > most) faults.push(`${what}: ${shown} shown, ${least} to ${most} counted`);
  };
  for (const kind of KINDS) {
    const open = (after.inFlight[kind] ?? 0) + (after.unanswered[kind] ?? 0);
    const { [kind]: least = 0 } = before.accepted;
    compare(kind, totals.accepted[kind], least, (after.accepted[kind] ?? 0) + open);
  }
  const open = sum(after.inFlight) + sum(after.unanswered);
  for (const code of new Set([...Object.keys(totals.refused), ...Object.keys(before.refused)])) {
    // The collector does not count a 408 on an unused connection. A sender may take it for the answer to the
    // request that it has just sent.
    const least = code === 'request_timeout' ? 0 : (before.refused[code] ?? 0);
    compare(code, totals.refused[code] ?? 0, least, (after.refused[code] ?? 0) + open);
  }
  // An event that was stored and not answered is a repeat when it is sent again, also after a restart.
  const again = Object.values(lives).reduce((count, { unanswered }) => count + sum(unanswered), 0);
  compare('repeats', totals.repeats, before.repeats, after.repeats + sum(after.inFlight) + again);
  return faults;
}

export class ConsoleWatch {
  /** The newest state. */
  state;
  compared = 0;
  unanswered = 0;
  faults = [];
  #port;
  #senders;
  #running = true;
  #done;

  constructor(port, senders) {
    this.#port = port;
    this.#senders = senders;
    this.#done = this.#run();
  }

  /** Reads the state now. Rejects without an answer. */
  read() {
    return new Promise((resolve, reject) => {
      const request = http.get(
        {
          host: '127.0.0.1',
          port: this.#port,
          path: '/console/state.json',
          timeout: WITHIN_MS,
          agent: false,
        },
        (response) => {
          let text = '';
          response.setEncoding('utf8').on('data', (piece) => (text += piece));
          response.on('error', reject);
          response.on('end', () => {
            if (response.statusCode !== 200)
              return reject(new Error(`the console answers ${response.statusCode}`));
            resolve((this.state = JSON.parse(text)));
          });
        },
      );
      request.on('error', reject);
      request.on('timeout', () => request.destroy(new Error('no answer in time')));
    });
  }

  /** Resolves with the first matching state, or with undefined after the time. */
  async until(fits, withinMs) {
    const deadline = performance.now() + withinMs;
    let asked = 0;
    while (performance.now() < deadline) {
      const state = await this.read().catch(() => undefined);
      if (state !== undefined && fits(state)) return state;
      await sleep(Math.min(250, 25 * ++asked));
    }
    return undefined;
  }

  async stop() {
    this.#running = false;
    await this.#done;
  }

  /**
   * Compares once. Skipped if the collector does not answer or has been restarted meanwhile.
   */
  async compare() {
    const before = await this.#senders.counts();
    const since = Date.now();
    let state = await this.read().catch(() => undefined);
    if (state !== undefined && Date.parse(state.at) < since) {
      await sleep(SHARED_MS);
      state = await this.read().catch(() => undefined);
    }
    const after = await this.#senders.counts();
    if (state === undefined) {
      this.unanswered++;
      return;
    }
    if (before.life !== after.life) return;
    this.compared++;
    const faults = faultsOf(state, before.lives[before.life], after);
    if (faults.length > 0 && this.faults.length < KEPT_FAULTS) this.faults.push({ at: state.at, faults });
  }

  async #run() {
    while (this.#running) {
      const begun = performance.now();
      await this.compare();
      if (this.#running) await sleep(Math.max(0, EVERY_MS - (performance.now() - begun)));
    }
  }
}
