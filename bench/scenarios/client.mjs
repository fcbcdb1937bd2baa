/** The client: what capturing costs, how much waits without memory, and how fast a collector takes what waits. */
import path from 'node:path';
import { Child, removeDirectory, temporaryDirectory } from '../lib/children.mjs';
import { countByReading, createKey, startCollector, stopCollector } from '../lib/collector.mjs';
import { figuresTable } from '../lib/figures.mjs';
import { checkStored } from '../lib/measure.mjs';
import { decimals, mebibytes, whole } from '../lib/numbers.mjs';
import { usageOf } from '../lib/procfs.mjs';
import { table } from '../lib/table.mjs';
import { failuresIn, load } from '../lib/wrk.mjs';

const PROCESS = path.resolve(import.meta.dirname, '../load/client.mjs');
const CAPTURES = { rate: 5000, seconds: 5 };
const FLUSHES = { rate: 20_000, seconds: 5 };
/** wrk runs so often on one ledger: to warm up, and on both sides of the drain. */
const LOADS = 3;

/** Resolves with what the process says. */
async function inClient(what, options) {
  const child = new Child(`the client (${what})`, process.execPath, [PROCESS, what, JSON.stringify(options)]);
  const measured = await child.json('stdout', (value) => 'refused' in value);
  await child.exited;
  if (measured.refused > 0) throw new Error(`${what}: ${measured.refused} events were refused`);
  return measured;
}

/** wrk before the drain and behind it: what changes on the machine meanwhile meets both. */
async function drained({ directory, options, seeds }) {
  const data = temporaryDirectory(options.scratch, 'collector');
  const { key } = await createKey(data);
  const collector = await startCollector(data, key);
  const { port, pid } = collector;
  const { connections } = options;
  const sendBy = (seconds) => load({ port, key, connections, seed: seeds.next(), seconds });
  const url = `http://127.0.0.1:${port}`;
  const sending = await inClient('cost', {
    ...{ ...CAPTURES, url, key },
    directory: temporaryDirectory(options.scratch, 'sending'),
  });
  const warm = await sendBy(options.warmup);
  const before = await sendBy(options.seconds);
  const cpuBefore = usageOf(pid).cpuSeconds;
  const drain = await inClient('drain', { directory, url, key });
  const collectorCpu = usageOf(pid).cpuSeconds - cpuBefore;
  const after = await sendBy(options.seconds);
  await stopCollector(collector);
  if (drain.left > 0 || drain.quarantined > 0) throw new Error('the backlog was not drained');
  const loads = [warm, before, after];
  const acked = loads.reduce(
    (sum, sent) => sum + sent.acked,
    1 + CAPTURES.rate * CAPTURES.seconds + drain.taken,
  );
  const stored = await countByReading(data);
  checkStored('drain', { stored, acked, connections, loads: LOADS });
  removeDirectory(data);
  const collectorRate = (before.rate + after.rate) / 2;
  const failures = loads.reduce((sum, sent) => sum + failuresIn(sent), 0);
  return { ...drain, collectorRate, collectorCpu, sending, failures };
}

async function measureRound({ options, seeds }) {
  const directory = temporaryDirectory(options.scratch, 'spool');
  const backlog = await inClient('backlog', { directory, events: options.events });
  const apart = () => temporaryDirectory(options.scratch, 'apart');
  const away = await inClient('cost', { ...CAPTURES, directory: apart() });
  const fsync = await inClient('durable', { ...FLUSHES, directory: apart() });
  const drain = await drained({ directory, options, seeds });
  removeDirectory(directory);
  return { backlog, away, fsync, drain };
}

const micro = (seconds, events) => decimals((seconds / events) * 1e6, 1);

/** One row a round. `rounds` are pairs of what the round is called and what was measured. */
export function drainTable(rounds) {
  const rows = rounds.map(([title, { drain }]) => [
    title,
    whole(drain.taken),
    whole(drain.rate),
    whole(drain.collectorRate),
    decimals(drain.rate / drain.collectorRate),
    micro(drain.cpuSeconds, drain.taken),
    micro(drain.collectorCpu, drain.taken),
  ]);
  const heading = ['Round', 'waiting', 'drained/s', "collector's 201/s by wrk", 'ratio'];
  return table([[...heading, 'client CPU us/event', 'collector CPU us/event'], ...rows]);
}

/** The same for what concerns the capturing side. */
export function captureTable(rounds) {
  const rows = rounds.map(([title, { backlog, away, fsync, drain }]) => [
    title,
    ...[away, drain.sending].flatMap(({ microseconds: { p50, p99 } }) => [
      decimals(p50, 1),
      decimals(p99, 1),
    ]),
    whole(fsync.rate),
    decimals(fsync.microseconds.p99 / 1000, 1),
    whole(backlog.rate),
    mebibytes(backlog.grownBytes),
  ]);
  const heading = [
    'Round',
    'away: p50 us',
    'p99 us',
    'sending: p50 us',
    'p99 us',
    'fsync: durable/s',
    'p99 ms',
  ];
  return table([[...heading, 'backlog: captured/s', 'RSS grew by MiB'], ...rows]);
}

export async function client({ options, seeds, say, print }) {
  const rounds = [];
  for (let i = 0; i < options.rounds; i++) {
    say(`client, round ${i + 1} of ${options.rounds}`);
    rounds.push(await measureRound({ options, seeds: seeds.fork(i) }));
  }
  const titled = rounds.map((round, i) => [`${i + 1}`, round]);
  print(`\n${captureTable(titled)}\n\n${drainTable(titled)}`);
  const costs = rounds.flatMap(({ away, drain }) => [away, drain.sending]);
  const figures = {
    'client/drain': rounds.map(({ drain }) => drain.rate / drain.collectorRate),
    'client/backlog': rounds.map(({ backlog }) => backlog.grownBytes / (1 << 20)),
    'client/p50': costs.map(({ microseconds }) => microseconds.p50),
    'client/p99': costs.map(({ microseconds }) => microseconds.p99),
    'client/fsync': rounds.map(({ fsync }) => fsync.rate),
  };
  print(`\n${figuresTable(figures)}`);
  return { rounds, figures, failures: rounds.reduce((sum, { drain }) => sum + drain.failures, 0) };
}
