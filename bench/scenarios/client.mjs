/** The clients: cost of a capture, memory of a backlog, rate of sending it. */
import path from 'node:path';
import { Child, removeDirectory, run, temporaryDirectory } from '../lib/children.mjs';
import { countByReading, createKey, startCollector, stopCollector } from '../lib/collector.mjs';
import { figuresTable } from '../lib/figures.mjs';
import { newEvent } from '../lib/event.mjs';
import { checkStored } from '../lib/measure.mjs';
import { decimals, mebibytes, spread, whole, withSpread } from '../lib/numbers.mjs';
import { usageOf } from '../lib/procfs.mjs';
import { table } from '../lib/table.mjs';
import { failuresIn, load } from '../lib/wrk.mjs';

const LOAD = path.resolve(import.meta.dirname, '../load');
const SOURCES = path.resolve(import.meta.dirname, '../../clients/python/src');
/** In the order in which each round measures them. */
const CLIENTS = {
  Node: [process.execPath, path.join(LOAD, 'client.mjs')],
  Python: ['python3', path.join(LOAD, 'client.py')],
};
const CAPTURES = { rate: 5000 };
/** Offered in `fsync` mode: about what each client accepts, because it refuses events beyond 32 MiB. */
const FLUSHES = { Node: { rate: 20_000 }, Python: { rate: 10_000 } };
/** Length of both in seconds. */
const CAPTURE_SECONDS = 5;
/** Runs of wrk on one log: warm-up, before the drain, after it. */
const LOADS = 3;

const pace = (full, { smoke }) => (smoke ? { rate: 500, seconds: 2 } : { ...full, seconds: CAPTURE_SECONDS });

/** Resolves with the result that the process prints. */
async function inClient(language, what, options) {
  const [file, program] = CLIENTS[language];
  const given = JSON.stringify({ ...options, event: newEvent() });
  const child = new Child(`the client for ${language} (${what})`, file, [program, what, given]);
  const measured = await child.json('stdout', (value) => 'refused' in value);
  await child.exited;
  if (measured.refused > 0) throw new Error(`${what}: ${measured.refused} events were refused`);
  return measured;
}

/** Runs wrk before and after the drain, so that changes of the machine affect both. */
async function drained(language, { directory, waiting, options, seeds }) {
  const data = temporaryDirectory(options.scratch, 'collector');
  const { key } = await createKey(data);
  const collector = await startCollector(data, key);
  const { port, pid } = collector;
  const { connections } = options;
  const captures = pace(CAPTURES, options);
  const sendBy = (length) => load({ port, key, connections, seed: seeds.next(), seconds: length });
  const url = `http://127.0.0.1:${port}`;
  const sending = await inClient(language, 'cost', {
    ...{ ...captures, url, key },
    directory: temporaryDirectory(options.scratch, 'sending'),
  });
  const warm = await sendBy(options.warmup);
  const before = await sendBy(options.seconds);
  const cpuBefore = usageOf(pid).cpuSeconds;
  const drain = await inClient(language, 'drain', { directory, waiting, url, key });
  const collectorCpu = usageOf(pid).cpuSeconds - cpuBefore;
  const after = await sendBy(options.seconds);
  await stopCollector(collector);
  if (drain.left > 0 || drain.quarantined > 0) throw new Error('the backlog was not drained');
  const loads = [warm, before, after];
  const acked = loads.reduce(
    (sum, sent) => sum + sent.acked,
    1 + captures.rate * captures.seconds + drain.taken,
  );
  const stored = await countByReading(data);
  checkStored('drain', { stored, acked, connections, loads: LOADS });
  removeDirectory(data);
  const collectorRate = (before.rate + after.rate) / 2;
  const failures = loads.reduce((sum, sent) => sum + failuresIn(sent), 0);
  return { ...drain, collectorRate, collectorCpu, sending, failures };
}

async function measureClient(language, { options, seeds }) {
  const apart = (name) => temporaryDirectory(options.scratch, name);
  const directory = apart('spool');
  const backlog = await inClient(language, 'backlog', { directory, events: options.events });
  const away = await inClient(language, 'cost', { ...pace(CAPTURES, options), directory: apart('away') });
  const fsync = await inClient(language, 'durable', {
    ...pace(FLUSHES[language], options),
    directory: apart('fsync'),
  });
  const drain = await drained(language, { directory, waiting: backlog.waiting, options, seeds });
  removeDirectory(directory);
  return { backlog, away, fsync, drain };
}

async function measureRound(given) {
  const round = {};
  for (const language of Object.keys(CLIENTS)) round[language] = await measureClient(language, given);
  return round;
}

const inEach = (rounds, row) =>
  rounds.flatMap(([title, round]) =>
    Object.entries(round).map(([language, measured]) => [title, language, ...row(measured)]),
  );

/** Import times of the client, in milliseconds, one for each process. */
const imports = (rounds) =>
  rounds.flatMap(({ Python: { backlog, away, fsync, drain } }) =>
    [backlog, away, fsync, drain, drain.sending].map(({ importedMs }) => importedMs),
  );

const micro = (seconds, events) => decimals((seconds / events) * 1e6, 1);

/** One row for each round. `rounds` are pairs of a title and a measurement. */
export function drainTable(rounds) {
  const rows = inEach(rounds, ({ drain }) => [
    whole(drain.taken),
    whole(drain.rate),
    whole(drain.collectorRate),
    decimals(drain.rate / drain.collectorRate),
    micro(drain.cpuSeconds, drain.taken),
    micro(drain.collectorCpu, drain.taken),
  ]);
  const heading = ['Round', 'client', 'waiting', 'drained/s', "collector's 201/s by wrk", 'ratio'];
  return table([[...heading, 'client CPU us/event', 'collector CPU us/event'], ...rows]);
}

/** The same for capturing. */
export function captureTable(rounds) {
  const rows = inEach(rounds, ({ backlog, away, fsync, drain }) => [
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
    'client',
    'away: p50 us',
    'p99 us',
    'sending: p50 us',
    'p99 us',
    'fsync: durable/s',
    'p99 ms',
  ];
  return table([[...heading, 'backlog: captured/s', 'RSS grew by MiB'], ...rows]);
}

export function importLine(rounds) {
  const measured = withSpread(spread(imports(rounds.map(([, round]) => round))), (ms) => decimals(ms, 1));
  return `The import of the client for Python takes ${measured} ms.`;
}

export async function client({ options, seeds, say, print }) {
  // pip compiles a package when it installs it.
  await run('the compiler of Python', 'python3', ['-m', 'compileall', '-q', SOURCES]);
  const rounds = [];
  for (let i = 0; i < options.rounds; i++) {
    say(`client, round ${i + 1} of ${options.rounds}`);
    rounds.push(await measureRound({ options, seeds: seeds.fork(i) }));
  }
  const titled = rounds.map((round, i) => [`${i + 1}`, round]);
  print(`\n${captureTable(titled)}\n\n${drainTable(titled)}\n\n${importLine(titled)}`);
  const node = rounds.map(({ Node }) => Node);
  const python = rounds.map(({ Python }) => Python);
  const costs = (measured, at) =>
    measured.flatMap(({ away, drain }) => [away.microseconds[at], drain.sending.microseconds[at]]);
  const grown = (measured) => measured.map(({ backlog }) => backlog.grownBytes / (1 << 20));
  const figures = {
    'client/drain': node.map(({ drain }) => drain.rate / drain.collectorRate),
    'client/backlog': grown(node),
    'client/p50': costs(node, 'p50'),
    'client/p99': costs(node, 'p99'),
    'client/fsync': node.map(({ fsync }) => fsync.rate),
    'client-python/p50': costs(python, 'p50'),
    'client-python/p99': costs(python, 'p99'),
    'client-python/rate': python.map(({ backlog }) => backlog.rate),
    'client-python/drain': python.map(({ drain }) => drain.rate),
    'client-python/backlog': grown(python),
    'client-python/import': imports(rounds),
  };
  print(`\n${figuresTable(figures)}`);
  const failures = [...node, ...python].reduce((sum, { drain }) => sum + drain.failures, 0);
  return { rounds, figures, failures };
}
