/** What the roles of a log can put into its tables with one statement, and how the log continues. */
import { ENTRY_KINDS } from '@clinical-events/protocol';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ownEntry } from '@clinical-events/collector/ledger/own-entry';
import { actionFields } from '@clinical-events/collector/privacy/actions';
import { AccessLogAltered } from '@clinical-events/collector/store/contract/access-log';
import { rolesOf } from '../src/administration.js';
import { type Address, parseAddress } from '../src/address.js';
import { Connection, ReadingConnection } from '../src/connection.js';
import { PostgresAccessLog } from '../src/postgres-access-log.js';
import { PostgresStore } from '../src/postgres-store.js';
import { type Quarantine, quarantineLog, type QuarantineOptions } from '../src/quarantine.js';
import { migrate } from '../src/schema.js';
import { LaneBroken } from '../src/sequencing.js';
import { PostgresServer, SEAL_KEY } from './running/postgres-server.js';
import { lineOf } from '../../collector/test/store/access-log-conformance.js';
import { candidate } from '../../collector/test/store/candidate.js';

let server: PostgresServer;
let schema: string;
let address: Address;
let schemas = 0;
let gauges: { stalled: number };
const opened: PostgresStore[] = [];

beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server.remove());
beforeEach(async () => {
  schema = `log_${schemas++}`;
  gauges = { stalled: 0 };
  address = addressOf('postgres');
  await migrated();
});
afterEach(async () => {
  await Promise.all(opened.splice(0).map((store) => store.close()));
});

function addressOf(user: string): Address {
  return parseAddress(`postgres://${user}@127.0.0.1:${server.port}/postgres?schema=${schema}`);
}

async function migrated(): Promise<void> {
  const connection = await Connection.open(address, 'test');
  await migrate(connection, schema, 'local');
  await connection.close();
}

/** The roles as they are printed, and one of each that logs in. */
async function makeRoles(): Promise<void> {
  await server.query(rolesOf(address));
  for (const role of ['writer', 'reader'])
    await server.query(
      `CREATE ROLE ${schema}_a_${role} LOGIN; GRANT ${schema}_${role} TO ${schema}_a_${role}`,
    );
}

/** One statement as a role. */
async function as(role: 'writer' | 'reader' | 'owner', sql: string): Promise<Record<string, unknown>[]> {
  const user = role === 'owner' ? 'postgres' : `${schema}_a_${role}`;
  const client = new pg.Client({ connectionString: server.url('postgres', user) });
  await client.connect();
  try {
    await client.query(`SET search_path = ${schema}`);
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

async function open(lanes = 1, user = 'postgres'): Promise<PostgresStore> {
  const store = await PostgresStore.open({
    ...{ address: addressOf(user), lanes, sealKey: () => Promise.resolve(SEAL_KEY), version: 'test' },
    ...{ onTrouble: () => undefined, onLost: () => undefined },
    gauges: {
      ...{ committed: () => undefined, replicated: () => undefined, waits: () => undefined },
      stalled: (ms) => (gauges.stalled = ms),
    },
  });
  opened.push(store);
  await as('owner', `INSERT INTO seal_key (key_id) VALUES ('test') ON CONFLICT DO NOTHING`);
  return store;
}

function quarantine(more: Partial<QuarantineOptions> = {}): Promise<Quarantine> {
  return quarantineLog(address, {
    ...{ dryRun: false, version: 'test', sealKey: () => Promise.resolve(SEAL_KEY) },
    entry: (action) => ownEntry(ENTRY_KINDS.lifecycleAction, 'lifecycle000', actionFields(action)),
    ...more,
  });
}

async function sequenced(store: PostgresStore): Promise<number> {
  await store.committed.sequence();
  return store.committed.entries;
}

const GARBAGE = `INSERT INTO batches (lane, batch, candidates, entries, leaves, seal)`;
const LEAF = `decode(repeat('ab', 73), 'hex')`;

/** Of every table that an event comes into, and of the places, how many rows there are. */
async function counts(): Promise<Record<string, unknown> | undefined> {
  const count = (table: string) => `(SELECT count(*) FROM ${table})::int AS ${table}`;
  const tables = ['batches', 'event_ids', 'events', 'sequenced', 'open_lanes', 'actions'];
  return (await as('owner', `SELECT ${tables.map(count).join()}`))[0];
}

describe('[R-1268] a row of the collectors’ role that no collector has stored', () => {
  test.each([
    ['a batch after the last', `${GARBAGE} SELECT max(lane), 3, 1, 1, ${LEAF}, NULL FROM lanes`],
    ['an invalid seal', `${GARBAGE} SELECT max(lane), 3, 1, 1, ${LEAF}, ${LEAF} FROM lanes`],
    ['an empty batch after a gap', `${GARBAGE} SELECT max(lane), 99, 0, 0, '', NULL FROM lanes`],
    [
      'a batch in an inserted lane',
      `WITH l AS (INSERT INTO open_lanes VALUES (777)) ${GARBAGE} VALUES (777, 1, 1, 1, ${LEAF}, NULL)`,
    ],
    [
      'a batch with its id and its event',
      `WITH b AS (${GARBAGE} SELECT max(lane), 3, 1, 1, ${LEAF}, NULL FROM lanes RETURNING lane),
       k AS (INSERT INTO event_ids SELECT '00000000-0000-4000-8000-000000000001', 1, lane, 3, 0 FROM b)
       INSERT INTO events (lane, batch, ord, envelope, salted) SELECT lane, 3, 0, 'x', 'y' FROM b`,
    ],
    [
      'the next place',
      `INSERT INTO sequenced SELECT max(lane), 3, size + 1, 5 FROM lanes, heads GROUP BY size`,
    ],
  ])('stops the log until it is quarantined: %s', async (_, sql) => {
    await makeRoles();
    const store = await open(1, `${schema}_a_writer`);
    await store.append([candidate()]);
    expect(await sequenced(store)).toBe(1);
    // Committed, and late.
    await store.append([candidate(), candidate()]);
    await as('writer', sql);
    await as('owner', `UPDATE batches SET committed_at = committed_at - interval '7 seconds'`);
    await expect(sequenced(store)).rejects.toThrow();
    expect(gauges.stalled).toBeGreaterThanOrEqual(7000);
    const before = await counts();
    const planned = await quarantine({ dryRun: true });
    expect([planned.items.length, planned.gaps, planned.action]).toEqual([1, [], undefined]);
    expect(await counts()).toEqual(before);
    const done = await quarantine();
    expect(done.items).toEqual(planned.items);
    // A second time there is nothing to do, and the log has one entry of it.
    expect(await quarantine()).toEqual({ items: [], gaps: [], action: undefined });
    expect(await sequenced(store)).toBe(4);
    expect(gauges.stalled).toBe(0);
    await store.append([candidate()]);
    expect(await sequenced(store)).toBe(5);
    await store.refreshActions();
    expect(store.actions.logged.map(({ said }) => said)).toMatchObject([
      { action: done.action, does: 'quarantine' },
    ]);
  });

  test('stops no collector with a time that the server cannot compute with', async () => {
    await makeRoles();
    const store = await open(1, `${schema}_a_writer`);
    await store.append([candidate()]);
    await expect(
      as('writer', `${GARBAGE.replace('seal', 'seal, committed_at')} VALUES (1, 9, 0, 0, '', NULL, now())`),
    ).rejects.toThrow(/permission denied/);
    for (const at of ['infinity', '-infinity', '0001-01-01']) {
      await as('owner', `UPDATE batches SET committed_at = '${at}'; UPDATE collectors SET seen_at = '${at}'`);
      store.committed['#lookedAfter' as never] = undefined as never;
      expect(await sequenced(store)).toBeGreaterThan(0);
      await store.append([candidate()]);
    }
  });

  test('that is late, or closes a lane, is never moved', async () => {
    const store = await open(4);
    await Promise.all(Array.from({ length: 12 }, () => store.append([candidate(), candidate()])));
    await as(
      'owner',
      `${GARBAGE.replace('seal', 'closes')} SELECT lane, max(batch) + 1, 0, 0, '', true FROM batches GROUP BY lane`,
    );
    await as('owner', `UPDATE batches SET committed_at = committed_at - interval '1 day'`);
    expect(await quarantine()).toEqual({ items: [], gaps: [], action: undefined });
    expect(await sequenced(store)).toBe(24);
  });

  test('is moved while collectors store events, and no row of theirs is', async () => {
    const store = await open(4);
    await store.append([candidate()]);
    const sent = Array.from({ length: 200 }, () => candidate());
    const progress = { isOver: false };
    const storing = (async () => {
      for (const each of sent) expect(await store.append([each])).toEqual(['accepted']);
    })().finally(() => (progress.isOver = true));
    while (!progress.isOver) {
      await as(
        'owner',
        `${GARBAGE} SELECT max(lane), 500, 1, 1, ${LEAF}, NULL FROM lanes ON CONFLICT DO NOTHING`,
      );
      const { items } = await quarantine();
      for (const { why } of items) expect(why).toContain('no collector of this log sealed it');
      await sequenced(store);
    }
    await storing;
    await quarantine();
    await sequenced(store);
    const [row] = await as(
      'owner',
      `SELECT (SELECT count(*) FROM event_ids)::int AS ids, (SELECT count(*) FROM actions)::int AS actions,
         (SELECT count(*) FROM quarantined_events)::int AS events, size::int FROM heads`,
    );
    expect(row).toMatchObject({ events: 0, ids: row?.['size'] });
    expect(Number(row?.['size']) - Number(row?.['actions'])).toBe(201);
  });

  test('that fills a hole in a lane leaves an empty batch, for those that follow', async () => {
    const store = await open();
    await store.append([candidate()]);
    await as('owner', `${GARBAGE} SELECT max(lane), 2, 1, 1, ${LEAF}, NULL FROM lanes`);
    // Takes another lane; the first one is closed after the hole.
    await store.append([candidate()]);
    await as(
      'owner',
      `INSERT INTO batches (lane, batch, candidates, entries, leaves, seal, closes)
      SELECT min(lane), 3, 0, 0, '', NULL, true FROM lanes`,
    );
    await as('owner', `${GARBAGE} SELECT min(lane), 4, 1, 1, ${LEAF}, NULL FROM lanes`);
    expect((await quarantine()).items.map(({ batch }) => batch)).toEqual([2, 4]);
    expect(await sequenced(store)).toBe(3);
  });

  test('does not hide a deleted batch: that is reported, and nothing is moved', async () => {
    const store = await open();
    for (let i = 0; i < 3; i++) await store.append([candidate()]);
    await as(
      'owner',
      'DELETE FROM batches WHERE batch = 2; DELETE FROM events WHERE batch = 2; DELETE FROM event_ids WHERE batch = 2',
    );
    const { items, gaps } = await quarantine();
    expect(items).toEqual([]);
    expect(gaps).toEqual([expect.stringMatching(/^batch 2 of lane \d+ is gone, and a collector sealed/)]);
    await expect(sequenced(store)).rejects.toThrow(LaneBroken);
  });

  test('is moved whole or not at all', async () => {
    const store = await open();
    await store.append([candidate()]);
    await as('owner', `${GARBAGE} SELECT max(lane), 2, 1, 1, ${LEAF}, NULL FROM lanes`);
    const before = await counts();
    const entry = () => {
      throw new Error('cut off');
    };
    await expect(quarantine({ entry })).rejects.toThrow('cut off');
    expect(await counts()).toEqual(before);
    expect((await quarantine()).items).toHaveLength(1);
  });
});

describe('[R-1268] an id that is in no batch', () => {
  const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

  test.each([
    ['alone', (id: string) => `INSERT INTO event_ids VALUES ('${id}', 1, 4000, 1, 0)`],
    [
      'with its event, unchanged',
      (id: string) => `WITH k AS (INSERT INTO event_ids VALUES ('${id}', 1, 4000, 1, 0))
       INSERT INTO events (lane, batch, ord, envelope, salted)
       SELECT 4000, 1, 0, envelope, salted FROM kept`,
    ],
    [
      'with its event, in a batch that no collector has sealed',
      (id: string) => `WITH k AS (INSERT INTO event_ids VALUES ('${id}', 1, 4000, 1, 0)),
         b AS (${GARBAGE} VALUES (4000, 1, 1, 1, ${LEAF}, NULL))
       INSERT INTO events (lane, batch, ord, envelope, salted)
       SELECT 4000, 1, 0, envelope, salted FROM kept`,
    ],
    [
      'with the place of another event',
      (id: string) => `INSERT INTO event_ids SELECT '${id}', 1, lane, batch, ord FROM events LIMIT 1`,
    ],
  ])('is not a repeat, and is free once it is quarantined: %s', async (_, plant) => {
    const store = await open();
    const event = candidate();
    await store.append([candidate()]);
    await store.append([event]);
    // What an attacker knows of the event before it comes.
    await as(
      'owner',
      `CREATE TABLE kept AS SELECT envelope, salted FROM events WHERE batch = 2;
      DELETE FROM event_ids WHERE batch = 2; DELETE FROM events WHERE batch = 2; DELETE FROM batches WHERE batch = 2`,
    );
    await as('owner', plant(hex(event.eventId)));
    const other = await open();
    expect(await other.append([event, candidate()])).toEqual(['unreadable', 'accepted']);
    const { items } = await quarantine();
    expect(items.map(({ ids }) => ids)).toEqual([1]);
    expect(await other.append([event])).toEqual(['accepted']);
    expect(await other.append([event])).toEqual(['duplicate']);
    expect(await quarantine()).toMatchObject({ items: [] });
    const [row] = await as('owner', 'SELECT count(*)::int AS n FROM quarantined_ids');
    expect(row).toEqual({ n: 1 });
  });

  test('does not stop a lane: rows at its next number are another’s', async () => {
    const store = await open();
    await store.append([candidate()]);
    await as(
      'owner',
      `INSERT INTO events (lane, batch, ord, envelope, salted) SELECT max(lane), 2, 0, 'x', 'y' FROM lanes`,
    );
    expect(await store.append([candidate()])).toEqual(['accepted']);
    expect(await sequenced(store)).toBe(2);
  });
});

describe('[R-1265] the printed roles', () => {
  test('change no time, add no second row with a number, close no open lane, and no line of the access log', async () => {
    await makeRoles();
    const store = await open(1, `${schema}_a_writer`);
    await store.append([candidate()]);
    const refused = [
      ['writer', 'DELETE FROM open_lanes'],
      ['writer', `INSERT INTO access_lines (line, text) VALUES (1, 'x')`],
      ['reader', `INSERT INTO access_lines (line, text) VALUES (1, 'x')`],
      ['writer', `INSERT INTO collectors VALUES (gen_random_uuid(), 'x', 1, 'x', '-infinity', 'infinity')`],
      ['reader', `SELECT close_lanes('{1}')`],
      ['writer', `DELETE FROM event_ids`],
    ] as const;
    for (const [role, sql] of refused) await expect(as(role, sql), sql).rejects.toThrow(/permission denied/);
    await expect(
      as('writer', `${GARBAGE} SELECT lane, batch, candidates, entries, leaves, seal FROM batches`),
    ).rejects.toThrow(/duplicate key/);
    // A lane is closed once its closing batch has its place, and not before.
    await as('writer', `SELECT close_lanes(array_agg(lane)) FROM open_lanes`);
    expect(await sequenced(store)).toBe(1);
    await store.append([candidate()]);
    expect(await sequenced(store)).toBe(2);
  });
});

describe('[R-1265] a line of the access log', () => {
  async function accessLog<Result>(
    user: string,
    work: (log: PostgresAccessLog) => Promise<Result>,
  ): Promise<Result> {
    const connection = new ReadingConnection(addressOf(user), 'test');
    try {
      return await work(new PostgresAccessLog(connection));
    } finally {
      await connection.close();
    }
  }

  async function textOf(log: PostgresAccessLog, lines = 0): Promise<string> {
    let text = '';
    for await (const piece of log.lines({ lines, at: 0 })) text += piece.toString();
    return text;
  }

  test('must name the role of the database that wrote it, and have the form of a line', async () => {
    await makeRoles();
    const line = lineOf('events');
    const end = line.replace('"begun"', '"ended"').replace('"filter":{}', '"events":3,"complete":true');
    const ofViewer = line.replace(
      '"actor":{"kind":"os","name":"ada","proven":true}',
      '"actor":{"kind":"oidc","name":"Ada","role":"reviewer"},"reason":"complaint","break_glass":true',
    );
    const taken = [
      ...[line, end, ofViewer],
      line.replace('"proven":true', '"proven":true,"stated":"Dr. Ada"'),
      end.replace('"complete"', '"done":{"epoch":2},"complete"'),
    ];
    await accessLog(`${schema}_a_reader`, async (log) => {
      for (const each of taken) await log.append(each);
      const refused = [
        ...['garbage', '', '{}', '[]', 'null', `${line}\n${line}`, `${line} `, ` ${line}`, `${line}x`],
        line.replace('2026-11', '2026-13'),
        line.replace('.000Z', 'Z'),
        line.replace('"uid":1000', '"uid":"1000"'),
        line.replace('"uid":1000', '"uid":1.5'),
        line.replace('"uid":1000,', ''),
        line.replace('"uid":1000', '"uid":99999999999999999999'),
        line.replace('begun', 'over'),
        line.replace('"filter":{}', '"filter":null'),
        line.replace('"filter":{}', '"filter":{},"complete":true'),
        line.replace('{"at"', '{"line":7,"at"'),
        line.replace('"filter":{}', '"filter":{},"database_user":"somebody"'),
        end.replace(',"complete":true', ''),
        line.replace('events', 'x'.repeat(65_536)),
        line.replace('events', '\\u0000'),
        line.replace(/"actor":[^}]+},/, ''),
        line.replace('"os"', '"king"'),
        line.replace('"kind":"os",', ''),
        line.replace('"name":"ada"', '"name":null'),
        line.replace('"proven":true', '"proven":"yes"'),
        line.replace('"proven":true', '"stated":1'),
        line.replace(/"actor":[^}]+}/, '"actor":null'),
        ofViewer.replace('"reviewer"', '7'),
        ofViewer.replace('"complaint"', '{}'),
        ofViewer.replace('"break_glass":true', '"break_glass":1'),
        line.replace('"filter":{}', '"filter":{},"done":{}'),
        end.replace('"complete"', '"done":[2],"complete"'),
      ];
      for (const each of refused)
        await expect(log.append(each), each.slice(0, 200)).rejects.toThrow(RangeError);
      const by = `,"database_user":"${schema}_a_reader"}`;
      expect(await textOf(log)).toBe(taken.map((each) => `${each.slice(0, -1)}${by}\n`).join(''));
    });
  });

  test('calls no function other than the server’s, whatever the path of the caller', async () => {
    await makeRoles();
    await as('owner', `CREATE SCHEMA ${schema}_x; GRANT ALL ON SCHEMA ${schema}_x TO PUBLIC`);
    await as(
      'reader',
      `CREATE TEMP TABLE access_lines (line bigint, text text); SET search_path = pg_temp, ${schema}_x;
       SELECT ${schema}.append_access_line('${lineOf('proof')}')`,
    );
    expect(await accessLog('postgres', (log) => textOf(log))).toContain('"proof"');
  });

  test('lines that the owner inserted, of any form, are read, and more can follow', async () => {
    const put = (line: string, text: string) =>
      as('owner', `INSERT INTO access_lines (line, text) VALUES (${line}, '${text}')`);
    await put('1', lineOf('one'));
    await put('2', 'garbage');
    await put('3', `a\nb`);
    await accessLog('postgres', async (log) => {
      const before = [lineOf('one'), 'garbage', 'a', 'b'].map((line) => `${line}\n`).join('');
      expect(await textOf(log)).toBe(before);
      await log.append(lineOf('new'));
      const after = await textOf(log, 4);
      expect(after).toBe(`${lineOf('new').slice(0, -1)},"database_user":"postgres"}\n`);
      // A reader that begins in the middle of a row.
      await accessLog('postgres', async (other) => expect(await textOf(other, 3)).toBe(`b\n${after}`));
      expect(await log.writerOf(4)).toBe('postgres');
      await put('9', lineOf('gap'));
      await expect(textOf(log, 5)).rejects.toThrow(AccessLogAltered);
    });
  });
});
