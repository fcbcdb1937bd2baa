// What the spool costs and carries, on this machine: node packages/client/bench/spool.mjs [directory]
//
//   append   what a call of append() costs the caller at 5,000 events/s of 1.2 KB, 'os'
//   fsync    whether 20,000 events/s become durable, and how long each takes
//   backlog  a million events waiting: how much memory they take, and how fast they are taken and done
//
// Stops by itself after about a minute; takes 1.3 GB below the directory, and leaves nothing there.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Spool } from '../dist/spool/spool.js';

const root = fs.mkdtempSync(path.join(process.argv[2] ?? os.tmpdir(), 'spool-bench-'));
const BODY = Buffer.alloc(1200, 'x');
const KIND = 'inference-start';
const mib = (bytes) => Math.round(bytes / 2 ** 20);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function open(name, durability, more = {}) {
  const onTrouble = (what, error) => console.error(what, error ?? '');
  return Spool.open({ directory: path.join(root, name), durability, onTrouble, ...more });
}

function percentiles(values) {
  const sorted = Float64Array.from(values).sort();
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))].toFixed(1);
  return `p50 ${at(0.5)}  p99 ${at(0.99)}  p99.9 ${at(0.999)}  max ${at(1)}`;
}

/** Appends at a steady rate, and takes the time of each call and of each promise. */
async function cost(name, more) {
  const spool = await open(name, 'os', more);
  const [calls, promises, pending] = [[], [], []];
  const begin = performance.now();
  const cpu = process.cpuUsage();
  for (let sent = 0; sent < 25_000;) {
    const due = Math.min(25_000, Math.floor((performance.now() - begin) * 5));
    for (; sent < due; sent++) {
      const before = performance.now();
      const promise = spool.append(KIND, BODY);
      const after = performance.now();
      if (sent > 5_000) calls.push((after - before) * 1000);
      pending.push(promise.then(() => promises.push((performance.now() - before) * 1000)));
    }
    await sleep(0);
  }
  await Promise.all(pending);
  const used = process.cpuUsage(cpu);
  console.log(`append (${name}), us a call: ${percentiles(calls)}`);
  console.log(`append (${name}), us until resolved: ${percentiles(promises.slice(5_000))}`);
  console.log(
    `append (${name}), us of CPU an event, all threads and the load: ${((used.user + used.system) / 25_000).toFixed(1)}`,
  );
  await spool.close();
}

/** Events come at a steady rate, whether or not the disk keeps up. */
async function sustained(perSecond) {
  const spool = await open('fsync', 'fsync');
  const latencies = [];
  const pending = [];
  const events = perSecond * 5;
  let refused = 0;
  const begin = performance.now();
  for (let sent = 0; sent < events;) {
    const due = Math.min(events, Math.floor(((performance.now() - begin) / 1000) * perSecond));
    for (; sent < due; sent++) {
      const before = performance.now();
      const done = () => latencies.push(performance.now() - before);
      pending.push(spool.append(KIND, BODY).then(done, () => refused++));
    }
    await sleep(0);
  }
  await Promise.all(pending);
  const rate = Math.round(latencies.length / ((performance.now() - begin) / 1000));
  console.log(`fsync, ${perSecond} events/s offered: ${rate} durable, ${refused} refused`);
  console.log(`fsync, ms until durable: ${percentiles(latencies)}`);
  await spool.close();
}

async function backlog() {
  const events = 1_000_000;
  globalThis.gc?.();
  const before = process.memoryUsage().rss;
  let spool = await open('backlog', 'os');
  let begin = performance.now();
  let highest = 0;
  for (let sent = 0; sent < events; sent += 500) {
    await Promise.all(Array.from({ length: 500 }, () => spool.append(KIND, BODY)));
    highest = Math.max(highest, process.memoryUsage().rss);
  }
  const appending = (performance.now() - begin) / 1000;
  console.log(
    `backlog: ${spool.state.waiting} waiting, appended at ${Math.round(events / appending)} events/s`,
  );
  console.log(
    `backlog: RSS ${mib(before)} MiB before, ${mib(highest)} at most: ${mib(highest - before)} more`,
  );
  await spool.close();
  begin = performance.now();
  spool = await open('backlog', 'os');
  console.log(
    `backlog: opened again in ${Math.round(performance.now() - begin)} ms, ${spool.state.waiting} waiting`,
  );
  begin = performance.now();
  let taken = 0;
  while (taken < events) {
    const some = await spool.take(256, 1 << 20);
    taken += some.length;
    for (const event of some) spool.done(event);
    highest = Math.max(highest, process.memoryUsage().rss);
  }
  const draining = (performance.now() - begin) / 1000;
  console.log(
    `backlog: taken and done at ${Math.round(events / draining)} events/s; RSS ${mib(highest)} MiB at most`,
  );
  await spool.close();
}

try {
  // First, before anything else has made the process larger.
  await backlog();
  await cost('plain', {});
  await cost('sealed', { key: Buffer.alloc(32, 7) });
  await sustained(20_000);
} finally {
  fs.rmSync(root, { recursive: true });
}
