/** Durable answers a second beside the peers. In each round every peer has its turn, on an empty store. */
import fs from 'node:fs';
import { removeDirectory, temporaryDirectory } from '../lib/children.mjs';
import { createKey } from '../lib/collector.mjs';
import { figuresTable } from '../lib/figures.mjs';
import { checkStored, measure } from '../lib/measure.mjs';
import { decimals, mebibytes, whole } from '../lib/numbers.mjs';
import { PEERS } from '../lib/peers.mjs';
import { table } from '../lib/table.mjs';

/** The rate of the first divided by the rate of the second, in one round. */
const RATIOS = {
  'rate/raw': ['collector', 'raw'],
  'rate/redis': ['collector', 'redis'],
  'rate/postgres-insert': ['collector', 'postgres-insert'],
  'rate/fastify-pg': ['collector', 'fastify-pg'],
  'rate/raw-tls': ['collector-tls', 'raw-tls'],
  'encrypted/plain': ['collector', 'collector-plain'],
  'postgres/encrypted-plain': ['collector-postgres', 'collector-postgres-plain'],
  'postgres/embedded': ['collector-postgres', 'collector'],
  'postgres/postgres-insert': ['collector-postgres', 'postgres-insert'],
  'postgres/replicated': ['collector-replicated', 'collector-postgres-plain'],
};

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

/** Processor time of an event, in seconds. */
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

/** The processor time of each thread, and the use of the machine's cores. */
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
    for (const [figure, [one, other]] of Object.entries(RATIOS))
      if (peers[one] && peers[other]) note(figure, peers[one].rate / peers[other].rate);
    const { collector, raw } = peers;
    if (collector && raw) {
      note('p99/raw', collector.latencyMs.p99 / raw.latencyMs.p99);
      note('cpu/raw', cpuOf(collector) / cpuOf(raw));
    }
    for (const peer of Object.values(peers))
      if (peer.mergeDelayMs !== undefined) note('postgres/merge-delay', peer.mergeDelayMs / 1000);
  }
  if (Object.keys(measured).length > 0) print(`\n${figuresTable(measured)}`);
  const failures = rounds
    .flatMap((peers) => Object.values(peers))
    .reduce((sum, { failures: n }) => sum + n, 0);
  return { rounds, figures: measured, failures };
}
