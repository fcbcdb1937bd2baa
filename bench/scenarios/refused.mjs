/**
 * A sender beside connections that send requests without a key (load/refused.mjs). It sends an event every 20
 * ms on kept connections, and one a second on a new connection; a probe asks for health once a second. Every
 * acknowledged event must be stored.
 */
import http from 'node:http';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Child, removeDirectory, temporaryDirectory } from '../lib/children.mjs';
import { sendEvent } from '../lib/client.mjs';
import { countByReading, createKey, startCollector, stopCollector } from '../lib/collector.mjs';
import { boundTo, coresToBindTo } from '../lib/cores.mjs';
import { figuresTable } from '../lib/figures.mjs';
import { decimals, whole } from '../lib/numbers.mjs';
import { usageOf } from '../lib/procfs.mjs';
import { table } from '../lib/table.mjs';

const ATTACK = path.resolve(import.meta.dirname, '../load/refused.mjs');
const SORTS = ['none', 'sixteen', 'endless', 'churn'];
const EVENT_EVERY_MS = 20;
const PATIENCE_MS = 8000;
/** The probe time-out of Kubernetes. */
const PROBE_MS = 1000;

function probe(port) {
  return new Promise((resolve) => {
    const request = http.get({ host: '127.0.0.1', port, path: '/livez', agent: false, timeout: PROBE_MS });
    request.on('response', (response) => resolve(response.resume().statusCode === 200));
    request.on('timeout', () => request.destroy(new Error('no answer')));
    request.on('error', () => resolve(false));
  });
}

/** Sends and probes for this number of seconds. Resolves with the results when all requests are answered. */
async function watch({ port, management }, key, seconds) {
  const agent = new http.Agent({ keepAlive: true });
  const kept = [];
  const fresh = [];
  const probes = [];
  const until = performance.now() + seconds * 1000;
  for (let turn = 0; performance.now() < until; turn++) {
    kept.push(sendEvent(port, key, { agent, timeoutMs: PATIENCE_MS }));
    if (turn % (1000 / EVENT_EVERY_MS) === 0) {
      fresh.push(sendEvent(port, key, { agent: false, timeoutMs: PATIENCE_MS }));
      probes.push(probe(management));
    }
    await sleep(EVENT_EVERY_MS);
  }
  const [keptTimes, freshTimes] = await Promise.all([kept, fresh].map(timesOf));
  agent.destroy();
  const answered = (await Promise.all(probes)).filter(Boolean).length;
  return { kept: keptTimes, fresh: freshTimes, probes: { sent: probes.length, answered } };
}

/** Latencies in milliseconds. An event that was not acknowledged in time counts as PATIENCE_MS. */
async function timesOf(events) {
  const ends = await Promise.allSettled(events);
  const acked = ends.filter(({ value }) => value?.status === 201);
  const times = ends.map(({ value }) => (value?.status === 201 ? value.ms : PATIENCE_MS));
  times.sort((a, b) => a - b);
  const at = (part) => times[Math.min(times.length - 1, Math.floor(times.length * part))];
  return { sent: ends.length, acked: acked.length, p50: at(0.5), p99: at(0.99), max: at(1) };
}

async function measure(sort, { options, collector, key, core }) {
  const settings = JSON.stringify({ port: collector.port, connections: options.sockets, sort });
  const [file, ...args] = boundTo(core, [process.execPath, ATTACK, settings]);
  const attack = sort === 'none' ? undefined : new Child('the attack', file, args);
  await sleep(options.warmup * 1000);
  const before = usageOf(collector.pid).cpuSeconds;
  const seen = await watch(collector, key, options.seconds);
  const cpu = (usageOf(collector.pid).cpuSeconds - before) / options.seconds;
  const said = attack?.json('stdout', () => true);
  await attack?.stop();
  const { answers = 0, connections = 0 } = (await said) ?? {};
  return { sort, cpu, answers, connections, ...seen };
}

export function refusedTable(rounds) {
  const rows = rounds.flatMap(([title, phases]) =>
    phases.map(({ sort, cpu, answers, connections, kept, fresh, probes }) => [
      ...[title, sort, whole(answers), whole(connections)],
      ...[`${kept.acked}/${kept.sent}`, ...[kept.p50, kept.p99, kept.max].map((ms) => decimals(ms, 1))],
      ...[`${fresh.acked}/${fresh.sent}`, decimals(fresh.max, 1), `${probes.answered}/${probes.sent}`],
      decimals(cpu),
    ]),
  );
  const heading = ['Round', 'Attack', 'refusals', 'connections', '201', 'p50 ms', 'p99 ms', 'max ms'];
  return table([[...heading, '201 on a new one', 'max ms', 'probes', 'cores'], ...rows]);
}

export async function refused({ options, say, print }) {
  const rounds = [];
  const found = coresToBindTo();
  const [core, attackCore] = found.length > 1 ? found : [];
  for (let i = 0; i < options.rounds; i++) {
    const directory = temporaryDirectory(options.scratch, 'refused');
    const { key } = await createKey(directory);
    const collector = await startCollector(directory, key, { core });
    const phases = [];
    for (const sort of SORTS) {
      say(`round ${i + 1} of ${options.rounds}: ${sort}`);
      phases.push(await measure(sort, { options, collector, key, core: attackCore }));
    }
    await stopCollector(collector);
    const stored = await countByReading(directory);
    removeDirectory(directory);
    const acked = phases.reduce((sum, { kept, fresh }) => sum + kept.acked + fresh.acked, 1);
    if (stored < acked) throw new Error(`${acked} events were acknowledged, and ${stored} are stored`);
    rounds.push(phases);
    print(`\n${refusedTable([[`${i + 1}`, phases]])}`);
  }
  const attacks = rounds.flat().filter(({ sort }) => sort !== 'none');
  const figures = {
    'refused/p99': attacks.map(({ kept }) => kept.p99),
    'refused/probes': attacks.map(({ probes }) => probes.sent - probes.answered),
  };
  print(`\n${figuresTable(figures)}`);
  return { rounds, figures, failures: 0 };
}
