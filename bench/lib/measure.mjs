/** One measurement: warm-up, then load for some seconds, with the resources of the process tree. */
import { coresUse, threadsOf, usageOf } from './procfs.mjs';
import { failuresIn, load } from './wrk.mjs';

/** @returns for each busy thread the microseconds for an event: running, and waiting for a core. */
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

/** @returns shares of the time of all cores, from 0 to 1. */
function shareOf(before, after) {
  const spent = Object.entries(after).map(([name, value]) => [name, value - before[name]]);
  const all = spent.reduce((sum, [, value]) => sum + value, 0);
  return Object.fromEntries(spent.map(([name, value]) => [name, value / all]));
}

/** Runs of wrk in one measurement. */
const LOADS = 2;

/**
 * Resolves with the numbers of the load, the failures of warm-up and measurement, all acknowledged events,
 * and the resources of the process tree.
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
    // startCollector has sent one more event.
    acked: 1 + warm.acked + sent.acked,
    generatorCpu: sent.generatorCpu,
    memory: { rss: after.rss, anonymous: after.anonymous, peak: after.peak },
    cpuSeconds: after.cpuSeconds - before.cpuSeconds,
    measured: sent.acked,
  };
}

/**
 * Compares the stored events with the acknowledged ones. At its end wrk drops its connections: of each, it
 * may have left out the last answer and the request after it.
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

/** Seeds for wrk. Two loads on one log have different seeds; the peers of a round have the same. */
export class Seeds {
  #next;

  constructor(first) {
    this.#next = first;
  }

  next() {
    return this.#next++ % 2 ** 32;
  }

  /** The seeds of a round, for each peer again. */
  fork(round) {
    return new Seeds(this.#next + round * 16);
  }
}
