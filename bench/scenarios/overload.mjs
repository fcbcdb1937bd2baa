/**
 * More than the collector can take. The best rate is looked for first, with the same generator; then 0.7 of it for
 * what is normal, three times of it from clients that keep to Retry-After, three times of it from clients that do not,
 * and 0.7 again to see how soon all is well. Beside the sender of nearly all of it
 * there is a modest one, with a key of its own and a twentieth of the best rate.
 */
import { removeDirectory, temporaryDirectory } from '../lib/children.mjs';
import { countByReading, createKey, startCollector, stopCollector } from '../lib/collector.mjs';
import { figuresTable } from '../lib/figures.mjs';
import { decimals, mebibytes, whole } from '../lib/numbers.mjs';
import { OpenLoop } from '../lib/open-loop.mjs';
import { RssSampler, usageOf } from '../lib/procfs.mjs';
import { table } from '../lib/table.mjs';

const MODEST = 0.05;
const NORMAL = 0.7;
const TOO_MUCH = 3;
const MODEST_CONNECTIONS = 256;
const RAMP = { from: 4000, by: 1.25, seconds: 3 };
const RECOVERY_SECONDS = 5;

const accepted = ({ answers }) => answers['201']?.count ?? 0;
const acceptedRate = ({ seconds, senders }) =>
  Object.values(senders).reduce((sum, sender) => sum + accepted(sender), 0) / seconds;

/** The most events a second that were acknowledged at any rate offered, and what was seen on the way. */
async function findBest(generator) {
  const steps = [];
  let below = 0;
  for (let rate = RAMP.from; below < 3; rate *= RAMP.by) {
    const taken = acceptedRate(await generator.step(RAMP.seconds, { greedy: rate }));
    steps.push({ offered: rate, taken });
    below = taken < 0.8 * rate ? below + 1 : 0;
  }
  return { best: Math.max(...steps.map(({ taken }) => taken)), steps };
}

/** Seconds until a whole one in which nearly all that was offered was taken; as many as there were when none was. */
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
  const collector = await startCollector(directory, greedy.key);
  const generator = new OpenLoop(collector.port, {
    greedy: { key: greedy.key, connections: options.sockets },
    modest: { key: modest.key, connections: MODEST_CONNECTIONS },
  });
  await generator.step(options.warmup, { greedy: RAMP.from, modest: RAMP.from / 10 });
  const { best, steps } = await findBest(generator);
  say(`best rate ${whole(best)} events/s`);
  const at = (part) => ({ greedy: (part - MODEST) * best, modest: MODEST * best });
  const parts = { normal: NORMAL, over: TOO_MUCH + MODEST, impatient: TOO_MUCH + MODEST, recovery: NORMAL };
  const phases = {};
  for (const [name, part] of Object.entries(parts)) {
    say(`${name}: ${decimals(part)} times the best rate`);
    const sampler = new RssSampler(collector.pid);
    const before = usageOf(collector.pid).cpuSeconds;
    const seconds = name === 'recovery' ? RECOVERY_SECONDS : options.seconds;
    const result = await generator.step(seconds, at(part), name !== 'impatient');
    const cpu = (usageOf(collector.pid).cpuSeconds - before) / result.seconds;
    const samples = sampler.stop();
    const half = samples.length >> 1;
    const highest = (list) => Math.max(...list.map(({ rss }) => rss));
    const rss = { firstHalf: highest(samples.slice(0, half)), secondHalf: highest(samples.slice(half)) };
    phases[name] = { ...result, cpu, rss };
  }
  await generator.stop();
  await stopCollector(collector);
  const stored = await countByReading(directory);
  removeDirectory(directory);
  return { best, ramp: steps, phases, stored, recoverySeconds: recoverySeconds(phases.recovery) };
}

function roundTable({ phases }) {
  const rows = Object.entries(phases).flatMap(([phase, { seconds, senders, ...rest }]) =>
    Object.entries(senders).map(([name, { offered, held, answers, cutOff, lateMs }]) => {
      const taken = answers['201'];
      const refused = answers['503'];
      const ms = (value) => (value === undefined ? '' : decimals(value, 1));
      return [
        phase,
        name,
        whole(offered / seconds),
        whole(held / seconds),
        whole((taken?.count ?? 0) / seconds),
        ms(taken?.p50),
        ms(taken?.p99),
        whole((refused?.count ?? 0) / seconds),
        ms(refused?.p50),
        ms(refused?.p99),
        whole(cutOff),
        ms(lateMs.p99),
        decimals(rest.cpu),
        decimals(rest.generatorCpu),
        mebibytes(rest.rss.firstHalf),
        mebibytes(rest.rss.secondHalf),
      ];
    }),
  );
  const heading = ['Phase', 'Sender', 'offered/s', 'held/s', '201/s', 'p50 ms', 'p99 ms', '503/s', 'p50 ms'];
  const more = ['p99 ms', 'cut off', 'late p99', 'CPU', 'generator CPU', 'RSS MiB, 1st half', '2nd half'];
  return table([[...heading, ...more], ...rows]);
}

/** Of what a sender offered, so much was acknowledged. */
const share = (sender) => accepted(sender) / sender.offered;

export async function overload({ options, say, print }) {
  const rounds = [];
  for (let i = 0; i < options.rounds; i++) {
    say(`round ${i + 1} of ${options.rounds}`);
    const round = await measureRound({ options, say });
    rounds.push(round);
    print(
      `\nRound ${i + 1}: best rate ${whole(round.best)} events/s; after the overload ` +
        `${round.recoverySeconds} s until all was taken again\n\n${roundTable(round)}`,
    );
  }
  const p99 = (sender) => sender.answers['201']?.p99 ?? Infinity;
  const each = (figure) => rounds.map(({ phases, best }) => figure(phases, best));
  const figures = {
    'overload/rate': each(({ over }, best) => acceptedRate(over) / best),
    'overload/p99': each(({ over, normal }) => p99(over.senders.greedy) / p99(normal.senders.greedy)),
    'overload/modest': each(({ over }) => share(over.senders.modest)),
    'overload/modest-p99': each(({ over, normal }) => p99(over.senders.modest) / p99(normal.senders.modest)),
    'overload/memory': each(({ over }) => over.rss.secondHalf / over.rss.firstHalf),
    'overload/recovery': rounds.map(({ recoverySeconds: seconds }) => seconds),
  };
  print(`\n${figuresTable(figures)}`);
  return { rounds, figures, failures: 0 };
}
