/** Rate and memory of `collector verify` on one core, and time of a start that rebuilds the tree. */
import fs from 'node:fs';
import path from 'node:path';
import { removeDirectory } from '../lib/children.mjs';
import { startCollector, stopCollector } from '../lib/collector.mjs';
import { figuresTable } from '../lib/figures.mjs';
import { filledLedger } from '../lib/filled.mjs';
import { decimals, mebibytes, whole } from '../lib/numbers.mjs';
import { usageOf } from '../lib/procfs.mjs';
import { table } from '../lib/table.mjs';
import { coresToBindTo } from '../lib/cores.mjs';
import { timedCommand } from '../lib/timed-command.mjs';

/** The smaller log has one event in PART; the growth of memory is measured against it. */
const PART = 10;

/** Runs verify once. @throws unless the log is intact, with all events there and signed. */
async function verifyOnce({ directory, filled, events = filled.events }, core) {
  const { stdout, ...used } = await timedCommand('verify', ['--data-dir', directory, '--json'], { core });
  const found = JSON.parse(stdout);
  if (!found.intact || found.events !== events || found.unsigned_entries !== 0) {
    throw new Error(`verify should have found ${events} events, all signed: ${stdout}`);
  }
  const rate = events / used.seconds;
  return { events, ...used, rate, bytesPerSecond: rate * filled.frameBytes };
}

/** Starts and stops a collector on the log. */
async function startOnce({ directory, key }) {
  const collector = await startCollector(directory, key);
  const { peak } = usageOf(collector.pid);
  await stopCollector(collector);
  return { events: collector.opened.events, ...collector.start, peak };
}

/** One row for each run of verify. `rounds` are pairs of a title and a measurement. */
export function verifyTable(rounds) {
  const rows = rounds.flatMap(([title, { part, all }]) =>
    [part, all].map(({ events, seconds, rate, bytesPerSecond, cpuSeconds, peakBytes }) => [
      title,
      whole(events),
      decimals(seconds),
      decimals(cpuSeconds),
      whole(rate),
      whole(bytesPerSecond / 1e6),
      mebibytes(peakBytes),
    ]),
  );
  return table([['Round', 'events', 's', 'CPU s', 'events/s', 'MB/s', 'peak RSS MiB'], ...rows]);
}

/** One row a start: with the tree as it was left, and with its files removed. */
export function treeStartsTable(starts) {
  const rows = starts.flatMap(({ kept, rebuilt }) =>
    Object.entries({ 'as it was left': kept, rebuilt: rebuilt }).map(([what, start]) => [
      what,
      whole(start.events),
      decimals(start.listeningMs / 1000),
      decimals(start.firstAnswerMs / 1000),
      mebibytes(start.peak),
    ]),
  );
  return table([['Tree', 'events', 'listening s', 'first 201 s', 'peak RSS MiB'], ...rows]);
}

/** A sentence about the core of the measurement. */
export function pinnedLine(pinned) {
  return pinned
    ? 'verify was bound to one core.'
    : 'There was no `taskset`: verify may have used more than one core, and its rate is no figure.';
}

export async function verify({ options, say, print }) {
  const all = await filledLedger({ options, say });
  const events = Math.ceil(all.filled.events / PART);
  const part = await filledLedger({ options: { ...options, events, dataDir: undefined }, say });
  const [core] = coresToBindTo();
  const pinned = core !== undefined;

  say('verify, untimed: brings the files into the page cache');
  for (const ledger of [part, all]) await verifyOnce(ledger, core);
  const rounds = [];
  for (let i = 0; i < options.rounds; i++) {
    say(`verify, round ${i + 1} of ${options.rounds}`);
    rounds.push({ part: await verifyOnce(part, core), all: await verifyOnce(all, core) });
  }
  removeDirectory(part.directory);
  const titled = rounds.map((round, i) => [`${i + 1}`, round]);
  print(`\n${verifyTable(titled)}\n\n${pinnedLine(pinned)}`);

  say('starts: with the tree, and with its files removed');
  const kept = await startOnce(all);
  fs.rmSync(path.join(all.directory, 'tree'), { recursive: true });
  const rebuilt = await startOnce(all);
  // The rebuilt tree must have the root that was signed.
  await verifyOnce({ ...all, events: rebuilt.events + 1 }, core);
  removeDirectory(all.directory);
  const starts = { kept, rebuilt };
  print(`\n${treeStartsTable([starts])}`);

  const figures = {
    ...(pinned && { 'verify/rate': rounds.map((round) => round.all.rate) }),
    'verify/growth': rounds.map((round) => (round.all.peakBytes - round.part.peakBytes) / (1 << 20)),
  };
  print(`\n${figuresTable(figures)}`);
  return { filled: all.filled, pinned, rounds, starts, figures, failures: 0 };
}
