/** `npm run bench`: measures the collector beside its peers. See bench/README.md. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { randomInt } from 'node:crypto';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

const HELP = `npm run bench -- [options]

  --scenario <name>   rate: durable answers a second beside the peers (default)
                      postgres: what an event costs the driver of PostgreSQL and the server; the mirror
                      stored: the same on a filled ledger against an empty one, memory, start-up
                      memory: large bodies, many connections, slow clients
                      start: start-up times only
                      tree: the rate with the tree of hashes and without it
                      catalogue: the rate with the thread that follows the log and without it
                      metrics: the rate with metrics, scraped every 15 s and every second, and without any counting
                      overload: three times the load that it can take, and a modest sender beside it
                      refused: a sender beside connections that show no key and send what is refused
                      hostile: the bodies that cost most, and a modest sender beside them
                      verify: how fast a filled ledger is checked, memory, the tree rebuilt
                      records: how fast events become records in a Parquet file, memory
                      questions: how long runs, records, proofs and the report take, of a large and a small log
                      otlp: spans a second of the OTLP receiver beside an OpenTelemetry Collector, memory
                      hop: an OpenTelemetry Collector before the collector, both killed meanwhile: nothing lost
                      client: what a capture costs, memory while events wait, how fast a backlog is sent
  --rounds <n>        how often everything is repeated (default 3)
  --seconds <n>       length of one measurement (default 8; memory, hop: 40; overload: 20; hostile: 5)
  --warmup <n>        seconds before it (default 2)
  --connections <n>   keep-alive connections (default 256)
  --peers <names>     which ones, with commas (default all); rate: collector,collector-encrypted,collector-tls,
                      collector-postgres,collector-replicated,raw,raw-tls,fastify-pg,express-sqlite;
                      otlp: collector-encrypted,collector,otel-collector
  --load <name>       rate: what is sent: padded, 1,200 bytes of which a part is padding (default); start, a start as
                      applications send it; mix, events of the demonstration of all kinds; gzip, the start compressed
  --events <n>        postgres: how many ids the filled registry holds (default 10000000);
                      stored, start, verify: how many events the ledger holds (default 10000000, about 14 GB;
                      verify: 1000000); records, questions: about so many (default 10000000, 10 GB and 8 GB while it is made);
                      otlp: how many spans memory is watched over (default 1000000);
                      client: how many wait (default 1000000, 3 GB)
  --data-dir <path>   the same: where the filled ledger is, or is made and kept (default: made and removed)
  --encrypted         stored, start, verify, records, questions: the ledger that is made has encrypted payloads
  --cold              stored, start: have the kernel forget the ledger's files before each timed start
  --sockets <n>       memory, overload: how many connections, and how many slow clients (default 2000);
                      refused: how many connections (default 1000)
  --scratch <path>    on the disk to measure (default: the system's temporary directory)
  --seed <n>          for the ids; a new one each time by default, since a kept ledger remembers them
  --json <file>       the result as JSON too; - for standard output instead of tables

Exit codes: 0 measured, 1 failed or an answer was not 201, 2 cannot begin, 130 interrupted.
`;

function fail(message) {
  process.stderr.write(`bench: ${message}\n`);
  process.exit(2);
}

if (Number(process.versions.node.split('.')[0]) < 24) fail('needs Node 24: start it by "npm run bench"');
if (process.platform !== 'linux') fail('reads /proc, and so runs on Linux only');

const { requireBuilt, runCommand } = await import('./lib/command.mjs');
const { requireDisk } = await import('./lib/disk.mjs');
const { installPeers } = await import('./lib/install.mjs');
const { Seeds } = await import('./lib/measure.mjs');
const { LOADS } = await import('./lib/loads.mjs');
const { OTLP_PEERS } = await import('./lib/otlp-peers.mjs');
const { PEERS } = await import('./lib/peers.mjs');
const { machine, versions } = await import('./lib/surroundings.mjs');
const { Unusable } = await import('./lib/unusable.mjs');
const { wrkVersion } = await import('./lib/wrk.mjs');

/** What holds for each where no option says otherwise. */
const SCENARIOS = {
  rate: { seconds: 8, peers: Object.keys(PEERS) },
  postgres: { seconds: 8, events: 10_000_000 },
  stored: { seconds: 8, events: 10_000_000 },
  memory: { seconds: 40 },
  start: { seconds: 8, events: 10_000_000 },
  tree: { seconds: 8 },
  catalogue: { seconds: 8 },
  metrics: { seconds: 8 },
  overload: { seconds: 20 },
  refused: { seconds: 8, sockets: 1000 },
  hostile: { seconds: 5 },
  verify: { events: 1_000_000 },
  records: { events: 10_000_000 },
  questions: { events: 10_000_000 },
  otlp: { seconds: 8, events: 1_000_000, peers: Object.keys(OTLP_PEERS) },
  hop: { seconds: 40 },
  client: { seconds: 8, events: 1_000_000 },
};

function readOptions() {
  const text = (value) => ({ type: 'string', default: value });
  const { values } = parseArgs({
    options: {
      scenario: text('rate'),
      rounds: text('3'),
      seconds: { type: 'string' },
      warmup: text('2'),
      connections: text('256'),
      peers: { type: 'string' },
      load: text('padded'),
      events: { type: 'string' },
      'data-dir': { type: 'string' },
      cold: { type: 'boolean', default: false },
      encrypted: { type: 'boolean', default: false },
      sockets: { type: 'string' },
      scratch: text(os.tmpdir()),
      seed: { type: 'string' },
      json: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    process.exit(0);
  }
  const { scenario } = values;
  if (!Object.hasOwn(SCENARIOS, scenario)) {
    throw new Unusable(`--scenario is one of ${Object.keys(SCENARIOS).join(', ')}`);
  }
  const number = (name, least, fallback = least) => {
    const given = values[name] ?? String(fallback);
    if (!/^\d+$/.test(given) || Number(given) < least) {
      throw new Unusable(`--${name} is a whole number from ${least} on`);
    }
    return Number(given);
  };
  const all = SCENARIOS[scenario].peers ?? [];
  const peers = values.peers?.split(',').map((name) => name.trim()) ?? all;
  const unknown = peers.find((name) => !all.includes(name));
  if (unknown !== undefined) throw new Unusable(`--peers: ${unknown} is none of ${all.join()}`);
  if (!Object.hasOwn(LOADS, values.load))
    throw new Unusable(`--load is one of ${Object.keys(LOADS).join(', ')}`);
  return {
    scenario,
    load: values.load,
    peers: [...new Set(peers)],
    rounds: number('rounds', 1),
    seconds: number('seconds', 1, SCENARIOS[scenario].seconds),
    warmup: number('warmup', 1),
    connections: number('connections', 1),
    events: number('events', 1, SCENARIOS[scenario].events),
    sockets: number('sockets', 1, SCENARIOS[scenario].sockets ?? 2000),
    seed: number('seed', 0, randomInt(2 ** 32)),
    cold: values.cold,
    encrypted: values.encrypted,
    dataDir: values['data-dir'] === undefined ? undefined : path.resolve(values['data-dir']),
    scratch: path.resolve(values.scratch),
    json: values.json,
  };
}

/** What made a difference to this result, without where anything lay on this machine. */
function recorded(options) {
  const {
    scenario,
    rounds,
    seconds,
    warmup,
    connections,
    seed,
    peers,
    load,
    events,
    cold,
    encrypted,
    sockets,
  } = options;
  const common = { rounds, seconds, warmup, connections, seed };
  switch (scenario) {
    case 'rate':
      return { ...common, peers, load };
    case 'memory':
      return { ...common, sockets };
    case 'tree':
    case 'catalogue':
    case 'metrics':
      return common;
    case 'hostile':
      return { seconds };
    case 'otlp':
      return { rounds, seconds, warmup, seed, peers, events };
    case 'hop':
      return { rounds, seconds, seed };
    case 'overload':
    case 'refused':
      return { rounds, seconds, warmup, sockets };
    case 'postgres':
    case 'client':
      return { ...common, events };
    case 'verify':
    case 'records':
    case 'questions':
      return { rounds, events, encrypted };
    default:
      return { ...common, events, cold, encrypted };
  }
}

async function main() {
  const options = readOptions();
  // These need neither wrk nor peers.
  const isAlone = ['hostile', 'verify', 'otlp', 'hop'].includes(options.scenario);
  if (!isAlone && wrkVersion() === undefined) {
    throw new Unusable(
      'wrk is not installed: "apt-get install wrk" (Debian, Ubuntu) or "dnf install wrk" (Fedora)',
    );
  }
  requireBuilt();
  mkdirSync(options.scratch, { recursive: true });
  requireDisk(options.scratch);
  if (options.dataDir !== undefined) requireDisk(options.dataDir);
  if (!isAlone) installPeers();
  const { [options.scenario]: scenario } = await import(`./scenarios/${options.scenario}.mjs`);
  const head = {
    scenario: options.scenario,
    startedAt: new Date().toISOString(),
    machine: machine(options.scratch),
    versions: await versions({ peers: !isAlone }),
    options: recorded(options),
  };
  const result = await scenario({
    options,
    seeds: new Seeds(options.seed),
    say: (text) => process.stderr.write(`bench: ${text}\n`),
    print: (text) => {
      if (options.json !== '-') process.stdout.write(`${text}\n`);
    },
  });
  const json = `${JSON.stringify({ ...head, ...result }, undefined, 1)}\n`;
  if (options.json === '-') process.stdout.write(json);
  else if (options.json !== undefined) {
    mkdirSync(path.dirname(path.resolve(options.json)), { recursive: true });
    writeFileSync(options.json, json);
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
