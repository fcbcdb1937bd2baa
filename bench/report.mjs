/**
 * Prints the table of bench/RESULTS.md from the JSON of runs of the scenario `rate`: node bench/report.mjs
 * FILE...
 */
import { readFileSync } from 'node:fs';
import { decimals, mebibytes, spread, whole, withSpread } from './lib/numbers.mjs';
import { PEERS } from './lib/peers.mjs';
import { table } from './lib/table.mjs';

const runs = process.argv.slice(2).map((file) => JSON.parse(readFileSync(file, 'utf8')));
const rounds = runs.filter(({ scenario }) => scenario === 'rate').flatMap((run) => run.rounds);

/** The median of all rounds, with the lowest and the highest. */
function row([name, { title }]) {
  const measured = rounds.flatMap((round) => round[name] ?? []);
  if (measured.length === 0) return [];
  const over = (pick, show) => withSpread(spread(measured.map(pick)), show);
  const ofRaw = rounds.flatMap(({ raw, [name]: peer }) => (raw && peer ? [peer.rate / raw.rate] : []));
  return [
    [
      title,
      over(({ rate }) => rate, whole),
      ofRaw.length > 0 ? withSpread(spread(ofRaw)) : '',
      over(
        ({ latencyMs }) => latencyMs.p99,
        (ms) => decimals(ms, 1),
      ),
      over((peer) => (peer.cpuSeconds / peer.measured) * 1e6, whole),
      over(({ memory }) => memory.peak, mebibytes),
    ],
  ];
}

const heading = ['Peer', '201/s', 'of raw node:http', 'p99 ms', 'CPU µs/event', 'peak RSS MiB'];
process.stdout.write(`${table([heading, ...Object.entries(PEERS).flatMap(row)])}\n\n`);
for (const { startedAt, versions, machine, options } of runs)
  process.stdout.write(
    `${startedAt.slice(0, 10)}, commit ${versions.collector}, ${options.rounds} rounds, ` +
      `${machine.cores} × ${machine.cpu}, flush ${decimals(machine.flush.p50Ms)} ms\n`,
  );
