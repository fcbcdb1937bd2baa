/**
 * Cost of the most expensive bodies. First the processor time to examine each, or to compare it with a stored
 * one, beside observations of the same size. Then a collector that receives them from one key over many
 * connections, and the latency of a modest sender with another key.
 */
import http from 'node:http';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { Child, removeDirectory, temporaryDirectory } from '../lib/children.mjs';
import { sendEvent } from '../lib/client.mjs';
import { createKey, DIST, startCollector, stopCollector } from '../lib/collector.mjs';
import { KIND } from '../lib/event.mjs';
import { figuresTable } from '../lib/figures.mjs';
import {
  HOSTILE_BODIES,
  HOSTILE_PAIRS,
  hostileBodies,
  PLAIN_BODY,
  PLAIN_PAIR,
} from '../lib/hostile-bodies.mjs';
import { decimals, mebibytes, whole } from '../lib/numbers.mjs';
import { RssSampler } from '../lib/procfs.mjs';
import { table } from '../lib/table.mjs';

const LOAD = path.resolve(import.meta.dirname, '../load/hostile.mjs');
const CONNECTIONS = 64;
const PROBE_EVERY_MS = 50;
const REPEATS = 20;
const MAX_DEPTH = 64;

/**
 * No load first, as the baseline of the machine; then each body as gzip, and one of them in every other
 * coding.
 */
const LOADS = [
  { kind: 'nothing', coding: '', connections: 0 },
  ...HOSTILE_BODIES.map((kind) => ({ kind, coding: 'gzip' })),
  ...HOSTILE_PAIRS.map((kind) => ({ kind, coding: 'gzip' })),
  ...['identity', 'br', 'zstd'].map((coding) => ({ kind: 'objects, empty', coding })),
];

const load = (file) => import(pathToFileURL(path.join(DIST, file)));

function cpuMs() {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Mean processor time of this thread. The kernel counts in steps of some milliseconds. */
function meanMs(work, repeats) {
  work();
  const before = cpuMs();
  for (let i = 0; i < repeats; i++) work();
  return (cpuMs() - before) / repeats;
}

async function costs({ smoke }) {
  const { examine } = await load('ledger/examine.js');
  const { commitmentOf } = await load('tree/merkle.js');
  const { sameContent } = await load('store/content.js');
  const stored = (body) => {
    examine(body, KIND, 'minimum', MAX_DEPTH);
    commitmentOf(body);
  };
  return [...HOSTILE_BODIES, ...HOSTILE_PAIRS].map((kind) => {
    const [body, other] = hostileBodies(kind).map((each) => Buffer.from(each));
    const ms = meanMs(
      () => {
        stored(body);
        if (other !== undefined && !sameContent(other, body)) throw new Error(`${kind}: not the same`);
      },
      smoke ? 1 : REPEATS,
    );
    return { kind, bytes: body.length, ms };
  });
}

async function probe(port, key, seconds) {
  const agent = new http.Agent({ keepAlive: true });
  const times = [];
  let failures = 0;
  for (const until = performance.now() + seconds * 1000; performance.now() < until;) {
    const answer = await sendEvent(port, key, { agent }).catch(() => undefined);
    if (answer?.status === 201) times.push(answer.ms);
    else failures++;
    await sleep(PROBE_EVERY_MS);
  }
  agent.destroy();
  const sorted = times.toSorted((a, b) => a - b);
  const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? Infinity;
  return { sent: times.length + failures, failures, p50: at(0.5), p99: at(0.99), max: at(1) };
}

async function underLoad({ kind, coding, connections = CONNECTIONS }, { seconds, scratch }) {
  const directory = temporaryDirectory(scratch, 'hostile');
  const [hostile, modest] = [await createKey(directory), await createKey(directory)];
  const collector = await startCollector(directory, modest.key);
  const settings = { port: collector.port, key: hostile.key, kind, coding, connections };
  const sampler = new RssSampler(collector.pid);
  const sender = new Child('the sender', process.execPath, [LOAD, JSON.stringify(settings)]);
  await sleep(1000);
  const probed = await probe(collector.port, modest.key, seconds);
  const statuses = sender.json('stdout', () => true);
  sender.write('\n');
  const answers = await statuses;
  await sender.exited;
  const rss = Math.max(...sampler.stop().map((sample) => sample.rss));
  await stopCollector(collector);
  removeDirectory(directory);
  return { kind, coding, answers, rss, ...probed };
}

/** Adds to each the ratio of its time to that of a plain body with the same treatment. */
function besidePlain(rows) {
  const plain = (wanted) => rows.find(({ kind }) => kind === wanted).ms;
  return rows.map((row) => ({
    ...row,
    times: row.ms / plain(HOSTILE_PAIRS.includes(row.kind) ? PLAIN_PAIR : PLAIN_BODY),
  }));
}

function costsTable(rows) {
  return table([
    ['A MiB of', 'ms', 'times plain'],
    ...rows.map(({ kind, ms, times }) => [kind, decimals(ms, 1), decimals(times, 1)]),
  ]);
}

function loadsTable(rows) {
  const show = ({ kind, coding, p50, p99, max, failures, rss, answers }) => {
    const others = Object.entries(answers).map(([status, count]) => `${status}: ${whole(count)}`);
    return [
      `${kind} ${coding}`.trim(),
      ...[p50, p99, max].map((ms) => decimals(ms, 0)),
      whole(failures),
      mebibytes(rss),
      others.join(', '),
    ];
  };
  const heading = [
    'One key sends',
    'the other: p50 ms',
    'p99 ms',
    'max ms',
    'not 201',
    'RSS MiB',
    'answers to the first',
  ];
  return table([heading, ...rows.map(show)]);
}

export async function hostile({ options, say, print }) {
  const measured = besidePlain(await costs(options));
  print(`\n${costsTable(measured)}`);
  const loads = [];
  for (const each of options.smoke ? LOADS.slice(0, 2) : LOADS) {
    say(`${each.kind}, ${each.coding}`);
    loads.push(await underLoad(each, options));
  }
  const figures = {
    'hostile/cost': measured.map(({ times }) => times),
    'hostile/p99': loads.slice(1).map(({ p99 }) => p99),
    'hostile/rss': loads.map(({ rss }) => rss / (1 << 20)),
  };
  print(`\n${loadsTable(loads)}\n\n${figuresTable(figures)}`);
  return { costs: measured, loads, figures, failures: 0 };
}
