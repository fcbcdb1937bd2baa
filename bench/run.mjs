/** `npm run bench`: measures the collector beside its peers. See bench/README.md. */
import { spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

const HELP = `npm run bench -- [options]

  --scenario <name>   rate: durable answers a second beside the peers (default)
                      postgres: cost of an event for the PostgreSQL driver and the server; the mirror
                      stored: rate, memory and start-up time with 10 million stored events
                      memory: large bodies, many connections, slow clients
                      overload: three times the load that the collector can take
                      refused: a sender beside connections that send requests without a key
                      hostile: the most expensive bodies
                      verify: rate and memory of verify, rebuilding of the tree
                      records: rate and memory of an export to Parquet
                      questions: time of runs, records, proof and report on a large log
                      otlp: spans a second beside an OpenTelemetry Collector, memory
                      hop: an OpenTelemetry Collector in front of the collector, with kills
                      client: cost of a capture, memory of a backlog, rate of sending
                      viewer: 100 people who look at runs while events arrive
  --smoke             the smallest sizes; without --scenario, all scenarios. Its figures mean nothing
  --rounds <n>        repetitions (default 3)
  --seconds <n>       length of one measurement (default 8; memory, hop: 40; overload: 20; hostile: 5;
                      viewer: 600)
  --warmup <n>        seconds before a measurement (default 2)
  --connections <n>   keep-alive connections (default 256)
  --peers <names>     a comma-separated list (default: all). Of rate: collector,collector-plain,
                      collector-postgres,collector-postgres-plain,collector-replicated,raw,redis,
                      postgres-insert,fastify-pg,collector-tls,raw-tls;
                      of otlp: collector-encrypted,collector,otel-collector
  --load <name>       body of an event of rate: padded, 1,200 bytes with padding (default); start, a realistic
                      inference-start; mix, events of all kinds from collector demo; gzip, start compressed
  --events <n>        stored: events in the log (default 10,000,000, about 14 GB); verify, viewer: 1,000,000;
                      postgres: ids in the filled table (default 10,000,000);
                      records, questions: events (default 10,000,000, about 18 GB of free space);
                      otlp: spans while memory is sampled (default 1,000,000);
                      client: events in the backlog (default 1,000,000, 3 GB)
  --data-dir <path>   stored, verify, records, questions: directory of the log that is made; it is kept, and used
                      again if it exists (default: a temporary directory)
  --plain             stored, verify, records, questions: make the log without encryption
  --cold              stored: drop the files of the log from the page cache before each start
  --sockets <n>       connections: memory, overload (default 2,000), refused (default 1,000)
  --scratch <path>    directory on the disk to measure (default: the temporary directory of the system)
  --seed <n>          seed of the ids (default: random)
  --json <file>       write the result as JSON too; - writes it to standard output in place of the tables

Exit codes: 0 measured, 1 failed or an answer was not 201, 2 cannot begin, 130 interrupted.
`;

function fail(message) {
  process.stderr.write(`bench: ${message}\n`);
  process.exit(2);
}

if (Number(process.versions.node.split('.')[0]) < 24) fail('needs Node.js 24: start it by "npm run bench"');
if (process.platform !== 'linux') fail('reads /proc, so it runs on Linux only');

const { requireBuilt, runCommand } = await import('./lib/command.mjs');
const { requireDisk } = await import('./lib/disk.mjs');
const { installPeers } = await import('./lib/install.mjs');
const { LOADS } = await import('./lib/loads.mjs');
const { Seeds } = await import('./lib/measure.mjs');
const { isOtelCollectorBuilt } = await import('./lib/otel-collector.mjs');
const { OTLP_PEERS } = await import('./lib/otlp-peers.mjs');
const { PEERS } = await import('./lib/peers.mjs');
const { redisVersion } = await import('./lib/redis.mjs');
const { machine, versions } = await import('./lib/surroundings.mjs');
const { Unusable } = await import('./lib/unusable.mjs');
const { wrkVersion } = await import('./lib/wrk.mjs');

/** The defaults of each scenario and the programs that it needs. */
const SCENARIOS = {
  rate: { seconds: 8, peers: Object.keys(PEERS), needs: ['wrk', 'packages'] },
  postgres: { seconds: 8, events: 10_000_000, needs: ['wrk', 'packages'] },
  stored: { seconds: 8, events: 10_000_000, needs: ['wrk'] },
  memory: { seconds: 40, needs: ['wrk'] },
  overload: { seconds: 20 },
  refused: { seconds: 8, sockets: 1000 },
  hostile: { seconds: 5 },
  verify: { events: 1_000_000 },
  records: { events: 10_000_000 },
  questions: { events: 10_000_000 },
  otlp: {
    seconds: 8,
    events: 1_000_000,
    peers: Object.keys(OTLP_PEERS),
    smokePeers: ['collector-encrypted'],
  },
  hop: { seconds: 40, needs: ['go'] },
  client: { seconds: 8, events: 1_000_000, needs: ['wrk'] },
  viewer: { seconds: 600, events: 1_000_000 },
};
const SMOKE = { rounds: '1', seconds: '1', warmup: '1', connections: '16', events: '2000', sockets: '20' };

/** Each returns false if the program is not installed. */
const PROGRAMS = {
  wrk: () => wrkVersion() !== undefined,
  'redis-server': () => redisVersion() !== undefined,
  go: () => !spawnSync('go', ['version']).error,
};
/** Peers that need a program. */
const PROGRAM_OF = { redis: 'redis-server', 'otel-collector': 'go' };

function readOptions() {
  const text = { type: 'string' };
  const flag = { type: 'boolean', default: false };
  const names = ['scenario', 'rounds', 'seconds', 'warmup', 'connections', 'peers', 'events', 'data-dir'];
  const more = ['sockets', 'seed', 'json'];
  const { values } = parseArgs({
    options: {
      ...Object.fromEntries([...names, ...more].map((name) => [name, text])),
      load: { ...text, default: 'padded' },
      scratch: { ...text, default: os.tmpdir() },
      ...{ smoke: flag, cold: flag, plain: flag, help: { ...flag, short: 'h' } },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    process.exit(0);
  }
  const { scenario } = values;
  if (scenario !== undefined && !Object.hasOwn(SCENARIOS, scenario))
    throw new Unusable(`--scenario is one of ${Object.keys(SCENARIOS).join(', ')}`);
  if (!Object.hasOwn(LOADS, values.load))
    throw new Unusable(`--load is one of ${Object.keys(LOADS).join(', ')}`);
  return values;
}

function optionsOf(scenario, values) {
  const number = (name, least, fallback = least) => {
    const given = values[name] ?? (values.smoke ? SMOKE[name] : undefined) ?? String(fallback);
    if (!/^\d+$/.test(given) || Number(given) < least)
      throw new Unusable(`--${name} is a whole number from ${least} on`);
    return Number(given);
  };
  const defaults = SCENARIOS[scenario];
  const all = defaults.peers ?? [];
  const wanted = values.smoke ? (defaults.smokePeers ?? all) : all;
  const peers = values.peers?.split(',').map((name) => name.trim()) ?? wanted.filter(isInstalled);
  const unknown = peers.find((name) => !all.includes(name));
  if (unknown !== undefined) throw new Unusable(`--peers: ${unknown} is not one of ${all.join()}`);
  return {
    ...{ scenario, smoke: values.smoke, load: values.load, peers: [...new Set(peers)] },
    rounds: number('rounds', 1, 3),
    seconds: number('seconds', 1, defaults.seconds),
    warmup: number('warmup', 1, 2),
    connections: number('connections', 1, 256),
    events: number('events', 1, defaults.events),
    sockets: number('sockets', 1, defaults.sockets ?? 2000),
    seed: number('seed', 0, randomInt(2 ** 32)),
    ...{ cold: values.cold, encrypted: !values.plain },
    dataDir: values['data-dir'] === undefined ? undefined : path.resolve(values['data-dir']),
    scratch: path.resolve(values.scratch),
  };
}

/** Reports a peer that is left out because its program is missing. */
function isInstalled(peer) {
  const program = PROGRAM_OF[peer];
  if (program === undefined || PROGRAMS[program]()) return true;
  process.stderr.write(`bench: ${peer} is left out: ${program} is not installed\n`);
  return false;
}

async function measured(options, { isSilent }) {
  const head = {
    scenario: options.scenario,
    startedAt: new Date().toISOString(),
    machine: machine(options.scratch),
    versions: await versions(),
    // Without the paths of this machine.
    options: { ...options, scenario: undefined, scratch: undefined, dataDir: undefined },
  };
  const { [options.scenario]: scenario } = await import(`./scenarios/${options.scenario}.mjs`);
  const result = await scenario({
    options,
    seeds: new Seeds(options.seed),
    say: (text) => process.stderr.write(`bench: ${text}\n`),
    print: (text) => {
      if (!isSilent) process.stdout.write(`${text}\n`);
    },
  });
  return { ...head, ...result };
}

/** @returns the programs and packages that a scenario needs and that are not there. Installs the packages. */
function missing({ needs = [] }) {
  if (needs.includes('packages')) installPeers();
  return needs.filter((need) => PROGRAMS[need]?.() === false);
}

/**
 * Runs every scenario in its smallest size. One whose program is missing is skipped; the OpenTelemetry
 * Collector is not built for this, because that takes minutes.
 */
async function smoke(values) {
  PROGRAMS.go = isOtelCollectorBuilt;
  for (const [scenario, defaults] of Object.entries(SCENARIOS)) {
    const since = performance.now();
    const lacks = missing(defaults);
    if (lacks.length > 0) {
      process.stdout.write(`${scenario}: skipped, ${lacks.join(', ')} not installed\n`);
      continue;
    }
    await measured(optionsOf(scenario, values), { isSilent: true });
    process.stdout.write(`${scenario}: ${((performance.now() - since) / 1000).toFixed(1)} s\n`);
  }
  return 0;
}

async function main() {
  const values = readOptions();
  const scratch = path.resolve(values.scratch);
  mkdirSync(scratch, { recursive: true });
  requireBuilt();
  requireDisk(scratch);
  if (values.smoke && values.scenario === undefined) return smoke(values);
  const scenario = values.scenario ?? 'rate';
  const lacks = missing(SCENARIOS[scenario]);
  if (lacks.length > 0) throw new Unusable(`${lacks.join(', ')} not installed (apt-get install)`);
  const options = optionsOf(scenario, values);
  if (options.dataDir !== undefined) requireDisk(options.dataDir);
  const result = await measured(options, { isSilent: values.json === '-' });
  const json = `${JSON.stringify(result, undefined, 1)}\n`;
  if (values.json === '-') process.stdout.write(json);
  else if (values.json !== undefined) {
    mkdirSync(path.dirname(path.resolve(values.json)), { recursive: true });
    writeFileSync(values.json, json);
  }
  if (result.failures > 0) {
    process.stderr.write(
      `bench: ${result.failures} requests were not answered 201: the rates do not count\n`,
    );
    return 1;
  }
  return 0;
}

await runCommand('bench', main);
