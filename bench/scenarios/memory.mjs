/** Memory under large bodies, many connections, and deliberately slow clients. */
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { removeDirectory, temporaryDirectory } from '../lib/children.mjs';
import { sendEvent } from '../lib/client.mjs';
import { createKey, startCollector, stopCollector } from '../lib/collector.mjs';
import { requireRoom } from '../lib/disk.mjs';
import { mebibytes, spread, whole } from '../lib/numbers.mjs';
import { RssSampler, usageOf } from '../lib/procfs.mjs';
import { SlowSockets } from '../lib/slow-sockets.mjs';
import { table } from '../lib/table.mjs';
import { failuresIn, load } from '../lib/wrk.mjs';

const MIB = 1 << 20;
const SETTLE_MS = 3000;
/** Bytes that a second of the largest bodies takes on the disk, at most. */
const BYTES_A_SECOND = 400 * MIB;
const PROBE_EVERY_MS = 250;

function summaryOf(sent) {
  return { rate: sent.rate, failures: failuresIn(sent), errors: sent.errors, latencyMs: sent.latencyMs };
}

/** Sends one event after another beside the slow clients, as a normal sender does. */
async function probe(port, key, untilMs) {
  const agent = new http.Agent({ keepAlive: true });
  const times = [];
  let failures = 0;
  while (performance.now() < untilMs) {
    const answer = await sendEvent(port, key, { agent }).catch(() => undefined);
    if (answer?.status === 201) times.push(answer.ms);
    else failures++;
    await sleep(PROBE_EVERY_MS);
  }
  agent.destroy();
  return { sent: times.length + failures, failures, ms: times.length > 0 ? spread(times) : null };
}

function phasesOf(options) {
  const { connections, seconds, sockets } = options;
  const small = (count) => async (common) =>
    summaryOf(await load({ ...common, seconds, connections: count }));
  return [
    { title: `small events, ${whole(connections)} connections`, act: small(connections) },
    {
      title: 'bodies of 1 MiB, 64 connections',
      act: async (common) => summaryOf(await load({ ...common, seconds, connections: 64, eventBytes: MIB })),
    },
    { title: `small events, ${whole(sockets)} connections`, act: small(sockets) },
    {
      title: `${whole(sockets)} slow senders and readers`,
      act: async ({ port, key }) => {
        const slow = new SlowSockets({ port, key, count: sockets });
        const probed = await probe(port, key, performance.now() + seconds * 1000);
        slow.close();
        return { failures: probed.failures, probe: probed, sockets: slow.counts };
      },
    },
  ];
}

async function measurePhase({ act }, { options, seeds }) {
  const directory = temporaryDirectory(options.scratch, 'memory');
  const { key } = await createKey(directory);
  const collector = await startCollector(directory, key);
  const { pid, port } = collector;
  const common = { port, key, seed: seeds.next() };
  // Lets the heap grow to its normal size before memory is sampled.
  const warm = { ...common, seconds: options.warmup, connections: options.connections };
  await load(warm);
  const sampler = new RssSampler(pid);
  const since = performance.now();
  const result = await act({ ...common, seed: seeds.next() });
  const lasted = performance.now() - since;
  await sleep(options.smoke ? 0 : SETTLE_MS);
  const { peak } = usageOf(pid);
  const samples = sampler.stop();
  await stopCollector(collector);
  removeDirectory(directory);
  const highest = (from, to) =>
    samples.reduce((most, { ms, rss }) => (ms >= from && ms <= to ? Math.max(most, rss) : most), 0);
  const rss = {
    start: samples[0].rss,
    firstHalf: highest(0, lasted / 2),
    secondHalf: highest(lasted / 2, Infinity),
    end: samples.at(-1).rss,
    peak,
  };
  return { ...result, rss, samples };
}

/** One row for each phase. Memory is flat if both halves have the same maximum. */
export function memoryTable(phases) {
  const rows = phases.map(({ title, rate, failures, rss, probe: probed }) => [
    title,
    ...[rss.start, rss.firstHalf, rss.secondHalf, rss.end, rss.peak].map(mebibytes),
    rate === undefined ? `${whole(probed.sent)} sent beside them` : whole(rate),
    whole(failures),
  ]);
  const heading = ['Load', 'RSS at start MiB', 'highest, 1st half', 'highest, 2nd half', 'at end', 'VmHWM'];
  return table([[...heading, '201/s', 'not 201'], ...rows]);
}

/** A sentence about the slow clients. */
export function slowClientsLine(phases) {
  const { probe: probed, sockets } = phases.find((phase) => phase.sockets !== undefined);
  const { ms } = probed;
  const answered = ms === null ? 'never' : `in ${whole(ms.median)} ms (median; ${whole(ms.max)} ms at most)`;
  return (
    `Slow clients: ${whole(sockets.opened)} connections opened, ${whole(sockets.cutOff)} of them cut off, ` +
    `${whole(sockets.requestsUnread)} requests whose answers were not read; a sender beside them was answered ` +
    `${answered}.`
  );
}

export async function memory({ options, seeds, say, print }) {
  requireRoom(options.scratch, options.seconds * BYTES_A_SECOND);
  const phases = [];
  for (const phase of phasesOf(options)) {
    say(phase.title);
    phases.push({ title: phase.title, ...(await measurePhase(phase, { options, seeds })) });
  }
  print(`\n${memoryTable(phases)}\n\n${slowClientsLine(phases)}`);
  // Refusals are correct answers to this load. They are shown, and do not fail the scenario.
  return { phases, figures: {}, failures: 0 };
}
