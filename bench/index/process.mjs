// One candidate in a process of its own, so that memory and native state are its alone.
//
//   fill    inserts as the ledger would, a look-up before each insert; then lets another process read; then closes
//   kill    inserts 2 million and kills itself with SIGKILL
//   reopen  opens and looks up the ids that were inserted
//   read    the same read-only
//
// Prints one line of JSON.
import { spawnSync } from 'node:child_process';
import { createCipheriv } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { createHistogram } from 'node:perf_hooks';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { candidates } from './candidates.mjs';

const { mode, name, directory, folder, entries, seconds, rate } = JSON.parse(process.argv[2]);
const BATCH = 64;
const CHUNK = 65_536;
const FRAME = 1_300;
const KILL_AT = 2_000_000;

/** Version 4 ids, 65,536 at a time, the same in every process: the key stream of AES in counter mode. */
function ids(chunk) {
  const counter = Buffer.alloc(16);
  counter.writeUInt32BE(chunk, 0);
  const bytes = createCipheriv('aes-128-ctr', Buffer.alloc(16, 7), counter).update(Buffer.alloc(CHUNK * 16));
  for (let at = 0; at < bytes.length; at += 16) {
    bytes[at + 6] = (bytes[at + 6] & 0x0f) | 0x40;
    bytes[at + 8] = (bytes[at + 8] & 0x3f) | 0x80;
  }
  return bytes;
}

function memory() {
  const status = fs.readFileSync('/proc/self/status', 'utf8');
  return Object.fromEntries(
    ['VmRSS', 'RssAnon', 'VmHWM'].map((key) => [
      key,
      Math.round(Number(new RegExp(`${key}:\\s+(\\d+)`).exec(status)[1]) / 1024),
    ]),
  );
}

function bytesIn(folderName) {
  return fs
    .readdirSync(folderName, { recursive: true })
    .map((file) => fs.statSync(path.join(folderName, file)))
    .reduce((sum, stat) => sum + (stat.isFile() ? stat.blocks * 512 : 0), 0);
}

/** How long this thread has stood in line for a core so far, ms: the machine's doing and not the candidate's. */
const schedule = fs.openSync('/proc/thread-self/schedstat', 'r');
const scheduleText = Buffer.alloc(64);
function queued() {
  const length = fs.readSync(schedule, scheduleText, 0, 64, 0);
  return Number(scheduleText.toString('latin1', 0, length).split(' ')[1]) / 1e6;
}

const report = (result) => process.stdout.write(`${JSON.stringify(result)}\n`);

async function insert(session, limit, deadline, everyMillion) {
  const times = createHistogram();
  const stalls = { 'over 2 ms': 0, 'over 10 ms': 0, 'over 50 ms': 0 };
  let maxOwn = 0;
  let spent = 0;
  let spentBefore = 0;
  let done = 0;
  const started = performance.now();
  for (let chunk = 0; done < limit && performance.now() < deadline; chunk++) {
    const bytes = ids(chunk);
    for (let first = 0; first < CHUNK && done < limit; first += BATCH) {
      const batch = bytes.subarray(first * 16, (first + BATCH) * 16);
      const addresses = Array.from({ length: BATCH }, (_, i) => (done + i) * FRAME);
      const queuedBefore = queued();
      const since = process.hrtime.bigint();
      for (let i = 0; i < BATCH; i++) if (session.has(batch, i * 16)) throw new Error('a new id was found');
      const pending = session.put(batch, addresses);
      if (pending) await pending;
      const took = process.hrtime.bigint() - since;
      times.record(took > 0n ? took : 1n);
      const ms = Number(took) / 1e6;
      const own = ms - (queued() - queuedBefore);
      maxOwn = Math.max(maxOwn, own);
      if (own > 2) stalls['over 2 ms']++;
      if (own > 10) stalls['over 10 ms']++;
      if (own > 50) stalls['over 50 ms']++;
      spent += ms;
      done += BATCH;
      // At a given rate the candidate's own threads get the pauses that they would get beside a real ledger.
      const ahead = (done * 1000) / rate - (performance.now() - started);
      if (ahead > 1) await setTimeout(ahead);
      if (done % 1_000_000 === 0) {
        everyMillion?.(Math.round(1e9 / (spent - spentBefore)));
        spentBefore = spent;
      }
    }
  }
  return { done, spent, times, maxOwn, stalls };
}

function lookUp(session, count) {
  const since = performance.now();
  let found = 0;
  let asked = 0;
  for (let chunk = 0; chunk * CHUNK < count; chunk += 8) {
    const bytes = ids(chunk);
    for (let i = 0; i < CHUNK && chunk * CHUNK + i < count; i += 64, asked++)
      if (session.has(bytes, i * 16)) found++;
  }
  return { asked, found, microseconds: Number((((performance.now() - since) * 1000) / asked).toFixed(1)) };
}

const candidate = candidates[name];
if (mode === 'fill') {
  fs.mkdirSync(directory, { recursive: true });
  const before = memory();
  const session = await candidate.open(directory, false, folder);
  const perMillion = [];
  const deadline = performance.now() + seconds * 1000;
  const { done, spent, times, maxOwn, stalls } = await insert(session, entries, deadline, (rate) => {
    perMillion.push(rate);
    process.stderr.write(`${name} ${perMillion.length} M: ${rate}/s\n`);
  });
  const after = memory();
  const argument = JSON.stringify({ mode: 'read', name, directory, folder, entries: done });
  const reader = spawnSync(process.execPath, [fileURLToPath(import.meta.url), argument], {
    encoding: 'utf8',
  });
  const stats = session.stats?.();
  const closing = performance.now();
  await session.close();
  report({
    done,
    rate: Math.round((done * 1000) / spent),
    perMillion,
    batch: {
      p50: times.percentile(50) / 1e6,
      p99: times.percentile(99) / 1e6,
      max: times.max / 1e6,
      maxOnCore: maxOwn,
    },
    stalls,
    before,
    after,
    stats,
    closeMs: Math.round(performance.now() - closing),
    disk: bytesIn(directory),
    reader:
      reader.status === 0 ? JSON.parse(reader.stdout) : (/Error: .*/.exec(reader.stderr)?.[0] ?? 'failed'),
  });
} else if (mode === 'kill') {
  fs.mkdirSync(directory, { recursive: true });
  const session = await candidate.open(directory, false, folder);
  await insert(session, Math.min(entries, KILL_AT), Infinity);
  process.kill(process.pid, 'SIGKILL');
} else {
  const since = performance.now();
  const session = await candidate.open(directory, mode === 'read', folder);
  const openMs = Number((performance.now() - since).toFixed(1));
  report({ openMs, ...lookUp(session, entries), memory: memory() });
  await session.close();
}
