/**
 * The PostgreSQL driver without HTTP: cost of an event for driver and server by batch size, with a filled
 * table of ids, with repeats, and with an open snapshot; rate of a mirror.
 */
import { hash, randomBytes, randomUUID } from 'node:crypto';
import path from 'node:path';
import { readFileSync } from 'node:fs';
import pg from 'pg';
import { PostgresServer, SEAL_KEY } from '../../packages/postgres/test/running/postgres-server.ts';
import { removeDirectory, temporaryDirectory } from '../lib/children.mjs';
import { collectorCommand, startCollector, stopCollector } from '../lib/collector.mjs';
import { newEvent } from '../lib/event.mjs';
import { figuresTable } from '../lib/figures.mjs';
import { measure } from '../lib/measure.mjs';
import { decimals, median, whole } from '../lib/numbers.mjs';
import { usageOf } from '../lib/procfs.mjs';
import { table } from '../lib/table.mjs';

const SALT_BYTES = 16;
/** Events that one measurement appends, and events of a large batch. */
const EVENTS = 40_960;
const SMOKE_EVENTS = 2048;
const LARGE = 512;
const SETTINGS = {
  shared_buffers: '4GB',
  wal_compression: 'on',
  max_wal_size: '32GB',
  checkpoint_timeout: '30min',
};

function candidate() {
  const salted = Buffer.concat([randomBytes(SALT_BYTES), Buffer.from(newEvent())]);
  return {
    ...{
      kind: 'internal-artifact',
      profile: 'minimum',
      door: 'endpoint',
      organisation: 'default',
      keyId: 'abcdefghij23',
    },
    ...{ receivedAt: Date.now(), eventId: Buffer.from(randomUUID().replaceAll('-', ''), 'hex') },
    ...{
      runId: Buffer.alloc(16),
      parentId: Buffer.alloc(16),
      salted,
      commitment: hash('sha256', salted, 'buffer'),
    },
  };
}

function batches(events, size) {
  return Array.from({ length: Math.ceil(events / size) }, () => Array.from({ length: size }, candidate));
}

async function openLog(server, schema) {
  const store = `${server.url()}?schema=${schema}`;
  await collectorCommand('store', 'migrate', '--store', store, '--durability', 'local');
  const { PostgresStore } = await import('../../packages/postgres/dist/postgres-store.js');
  const { parseAddress } = await import('../../packages/postgres/dist/address.js');
  const driver = await PostgresStore.open({
    ...{ address: parseAddress(store), version: 'bench', sealKey: () => Promise.resolve(SEAL_KEY) },
    onTrouble: (what, cause) => {
      throw new Error(what, { cause });
    },
    onLost: () => undefined,
  });
  return { store, schema, driver };
}

/**
 * Appends all batches, two at a time. @returns costs of an event in microseconds, and times of the batches.
 */
async function append(server, { driver, schema }, list) {
  const postmaster = Number(
    readFileSync(path.join(server.directory, 'data/postmaster.pid'), 'utf8').split('\n')[0],
  );
  const wal = async () => Number((await server.query("SELECT pg_current_wal_lsn() - '0/0' AS at"))[0].at);
  const before = { cpu: process.cpuUsage(), server: usageOf(postmaster).cpuSeconds, wal: await wal() };
  const took = [];
  const since = performance.now();
  let next = 0;
  let accepted = 0;
  const work = async () => {
    while (next < list.length) {
      const batch = list[next++];
      const began = performance.now();
      const outcomes = await driver.append(batch);
      took.push(performance.now() - began);
      accepted += outcomes.filter((outcome) => outcome === 'accepted').length;
    }
  };
  await Promise.all([work(), work()]);
  const seconds = (performance.now() - since) / 1000;
  const events = list.reduce((sum, batch) => sum + batch.length, 0);
  const { user, system } = process.cpuUsage(before.cpu);
  const sorted = took.toSorted((a, b) => a - b);
  const [dead] = await server.query(
    `SELECT coalesce(sum(n_dead_tup), 0)::int AS rows FROM pg_stat_user_tables
     WHERE schemaname = '${schema}' AND relname ~ '^(events|event_ids|batches)'`,
  );
  return {
    ...{ events, accepted, rate: events / seconds, dead: dead.rows },
    node: (user + system) / events,
    server: ((usageOf(postmaster).cpuSeconds - before.server) * 1e6) / events,
    wal: ((await wal()) - before.wal) / events,
    slow: (sorted[Math.floor(sorted.length * 0.99)] ?? 0) / median(sorted),
  };
}

/** Runs `work` while another session has a snapshot open, as pg_dump has. */
async function withSnapshot(server, work) {
  const client = new pg.Client({ connectionString: server.url() });
  await client.connect();
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
  await client.query('SELECT count(*) FROM pg_class');
  try {
    return await work();
  } finally {
    await client.end();
  }
}

/** Puts random ids into the table of ids, without events. */
async function fillIds(server, { schema }, events) {
  await server.query(
    `INSERT INTO ${schema}.event_ids SELECT gen_random_uuid(), 0, 0, 0, 0 FROM generate_series(1, ${events})`,
  );
  await server.query(`VACUUM ANALYZE ${schema}.event_ids`);
}

/** Sends to a collector on the database, then has a mirror follow it into an empty directory. */
async function mirrored(server, { options, seeds }) {
  const store = `${server.url()}?schema=mirrored`;
  await collectorCommand('store', 'migrate', '--store', store, '--durability', 'local');
  const made = await collectorCommand('keys', 'create', '--store', store, '--permissions', 'all', '--json');
  const { key } = JSON.parse(made);
  const directory = temporaryDirectory(options.scratch, 'collector');
  const collector = await startCollector(directory, key, { more: ['--store', store] });
  const { acked } = await measure(collector, { key, options, seeds });
  await stopCollector(collector);
  const copy = temporaryDirectory(options.scratch, 'mirror');
  const since = performance.now();
  await collectorCommand('mirror', '--store', store, '--data-dir', copy, '--once');
  const rate = acked / ((performance.now() - since) / 1000);
  removeDirectory(copy);
  removeDirectory(directory);
  await server.query('DROP SCHEMA mirrored CASCADE');
  return { acked, rate };
}

function costTable(rows) {
  const heading = ['Batches', 'events/s', 'server us', 'Node us', 'WAL bytes', 'p99 / median', 'dead rows'];
  return table([
    heading,
    ...Object.entries(rows).map(([what, { rate, server, node, wal, slow, dead }]) => [
      ...[
        what,
        whole(rate),
        decimals(server, 1),
        decimals(node, 1),
        whole(wal),
        decimals(slow, 1),
        whole(dead),
      ],
    ]),
  ]);
}

export async function postgres({ options, seeds, say, print }) {
  const server = await PostgresServer.start(SETTINGS);
  try {
    const empty = await openLog(server, 'empty_log');
    const filled = await openLog(server, 'filled_log');
    say(`${whole(options.events)} ids are inserted into the table of one log`);
    await fillIds(server, filled, options.events);
    const count = options.smoke ? SMOKE_EVENTS : EVENTS;
    const rounds = [];
    for (let i = 0; i < options.rounds; i++) {
      say(`round ${i + 1} of ${options.rounds}: the driver`);
      const repeated = batches(count, LARGE);
      const round = {};
      const measures = {
        'of 64': () => append(server, empty, batches(count, 64)),
        'of 512': () => append(server, empty, repeated),
        'of 512, filled': () => append(server, filled, batches(count, LARGE)),
        'of 512, a snapshot open': () =>
          withSnapshot(server, () => append(server, empty, batches(count, LARGE))),
      };
      const names = Object.keys(measures);
      for (const name of i % 2 === 0 ? names : names.toReversed()) round[name] = await measures[name]();
      round['of 512 repeats'] = await append(server, empty, repeated);
      say(`round ${i + 1} of ${options.rounds}: the mirror`);
      round.mirror = await mirrored(server, { options, seeds: seeds.fork(i) });
      rounds.push(round);
      const { mirror, ...costs } = round;
      print(
        `\nRound ${i + 1}\n\n${costTable(costs)}\n\nMirror: ${whole(mirror.rate)} events/s of ${whole(mirror.acked)}`,
      );
    }
    for (const { driver } of [empty, filled]) await driver.close();
    const of = (pick) => rounds.map(pick);
    const figures = {
      'postgres/server': of((round) => round['of 512'].server),
      'postgres/node': of((round) => round['of 512'].node),
      'postgres/wal': of((round) => round['of 512'].wal),
      'postgres/filled': of((round) => round['of 512, filled'].rate / round['of 512'].rate),
      'postgres/snapshot': of((round) => round['of 512, a snapshot open'].rate / round['of 512'].rate),
      'postgres/repeats': of((round) => round['of 512 repeats'].rate),
      'postgres/dead': of((round) => round['of 512 repeats'].dead),
      'postgres/mirror': of((round) => round.mirror.rate),
    };
    print(`\n${figuresTable(figures)}`);
    return { rounds, figures, failures: 0 };
  } finally {
    await server.remove();
  }
}
