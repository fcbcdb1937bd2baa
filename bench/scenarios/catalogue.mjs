/** What the catalogue costs while events are taken: the collector with the thread that follows its log and without. */
import fs from 'node:fs';
import path from 'node:path';
import { figuresTable } from '../lib/figures.mjs';
import { failuresOf, measureSides, microseconds, sidesTable } from '../lib/sides.mjs';

const isThere = (directory) => fs.existsSync(path.join(directory, 'catalogue/catalogue.sqlite'));

const SIDES = {
  with: {
    check(directory) {
      if (!isThere(directory)) throw new Error('with its catalogue: there is none');
    },
  },
  without: {
    preload: path.resolve(import.meta.dirname, '../preload/without-catalogue.mjs'),
    check(directory) {
      if (isThere(directory)) throw new Error('without its catalogue: there is one');
    },
  },
};

/** Two rows a round. `rounds` are pairs of what the round is called and what was measured. */
export function catalogueTable(rounds) {
  return sidesTable('Catalogue', rounds);
}

export async function catalogue({ options, seeds, say, print }) {
  const rounds = await measureSides('its catalogue', SIDES, { options, seeds, say });
  const figures = {
    'catalogue/rate': rounds.map((round) => round.with.rate / round.without.rate),
    'catalogue/cpu': rounds.map((round) => microseconds(round.without) / microseconds(round.with)),
  };
  print(`\n${catalogueTable(rounds.map((round, i) => [`${i + 1}`, round]))}\n\n${figuresTable(figures)}`);
  return { rounds, figures, failures: failuresOf(rounds) };
}
