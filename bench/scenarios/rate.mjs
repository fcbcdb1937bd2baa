/** Durable answers per second beside the peers, every peer in turn in every round, each on an empty store. */
import fs from 'node:fs';
import { removeDirectory, temporaryDirectory } from '../lib/children.mjs';
import { createKey } from '../lib/collector.mjs';
import { figuresTable } from '../lib/figures.mjs';
import { checkStored, measure } from '../lib/measure.mjs';
import { decimals, mebibytes, whole } from '../lib/numbers.mjs';
import { PEERS } from '../lib/peers.mjs';
import { table } from '../lib/table.mjs';

function rotated(list, by) {
  const at = by % list.length;
  return [...list.slice(at), ...list.slice(0, at)];
}

async function measurePeer(name, { directory, key, options, seeds }) {
  const started = await PEERS[name].start(directory, key);
  const result = await measure(started, { key: started.key ?? key, options, seeds });
  const mergeDelayMs = await started.mergeDelay?.();
  const stored = await started.stop();
  const { connections } = options;
  checkStored(PEERS[name].title, { stored, acked: result.acked, connections });
  return { ...result, stored, mergeDelayMs };
}

/** Seconds of processor time for each event. */
const cpuOf = ({ cpuSeconds, measured }) => cpuSeconds / measured;

function roundTable(peers) {
  const rows = Object.entries(peers).map(([name, { rate, latencyMs, memory, ...rest }]) => [
    PEERS[name].title,
    whole(rate),
    ...[latencyMs.p50, latencyMs.p99, latencyMs.max].map((ms) => decimals(ms, 1)),
    mebibytes(memory.rss),
    mebibytes(memory.peak),
    decimals(cpuOf(rest) * 1e6, 0),
    decimals(rest.generatorCpu),
    whole(rest.failures),
  ]);
  const heading = ['Peer', '201/s', 'p50 ms', 'p99 ms', 'max ms', 'RSS MiB', 'peak MiB', 'CPU us/event'];
  return table([[...heading, 'wrk CPU', 'not 201'], ...rows]);
}

/** Where the time of an event went, and what the cores of the machine did. */
function threadTable(peers) {
  const percent = (share) => `${decimals(100 * share, 0)} %`;
  const rows = Object.entries(peers).map(([name, { threads, cores }]) => [
    PEERS[name].title,
    threads
      .map(({ name: thread, ran, waited }) => `${thread} ${decimals(ran, 1)}+${decimals(waited, 1)}`)
      .join(', '),
    percent(cores.idle + cores.iowait),
    percent(cores.softirq),
    percent(cores.steal),
  ]);
  return table([['Peer', 'us/event: thread ran + waited for a core', 'idle', 'softirq', 'steal'], ...rows]);
}

export async function rate({ options, seeds, say, print }) {
  const rounds = [];
  const measured = {};
  const note = (name, value) => (measured[name] ??= []).push(value);
  for (let round = 0; round < options.rounds; round++) {
    const keyDirectory = temporaryDirectory(options.scratch, 'collector');
    const { key } = await createKey(keyDirectory);
    const peers = {};
    for (const name of rotated(options.peers, round)) {
      say(`round ${round + 1} of ${options.rounds}: ${PEERS[name].title}`);
      const directory = temporaryDirectory(options.scratch, name);
      if (name.startsWith('collector')) fs.cpSync(keyDirectory, directory, { recursive: true });
      peers[name] = await measurePeer(name, { directory, key, options, seeds: seeds.fork(round) });
      removeDirectory(directory);
    }
    removeDirectory(keyDirectory);
    rounds.push(peers);
    print(`\nRound ${round + 1}\n\n${roundTable(peers)}\n\n${threadTable(peers)}`);
    const { collector, raw, 'collector-postgres': shared } = peers;
    const { 'collector-tls': secured, 'raw-tls': rawSecured } = peers;
    if (secured && rawSecured) note('rate/raw-tls', secured.rate / rawSecured.rate);
    const { 'collector-encrypted': encrypted } = peers;
    if (encrypted && collector) note('encrypted/plain', encrypted.rate / collector.rate);
    const { 'collector-replicated': replicated, 'fastify-pg': inserting } = peers;
    if (shared && inserting) note('postgres/fastify-pg', shared.rate / inserting.rate);
    if (shared && collector) note('postgres/embedded', shared.rate / collector.rate);
    if (shared && replicated) note('postgres/replicated', replicated.rate / shared.rate);
    for (const peer of [shared, replicated]) if (peer) note('postgres/merge-delay', peer.mergeDelayMs / 1000);
    for (const [name, peer] of Object.entries(peers)) {
      if (collector && !name.startsWith('collector') && name !== 'raw-tls')
        note(`rate/${name}`, collector.rate / peer.rate);
    }
    if (collector && raw) {
      note('p99/raw', collector.latencyMs.p99 / raw.latencyMs.p99);
      note('cpu/raw', cpuOf(collector) / cpuOf(raw));
    }
  }
  if (Object.keys(measured).length > 0) print(`\n${figuresTable(measured)}`);
  const failures = rounds
    .flatMap((peers) => Object.values(peers))
    .reduce((sum, { failures: n }) => sum + n, 0);
  return { rounds, figures: measured, failures };
}
