/**
 * More load than the collector can take. The generator finds the best rate, and then offers 0.7 of it
 * (normal), three times of it with and without respect for Retry-After, and 0.7 again (recovery). A modest
 * sender with a key of its own sends a twentieth of the best rate. Collector and generator have a core each.
 * Every acknowledged event must be stored.
 */
import { removeDirectory, temporaryDirectory } from '../lib/children.mjs';
import { countByReading, createKey, startCollector, stopCollector } from '../lib/collector.mjs';
import { coresToBindTo } from '../lib/cores.mjs';
import { figuresTable } from '../lib/figures.mjs';
import { decimals, mebibytes, whole } from '../lib/numbers.mjs';
import { OpenLoop } from '../lib/open-loop.mjs';
import { RssSampler, usageOf } from '../lib/procfs.mjs';
import { table } from '../lib/table.mjs';

const MODEST = 0.05;
const NORMAL = 0.7;
const TOO_MUCH = 3;
const MODEST_CONNECTIONS = 256;
const RAMP = { from: 8000, by: 1.25, seconds: 2 };
const SMOKE_RAMP = { from: 2000, by: 4, seconds: 0.5 };
const RECOVERY_SECONDS = 5;
/** A pause between the search for the best rate, which ends in overload, and the normal load. */
const CALM = { part: 0.2, seconds: 4 };

const accepted = ({ answers }) => answers['201']?.count ?? 0;
const acceptedRate = ({ seconds, senders }) =>
  Object.values(senders).reduce((sum, sender) => sum + accepted(sender), 0) / seconds;

/**
 * Raises the offered rate step by step. @returns the highest rate of acknowledged events, the events for a
 * second of processor time at that rate, and all steps.
 */
async function findBest(step, cpuSeconds, ramp) {
  const steps = [];
  let below = 0;
  for (let rate = ramp.from; below < 3; rate *= ramp.by) {
    const before = cpuSeconds();
    const result = await step(ramp.seconds, { greedy: rate });
    const taken = acceptedRate(result);
    const perCpuSecond = (taken * result.seconds) / (cpuSeconds() - before);
    steps.push({ offered: rate, taken, perCpuSecond });
    below = taken < 0.8 * rate ? below + 1 : 0;
  }
  const best = steps.reduce((most, one) => (one.taken > most.taken ? one : most));
  return { best: best.taken, bestPerCpuSecond: best.perCpuSecond, steps };
}

/** @returns the first second in which 95 % of the offered events were accepted, or the number of seconds. */
function recoverySeconds({ seconds, senders }) {
  const offered = Object.values(senders).reduce((sum, { offered: n }) => sum + n, 0) / seconds;
  for (let second = 0; second < Math.floor(seconds); second++) {
    const taken = Object.values(senders).reduce((n, each) => n + (each.acceptedInSecond[second] ?? 0), 0);
    if (taken >= 0.95 * offered) return second;
  }
  return Math.floor(seconds);
}

async function measureRound({ options, say }) {
  const directory = temporaryDirectory(options.scratch, 'overload');
  const [greedy, modest] = [await createKey(directory), await createKey(directory)];
  const [core, generatorCore] = options.cores;
  const collector = await startCollector(directory, greedy.key, { core });
  const senders = {
    greedy: { key: greedy.key, connections: options.sockets },
    modest: { key: modest.key, connections: MODEST_CONNECTIONS },
  };
  const generator = new OpenLoop(collector.port, senders, generatorCore);
  // startCollector has sent one event.
  let acked = 1;
  const step = async (...args) => {
    const result = await generator.step(...args);
    for (const sender of Object.values(result.senders)) acked += accepted(sender);
    return result;
  };
  await step(options.warmup, { greedy: RAMP.from, modest: RAMP.from / 10 });
  const cpuSeconds = () => usageOf(collector.pid).cpuSeconds;
  const { best, bestPerCpuSecond, steps } = await findBest(
    step,
    cpuSeconds,
    options.smoke ? SMOKE_RAMP : RAMP,
  );
  say(`best rate ${whole(best)} events/s`);
  const at = (part) => ({ greedy: (part - MODEST) * best, modest: MODEST * best });
  const parts = { normal: NORMAL, over: TOO_MUCH + MODEST, impatient: TOO_MUCH + MODEST, recovery: NORMAL };
  await step(options.smoke ? 1 : CALM.seconds, at(CALM.part));
  const phases = {};
  for (const [name, part] of Object.entries(parts)) {
    say(`${name}: ${decimals(part)} times the best rate`);
    const sampler = new RssSampler(collector.pid);
    const before = cpuSeconds();
    const seconds = name === 'recovery' && !options.smoke ? RECOVERY_SECONDS : options.seconds;
    const result = await step(seconds, at(part), name !== 'impatient');
    const cpu = (cpuSeconds() - before) / result.seconds;
    const samples = sampler.stop();
    const half = samples.length >> 1;
    const highest = (list) => Math.max(...list.map(({ rss }) => rss));
    const rss = {
      start: samples[0].rss,
      firstHalf: highest(samples.slice(0, half)),
      secondHalf: highest(samples.slice(half)),
      end: samples.at(-1).rss,
    };
    phases[name] = { ...result, cpu, rss };
  }
  await generator.stop();
  await stopCollector(collector);
  const stored = await countByReading(directory);
  removeDirectory(directory);
  if (stored < acked) throw new Error(`${acked} events were acknowledged, and ${stored} are stored`);
  return {
    best,
    bestPerCpuSecond,
    ramp: steps,
    phases,
    acked,
    stored,
    recoverySeconds: recoverySeconds(phases.recovery),
  };
}

/** Two rows for each phase. `rounds` are pairs of a title and a measurement. */
export function overloadTable(rounds) {
  const ms = (value) => (value === undefined ? '' : decimals(value, 1));
  const rows = rounds.flatMap(([title, { phases }]) =>
    Object.entries(phases).flatMap(([phase, { seconds, senders }]) =>
      Object.entries(senders).map(([name, { offered, held, answers, cutOff, lateMs }]) => {
        const [taken, refused] = [answers['201'], answers['503']];
        return [
          ...[title, phase, name],
          ...[offered, held, taken?.count ?? 0].map((count) => whole(count / seconds)),
          ...[ms(taken?.p50), ms(taken?.p99)],
          ...[whole((refused?.count ?? 0) / seconds), ms(refused?.p50), ms(refused?.p99)],
          ...[whole(cutOff), ms(lateMs.p99)],
        ];
      }),
    ),
  );
  const heading = ['Round', 'Phase', 'Sender', 'offered/s', 'held/s', '201/s', 'p50 ms', 'p99 ms'];
  return table([[...heading, '503/s', 'p50 ms', 'p99 ms', 'cut off', 'late p99'], ...rows]);
}

/** Cores that collector and generator used, and the collector's memory. */
export function overloadUsageTable(rounds) {
  const rows = rounds.flatMap(([title, { phases, best }]) =>
    Object.entries(phases).map(([phase, { cpu, generatorCpu, rss, ...rest }]) => [
      ...[title, phase, whole(best), whole(acceptedRate(rest)), decimals(acceptedRate(rest) / best)],
      ...[decimals(cpu), decimals(generatorCpu), whole(acceptedRate(rest) / cpu)],
      ...[rss.start, rss.firstHalf, rss.secondHalf, rss.end].map(mebibytes),
    ]),
  );
  const heading = [
    'Round',
    'Phase',
    'best 201/s',
    '201/s',
    'of the best',
    'cores',
    "generator's",
    '201 per core-second',
  ];
  return table([[...heading, 'RSS MiB at start', '1st half', '2nd half', 'at end'], ...rows]);
}

/** A sentence about the cores, for the tables. */
export function boundLine(bound) {
  return bound
    ? 'The collector was bound to one core and the generator to another.'
    : 'There were not two cores, or no `taskset`: collector and generator took them from each other.';
}

/** The share of a sender's events that was acknowledged. */
const share = (sender) => accepted(sender) / sender.offered;

export async function overload({ options, say, print }) {
  const rounds = [];
  const found = coresToBindTo();
  // A single core for both would be worse than no binding.
  const cores = found.length > 1 ? found : [];
  for (let i = 0; i < options.rounds; i++) {
    say(`round ${i + 1} of ${options.rounds}`);
    const round = await measureRound({ options: { ...options, cores }, say });
    rounds.push(round);
    const titled = [[`${i + 1}`, round]];
    print(`\n${overloadTable(titled)}\n\n${overloadUsageTable(titled)}`);
  }
  const p99 = (sender) => sender.answers['201']?.p99 ?? Infinity;
  const each = (figure) => rounds.map(({ phases, best }) => figure(phases, best));
  const figures = {
    'overload/rate': each(({ over }, best) => acceptedRate(over) / best),
    'overload/work': rounds.map(
      ({ phases: { over }, bestPerCpuSecond }) => acceptedRate(over) / over.cpu / bestPerCpuSecond,
    ),
    'overload/p99': each(({ over, normal }) => p99(over.senders.greedy) / p99(normal.senders.greedy)),
    'overload/modest': each(({ over }) => share(over.senders.modest)),
    'overload/modest-p99': each(({ over, normal }) => p99(over.senders.modest) / p99(normal.senders.modest)),
    'overload/impatient': each(({ impatient }, best) => acceptedRate(impatient) / best),
    'overload/impatient-p99': each(
      ({ impatient, normal }) => p99(impatient.senders.greedy) / p99(normal.senders.greedy),
    ),
    'overload/memory': each(({ over }) => over.rss.secondHalf / over.rss.firstHalf),
    'overload/recovery': rounds.map(({ recoverySeconds: seconds }) => seconds),
  };
  print(`\n${figuresTable(figures)}`);
  return { rounds, bound: cores.length > 0, figures, failures: 0 };
}
