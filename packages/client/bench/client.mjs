// What capture costs its caller, and how fast a backlog drains: node packages/client/bench/client.mjs [events]
//
//   capture  what a call of run.output() costs at 5,000 events/s of 1.2 KB, 'os', while the collector takes them
//   drain    how many events/s a real collector gets out of a spool that is full, from one process
//
// Needs packages/collector/dist. Stops by itself within about a minute, and leaves nothing behind.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createClient } from '../dist/index.js';

const COLLECTOR = path.resolve(import.meta.dirname, '../../collector/dist/cli/main.js');
const EVENTS = Number(process.argv[2] ?? 100_000);
const root = fs.mkdtempSync(path.join(os.tmpdir(), 'client-bench-'));
const dataDir = path.join(root, 'data');
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const SUMMARY = 'x'.repeat(900);

function percentiles(values) {
  const sorted = Float64Array.from(values).sort();
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))].toFixed(1);
  return `p50 ${at(0.5)}  p99 ${at(0.99)}  p99.9 ${at(0.999)}  max ${at(1)}`;
}

async function startCollector() {
  const keys = ['keys', 'create', '--data-dir', dataDir, '--json', '--organisation', 'default'];
  const printed = execFileSync(process.execPath, [COLLECTOR, ...keys, '--permissions', 'all']).toString();
  const apiKey = /cek_[a-z2-7]{12}_[\w-]{43}/.exec(printed)[0];
  const where = ['--port', '0', '--data-dir', dataDir, '--management', 'off'];
  const child = spawn(process.execPath, [COLLECTOR, 'serve', ...where]);
  let said = '';
  for await (const piece of child.stderr) {
    said += piece;
    const port = /"port":(\d+),.*"msg":"listening"/.exec(said)?.[1];
    if (port) return { child, apiKey, url: `http://127.0.0.1:${port}` };
  }
  throw new Error(said);
}

function open(url, apiKey, name) {
  const spool = { directory: path.join(root, name), durability: 'os' };
  return createClient({ url, apiKey, spool, concurrency: Number(process.env.CONCURRENCY ?? 64) });
}

async function cost(name, url, apiKey) {
  const log = open(url, apiKey, name);
  await log.ready();
  const run = log.startRun({ model: { model_id: 'bench', model_version: '1' } });
  const calls = [];
  const begin = performance.now();
  for (let sent = 0; sent < 25_000;) {
    const due = Math.min(25_000, Math.floor((performance.now() - begin) * 5));
    for (; sent < due; sent++) {
      const before = performance.now();
      run.output({ output_uri: 'urn:bench:1', summary: SUMMARY });
      const after = performance.now();
      if (sent > 5_000) calls.push((after - before) * 1000);
    }
    await sleep(0);
  }
  console.log(`capture (${name}), us a call: ${percentiles(calls)}`);
  await log.close({ timeoutMs: 60_000 });
}

async function drain({ url, apiKey }) {
  const away = open('http://127.0.0.1:9', apiKey, 'backlog');
  const run = away.startRun({ model: { model_id: 'bench', model_version: '1' } });
  const before = process.memoryUsage().rss;
  for (let sent = 1; sent < EVENTS; sent += 500) {
    for (let i = 0; i < 500; i++) run.output({ output_uri: 'urn:bench:1', summary: SUMMARY });
    await run.output({ output_uri: 'urn:bench:1' });
  }
  console.log(
    `away: ${away.state.waiting} waiting, RSS grew by ${((process.memoryUsage().rss - before) / 2 ** 20).toFixed(0)} MiB`,
  );
  await away.close({ timeoutMs: 0 });
  const log = open(url, apiKey, 'backlog');
  await log.ready();
  const { waiting } = log.state;
  const begin = performance.now();
  const cpu = process.cpuUsage();
  await log.flush(120_000);
  const seconds = (performance.now() - begin) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  console.log(
    `drain: ${waiting} events in ${seconds.toFixed(1)} s, ${Math.round(waiting / seconds)} events/s, ` +
      `${((user + system) / waiting).toFixed(0)} us of CPU an event`,
  );
  await log.close();
}

const collector = await startCollector();
try {
  await cost('away', 'http://127.0.0.1:9', collector.apiKey);
  await cost('sending', collector.url, collector.apiKey);
  await drain(collector);
} finally {
  collector.child.kill('SIGTERM');
  await new Promise((resolve) => collector.child.on('exit', resolve));
  fs.rmSync(root, { recursive: true });
}
