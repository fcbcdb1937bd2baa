/** What the tree costs: the collector with it and without it, in turn in every round, each on an empty ledger. */
import fs from 'node:fs';
import path from 'node:path';
import { signedSize } from '../lib/checkpoint.mjs';
import { removeDirectory, temporaryDirectory } from '../lib/children.mjs';
import { countByReading, createKey, startCollector, stopCollector } from '../lib/collector.mjs';
import { figuresTable } from '../lib/figures.mjs';
import { checkStored, measure } from '../lib/measure.mjs';
import { decimals, mebibytes, whole } from '../lib/numbers.mjs';
import { table } from '../lib/table.mjs';

/** `check` throws when the tree was not what the side is named after. */
const SIDES = {
  with: {
    check(directory, stored) {
      const signed = signedSize(directory);
      if (signed === stored) return;
      throw new Error(
        `with its tree: ${stored} events are stored, and the newest checkpoint is of ${signed}`,
      );
    },
  },
  without: {
    preload: path.resolve(import.meta.dirname, '../preload/without-tree.mjs'),
    check(directory) {
      const hashes = path.join(directory, 'tree');
      const isOff = signedSize(directory) === undefined && fs.readdirSync(hashes).length === 0;
      if (!isOff) throw new Error('without its tree: there is a checkpoint, or there are hashes');
    },
  },
};

async function measureSide(name, { options, seeds }) {
  const { preload, check } = SIDES[name];
  const directory = temporaryDirectory(options.scratch, name);
  const { key } = await createKey(directory);
  const collector = await startCollector(directory, key, { preload });
  const result = await measure(collector, { key, options, seeds });
  await stopCollector(collector);
  const stored = await countByReading(directory);
  checkStored(`${name} its tree`, { stored, acked: result.acked, connections: options.connections });
  check(directory, stored);
  removeDirectory(directory);
  return { ...result, stored };
}

/** Two rows a round. `rounds` are pairs of what the round is called and what was measured. */
export function treeTable(rounds) {
  const rows = rounds.flatMap(([title, round]) =>
    Object.keys(SIDES).map((name) => {
      const { rate, latencyMs, cpuSeconds, measured, memory, generatorCpu, failures } = round[name];
      return [
        title,
        name,
        whole(rate),
        decimals(latencyMs.p50, 1),
        decimals(latencyMs.p99, 1),
        mebibytes(memory.peak),
        decimals((cpuSeconds / measured) * 1e6, 0),
        decimals(generatorCpu),
        whole(failures),
      ];
    }),
  );
  const heading = ['Round', 'Tree', '201/s', 'p50 ms', 'p99 ms', 'peak MiB', 'CPU us/event', 'wrk CPU'];
  return table([[...heading, 'not 201'], ...rows]);
}

export async function tree({ options, seeds, say, print }) {
  const rounds = [];
  for (let i = 0; i < options.rounds; i++) {
    const round = {};
    for (const name of i % 2 === 0 ? ['with', 'without'] : ['without', 'with']) {
      say(`round ${i + 1} of ${options.rounds}: ${name} its tree`);
      round[name] = await measureSide(name, { options, seeds: seeds.fork(i) });
    }
    rounds.push(round);
  }
  const figures = { 'tree/rate': rounds.map((round) => round.with.rate / round.without.rate) };
  print(`\n${treeTable(rounds.map((round, i) => [`${i + 1}`, round]))}\n\n${figuresTable(figures)}`);
  const failures = rounds.reduce((sum, round) => sum + round.with.failures + round.without.failures, 0);
  return { rounds, figures, failures };
}
