/** The collector with something and without it, in turn in every round, each on an empty ledger. */
import { removeDirectory, temporaryDirectory } from './children.mjs';
import { countByReading, createKey, startCollector, stopCollector } from './collector.mjs';
import { checkStored, measure } from './measure.mjs';
import { decimals, mebibytes, whole } from './numbers.mjs';
import { table } from './table.mjs';

export const SIDES = ['with', 'without'];

/**
 * @param what it is that the sides differ in, for messages.
 * @param sides by name: `preload` and `more` are for the start; `beside` runs from the start to the end of the
 *   measurement and returns what ends it; `check` throws when the side was not what it is named after.
 */
async function measureSide(what, name, side, { options, seeds }) {
  const directory = temporaryDirectory(options.scratch, name);
  const { key } = await createKey(directory);
  const collector = await startCollector(directory, key, side);
  const end = side.beside?.(collector);
  const result = await measure(collector, { key, options, seeds });
  await end?.();
  await stopCollector(collector);
  const stored = await countByReading(directory);
  checkStored(`${name} ${what}`, { stored, acked: result.acked, connections: options.connections });
  side.check?.(directory, stored);
  removeDirectory(directory);
  return { ...result, stored };
}

/** One object a round, by the sides' names. */
export async function measureSides(what, sides, { options, seeds, say }) {
  const rounds = [];
  for (let i = 0; i < options.rounds; i++) {
    const round = {};
    for (const name of i % 2 === 0 ? SIDES : SIDES.toReversed()) {
      say(`round ${i + 1} of ${options.rounds}: ${name} ${what}`);
      round[name] = await measureSide(what, name, sides[name], { options, seeds: seeds.fork(i) });
    }
    rounds.push(round);
  }
  return rounds;
}

/** Processor time of the collector for each event, in microseconds. */
export function microseconds({ cpuSeconds, measured }) {
  return (cpuSeconds / measured) * 1e6;
}

export function failuresOf(rounds) {
  return rounds.flatMap((round) => Object.values(round)).reduce((sum, { failures }) => sum + failures, 0);
}

/** Two rows a round. `rounds` are pairs of what the round is called and what was measured. */
export function sidesTable(heading, rounds) {
  const rows = rounds.flatMap(([title, round]) =>
    SIDES.map((name) => {
      const { rate, latencyMs, memory, generatorCpu, failures } = round[name];
      return [
        title,
        name,
        whole(rate),
        decimals(latencyMs.p50, 1),
        decimals(latencyMs.p99, 1),
        mebibytes(memory.peak),
        decimals(microseconds(round[name]), 1),
        decimals(generatorCpu),
        whole(failures),
      ];
    }),
  );
  const headings = ['Round', heading, '201/s', 'p50 ms', 'p99 ms', 'peak MiB', 'CPU us/event', 'wrk CPU'];
  return table([[...headings, 'not 201'], ...rows]);
}
