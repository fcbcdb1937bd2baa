/**
 * What counting costs: the collector with its counters and its management listener, scraped every second, and without
 * either. Rates of a shared machine scatter by more than that; the processor time of an event does not.
 */
import path from 'node:path';
import { figuresTable } from '../lib/figures.mjs';
import { failuresOf, measureSides, microseconds, sidesTable } from '../lib/sides.mjs';

const SCRAPE_EVERY_MS = 1000;

/** @returns what ends it, and throws when a scrape failed or counted nothing. */
function scrape({ management }) {
  let counted = 0;
  let failure;
  const once = async () => {
    const answer = await fetch(`http://127.0.0.1:${management}/metrics`);
    const text = await answer.text();
    const found = /^collector_requests_total\{[^}]*code="accepted"\} ([1-9]\d*)$/m.exec(text);
    if (answer.status !== 200) throw new Error(`a scrape was answered ${answer.status}`);
    if (found) counted = Number(found[1]);
  };
  const timer = setInterval(() => once().catch((error) => (failure ??= error)), SCRAPE_EVERY_MS);
  return async () => {
    clearInterval(timer);
    await once();
    if (failure) throw failure;
    if (counted === 0) throw new Error('with metrics: nothing was counted');
  };
}

const SIDES = {
  with: { beside: scrape },
  without: {
    preload: path.resolve(import.meta.dirname, '../preload/without-counters.mjs'),
    more: ['--management', 'off'],
  },
};

export async function metrics({ options, seeds, say, print }) {
  const rounds = await measureSides('metrics', SIDES, { options, seeds, say });
  const figures = {
    'metrics/rate': rounds.map((round) => round.with.rate / round.without.rate),
    'metrics/cpu': rounds.map((round) => microseconds(round.without) / microseconds(round.with)),
  };
  const titled = rounds.map((round, i) => [`${i + 1}`, round]);
  print(`\n${sidesTable('Metrics', titled)}\n\n${figuresTable(figures)}`);
  return { rounds, figures, failures: failuresOf(rounds) };
}
