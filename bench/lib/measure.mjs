/** One measurement: warm up, then send for some seconds to anyone who listens, and watch it meanwhile. */
import { coresUse, threadsOf, usageOf } from './procfs.mjs';
import { failuresIn, load } from './wrk.mjs';

/** @returns what each thread spent on an event, in microseconds: running, and waiting for a core. The idle are left out. */
function spentBy(before, after, events) {
  return [...after]
    .map(([id, { name, ran, waited }]) => {
      const since = before.get(id) ?? { ran: 0, waited: 0 };
      return {
        name,
        ran: (ran - since.ran) / 1000 / events,
        waited: (waited - since.waited) / 1000 / events,
      };
    })
    .filter(({ ran }) => ran >= 0.1);
}

/** @returns the shares of all cores' time, from 0 to 1. */
function shareOf(before, after) {
  const spent = Object.entries(after).map(([name, value]) => [name, value - before[name]]);
  const all = spent.reduce((sum, [, value]) => sum + value, 0);
  return Object.fromEntries(spent.map(([name, value]) => [name, value / all]));
}

/** Runs of wrk in one measurement. */
const LOADS = 2;

/**
 * Resolves with the load's numbers, the failures of warm-up and measurement together, the number of events that
 * were acknowledged in all, and what the process tree used.
 */
export async function measure({ pid, port, scheme }, { key, options, seeds }) {
  const { connections, seconds, warmup, load: which } = options;
  const common = { port, scheme, key, connections, load: which };
  const warm = await load({ ...common, seed: seeds.next(), seconds: warmup });
  const before = usageOf(pid);
  const ran = threadsOf(pid);
  const core = coresUse();
  const sent = await load({ ...common, seed: seeds.next(), seconds });
  const after = usageOf(pid);
  return {
    threads: spentBy(ran, threadsOf(pid), sent.acked),
    cores: shareOf(core, coresUse()),
    rate: sent.rate,
    latencyMs: sent.latencyMs,
    failures: failuresIn(warm) + failuresIn(sent),
    errors: sent.errors,
    // The first event, by which the start was checked, is one more.
    acked: 1 + warm.acked + sent.acked,
    generatorCpu: sent.generatorCpu,
    memory: { rss: after.rss, anonymous: after.anonymous, peak: after.peak },
    cpuSeconds: after.cpuSeconds - before.cpuSeconds,
    measured: sent.acked,
  };
}

/**
 * Compares the stored events with the acknowledged ones. At its end wrk drops its connections: of each, it may have
 * left out the last answer and the request after it.
 * @throws when an acknowledged event is missing, or when more events are stored than wrk can have sent.
 */
export function checkStored(who, { stored, acked, connections, loads = LOADS }) {
  if (stored === null) return;
  const most = acked + 2 * connections * loads;
  if (stored >= acked && stored <= most) return;
  throw new Error(
    `${who}: ${acked} events were acknowledged, and ${stored} are stored (at most ${most} can be)`,
  );
}

/** Seeds for wrk: no two loads on one ledger get the same. Peers of one round take the same ones in turn. */
export class Seeds {
  #next;

  constructor(first) {
    this.#next = first;
  }

  next() {
    return this.#next++ % 2 ** 32;
  }

  /** As many as the peers of a round need, for each of them again. */
  fork(round) {
    return new Seeds(this.#next + round * 16);
  }
}
