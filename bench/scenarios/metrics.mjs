/**
 * What counting costs: the collector with its counters and its management listener, scraped as Prometheus does by
 * default and every second, and without any of it. Rates of a shared machine scatter by more than that; the processor
 * time of an event does less.
 */
import path from 'node:path';
import { figuresTable } from '../lib/figures.mjs';
import { failuresOf, measureSides, microseconds, sidesTable } from '../lib/sides.mjs';

const PROMETHEUS_SECONDS = 15;

/** @returns what ends it, and throws when a scrape failed or counted nothing. */
function scrape({ management }, firstMs, everyMs) {
  let counted = 0;
  let failure;
  let timer;
  const once = async () => {
    const answer = await fetch(`http://127.0.0.1:${management}/metrics`);
    const text = await answer.text();
    const found = /^collector_requests_total\{[^}]*code="accepted"\} ([1-9]\d*)$/m.exec(text);
    if (answer.status !== 200) throw new Error(`a scrape was answered ${answer.status}`);
    if (found) counted = Number(found[1]);
  };
  const next = (ms) => {
    timer = setTimeout(() => {
      once().catch((error) => (failure ??= error));
      next(everyMs);
    }, ms);
  };
  next(firstMs);
  return async () => {
    clearTimeout(timer);
    await once();
    if (failure) throw failure;
    if (counted === 0) throw new Error('with metrics: nothing was counted');
  };
}

const SIDES = {
  // The first falls into the middle of the measurement, so that one shorter than the interval has one too.
  [`every ${PROMETHEUS_SECONDS} s`]: {
    beside: (collector, { warmup, seconds }) =>
      scrape(collector, (warmup + seconds / 2) * 1000, PROMETHEUS_SECONDS * 1000),
  },
  'every second': { beside: (collector) => scrape(collector, 1000, 1000) },
  without: {
    preload: path.resolve(import.meta.dirname, '../preload/without-counters.mjs'),
    more: ['--management', 'off'],
  },
};
const [PROMETHEUS, OFTEN, WITHOUT] = Object.keys(SIDES);

export function metricsTable(rounds) {
  return sidesTable('Scraped', rounds, Object.keys(SIDES));
}

export async function metrics({ options, seeds, say, print }) {
  const rounds = await measureSides('metrics', SIDES, { options, seeds, say });
  const rate = (side) => rounds.map((round) => round[side].rate / round[WITHOUT].rate);
  const figures = {
    'metrics/rate': rate(PROMETHEUS),
    'metrics/rate-often': rate(OFTEN),
    'metrics/cpu': rounds.map((round) => microseconds(round[WITHOUT]) / microseconds(round[PROMETHEUS])),
  };
  const titled = rounds.map((round, i) => [`${i + 1}`, round]);
  print(`\n${metricsTable(titled)}\n\n${figuresTable(figures)}`);
  return { rounds, figures, failures: failuresOf(rounds) };
}
