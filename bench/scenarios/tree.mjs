/** What the tree costs: the collector with it and without it. */
import fs from 'node:fs';
import path from 'node:path';
import { signedSize } from '../lib/checkpoint.mjs';
import { figuresTable } from '../lib/figures.mjs';
import { failuresOf, measureSides, sidesTable } from '../lib/sides.mjs';

const WHAT = 'its tree';
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

/** Two rows a round. `rounds` are pairs of what the round is called and what was measured. */
export function treeTable(rounds) {
  return sidesTable('Tree', rounds);
}

export async function tree({ options, seeds, say, print }) {
  const rounds = await measureSides(WHAT, SIDES, { options, seeds, say });
  const figures = { 'tree/rate': rounds.map((round) => round.with.rate / round.without.rate) };
  print(`\n${treeTable(rounds.map((round, i) => [`${i + 1}`, round]))}\n\n${figuresTable(figures)}`);
  return { rounds, figures, failures: failuresOf(rounds) };
}
