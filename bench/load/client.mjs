/**
 * A process with a client: node client.mjs <what> <JSON of its options>. Prints its measurement as a line of
 * JSON.
 *
 *   cost      time of a call at a steady rate
 *   durable   durable events a second in `fsync` mode
 *   backlog   captures at full speed without a collector, and growth of the process
 *   drain     rate at which a collector takes a spool
 */
import { createClient } from '../../packages/client/dist/index.js';

/** Nothing listens there. */
const AWAY = 'http://127.0.0.1:9';
/** Captures in one turn of the event loop. */
const AT_ONCE = 500;

const [what, text] = process.argv.slice(2);
const options = JSON.parse(text);
const { run_id, parent_event_id, system_metadata, artifact } = JSON.parse(options.event);
const { latency_ms: latencyMs, ...app } = system_metadata;
const turn = () => new Promise((resolve) => setTimeout(resolve, 0));
let refused = 0;

/** Captures events of the same size as the other loads. */
async function open({ url = AWAY, key = 'none', directory, durability = 'os' }) {
  const log = createClient({
    ...{ url, apiKey: key, spool: { directory, durability }, app },
    onRefused: () => refused++,
    onTrouble: (said) => process.stderr.write(`${said}\n`),
  });
  await log.ready();
  const run = log.run(run_id);
  return { log, capture: () => run.artifact(artifact, { parentEventId: parent_event_id, latencyMs }) };
}

/** Calls `act` at a rate a second, for a number of seconds. */
async function steadily(perSecond, seconds, act) {
  const count = perSecond * seconds;
  const begin = performance.now();
  for (let done = 0; done < count; await turn()) {
    const due = Math.min(count, Math.floor(((performance.now() - begin) * perSecond) / 1000));
    for (; done < due; done++) act(done);
  }
}

/** In microseconds. */
function percentiles(values) {
  const sorted = Float64Array.from(values).sort();
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  return { p50: at(0.5), p99: at(0.99), max: at(1) };
}

async function cost({ rate, seconds }) {
  const { log, capture } = await open(options);
  const calls = [];
  await steadily(rate, seconds, (done) => {
    const before = performance.now();
    capture();
    const after = performance.now();
    // Calls of the first second are left out: the code is being compiled.
    if (done > rate) calls.push((after - before) * 1000);
  });
  await log.close({ timeoutMs: options.url === undefined ? 0 : 60_000 });
  return { microseconds: percentiles(calls) };
}

async function durable({ rate, seconds }) {
  const { log, capture } = await open({ ...options, durability: 'fsync' });
  let last = 0;
  let events = 0;
  const noted = () => {
    events++;
    last = performance.now();
  };
  const begin = performance.now();
  const waits = [];
  await steadily(rate, seconds, () => {
    const before = performance.now();
    capture().then(() => {
      noted();
      waits.push((last - before) * 1000);
    }, noted);
  });
  const { waiting } = await log.close({ timeoutMs: 0 });
  return { rate: waiting / ((last - begin) / 1000), waiting, events, microseconds: percentiles(waits) };
}

async function backlog({ events }) {
  const { log, capture } = await open(options);
  const { rss } = process.memoryUsage;
  const before = rss();
  let highest = before;
  const begin = performance.now();
  for (let captured = 0; captured < events;) {
    const now = Math.min(AT_ONCE, events - captured);
    for (let i = 1; i < now; i++) capture();
    await capture();
    captured += now;
    highest = Math.max(highest, rss());
  }
  const rate = events / ((performance.now() - begin) / 1000);
  const { heapTotal, external } = process.memoryUsage();
  const { waiting } = await log.close({ timeoutMs: 0 });
  return { waiting, rate, grownBytes: highest - before, heapTotal, external };
}

async function drain() {
  const { log } = await open(options);
  const { waiting } = log.state;
  const begin = performance.now();
  const cpu = process.cpuUsage();
  const { waiting: left } = await log.flush(300_000);
  const seconds = (performance.now() - begin) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const { quarantined } = log.state;
  await log.close();
  const taken = waiting - left - quarantined;
  return { taken, left, quarantined, seconds, rate: taken / seconds, cpuSeconds: (user + system) / 1e6 };
}

const measured = await { cost, durable, backlog, drain }[what](options);
process.stdout.write(`${JSON.stringify({ ...measured, refused })}\n`);
