/** Collectors, and every command that works on one, on a log in PostgreSQL. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  eventsIn,
  KEY,
  keyFrom,
  launch,
  outcomeEvent,
  postEvent,
  type PrintedEvent,
  run,
  type Running,
  start,
} from '../../../collector/test/running/collector-process.js';
import { IndependentReader } from '../../../collector/test/commands/independent-reader.js';
import { sharedLog } from './shared-log.js';

const log = sharedLog();
const { place, succeeds, collector, signed } = log;
let store: string;
beforeEach(() => {
  store = log.store;
});

async function printed(...args: readonly string[]): Promise<PrintedEvent[]> {
  return eventsIn(await succeeds('events', '--store', store, ...args));
}

/** Until every collector has given a checkpoint over so many entries to its own sink. */
async function givenOut(entries: number, ...names: readonly string[]): Promise<void> {
  for (const name of names) {
    while (!log.checkpointsOf(name).includes(`\n${entries}\n`)) await sleep(50);
  }
}

test('[R-1260] two collectors write one log: an event that both get is stored once, and another one of its id refused', async () => {
  const { one, other, key, ids } = await log.filled();
  const event = outcomeEvent();
  const answers = await Promise.all([
    postEvent(one, key, event),
    postEvent(other, key, event),
    postEvent(one, key, event),
  ]);
  expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
  expect((await postEvent(other, key, { ...event, outcome: { outcome_type: 'contradicted' } })).status).toBe(
    409,
  );
  await signed(21);
  const stored = await printed();
  expect(stored.map(({ event_id: id }) => id).toSorted()).toEqual([...ids, event.event_id].toSorted());
  expect(stored.map(({ sequence }) => sequence)).toEqual(stored.map((_, i) => i + 1));
  expect(await printed('--event', event.event_id)).toHaveLength(1);
  expect(await Promise.all([one.stop(), other.stop()])).toEqual([0, 0]);
});

test('[R-1260] a collector that is killed loses nothing that it acknowledged, and the other goes on signing', async () => {
  const { one, other, key } = await log.filled();
  const events = Array.from({ length: 30 }, () => outcomeEvent());
  const answers = events.map((event) =>
    postEvent(one, key, event).then(
      ({ status }) => status,
      () => 0,
    ),
  );
  await Promise.race(answers);
  await one.kill();
  const acknowledged = (await Promise.all(answers)).flatMap((status, i) =>
    status === 201 ? [events[i]] : [],
  );
  expect((await postEvent(other, key, outcomeEvent())).status).toBe(201);
  await signed(21 + acknowledged.length);
  const stored = (await printed()).map(({ event_id: id }) => id);
  for (const event of acknowledged) expect(stored).toContain(event?.event_id);
  expect(new Set(stored).size).toBe(stored.length);
  expect(await succeeds('verify', '--store', store)).toContain('INTACT');
  await other.stop();
});

test('[R-1260] a key that is revoked is refused by every collector within seconds, and a new one accepted', async () => {
  const { one, other, key } = await log.filled();
  const made = await succeeds('keys', 'create', '--store', store, '--permissions', 'all', '--json');
  const second = KEY.exec(made)?.[0] ?? '';
  const id = key.split('_')[1] ?? '';
  await succeeds('keys', 'revoke', id, '--store', store);
  for (const each of [one, other]) {
    for (;;) {
      const [old, fresh] = [
        await postEvent(each, key, outcomeEvent()),
        await postEvent(each, second, outcomeEvent()),
      ];
      if (old.status === 401 && fresh.status === 201) break;
      await sleep(50);
    }
  }
  expect(await succeeds('keys', 'list', '--store', store)).toMatch(/revoked/);
  await Promise.all([one.stop(), other.stop()]);
});

test('[R-2041] [R-2044] looks on a mirror are in the access log of the database; break-glass is in its log', async () => {
  const { one, other } = await log.filled();
  const mirror = place('mirror');
  const following = launch(['mirror', '--store', store, '--data-dir', mirror]);
  const socket = path.join(mirror, 'access.sock');
  await expect.poll(() => fs.existsSync(socket)).toBe(true);
  const run_id = randomUUID();
  const look = {
    ...{ state: 'begun', command: 'viewer run', uid: 990, user: null, filter: { run: run_id } },
    ...{ actor: { kind: 'oidc', name: 'dr. ß', role: 'break-glass' }, break_glass: true },
    reason: 'resuscitation "🚑"\nby phone',
  };
  const client = net.connect(socket);
  client.write(`${JSON.stringify(look)}\n`);
  const [answer] = (await once(client, 'data')) as [Buffer];
  expect(answer.toString()).toContain('"kept":true');
  client.destroy();
  const rows = () => log.server.query(`SELECT text FROM ${log.schema}.access_lines`);
  await expect.poll(async () => (await rows()).map(({ text }) => String(text)).join()).toContain(run_id);
  const [line = ''] = (await rows()).map(({ text }) => String(text)).filter((each) => each.includes(run_id));
  expect(JSON.parse(line)).toMatchObject({ command: 'viewer run', reason: look.reason, break_glass: true });
  expect(following.output.stderr).toContain('warning: break-glass was used in collector-viewer');
  expect(following.output.stderr).not.toMatch(/dr\.|resuscitation|left out/);
  following.process.kill('SIGTERM');
  expect(await following.exited).toBe(0);
  expect(fs.existsSync(socket)).toBe(false);
  await Promise.all([one.stop(), other.stop()]);
});

test('[R-1262] [R-1880] a mirror is a data directory that every command reads, and goes on where it stopped', async () => {
  const { one, other, key, ids } = await log.filled();
  const mirror = place('mirror');
  expect(await succeeds('mirror', '--store', store, '--data-dir', mirror, '--once')).toContain('20 entries');
  expect(await succeeds('verify', '--data-dir', mirror)).toContain('INTACT');
  const following = launch(['mirror', '--store', store, '--data-dir', mirror]);
  const late = outcomeEvent();
  const headers = { 'X-API-Key': key, 'Content-Type': 'application/json', 'X-Event-Door': 'import' };
  await fetch(`${one.url}/event/outcome`, { method: 'POST', headers, body: JSON.stringify(late) });
  for (;;) {
    const { stdout } = await run(['events', '--data-dir', mirror, '--event', late.event_id]);
    if (stdout.includes(late.event_id)) {
      expect(eventsIn(stdout)).toMatchObject([{ door: 'import' }]);
      break;
    }
    await sleep(100);
  }
  following.process.kill('SIGTERM');
  expect(await following.exited).toBe(0);
  // Who read on the mirror stands in the access log of the database, and the heads of that one in the log.
  await succeeds('mirror', '--store', store, '--data-dir', mirror, '--once');
  const { schema } = log;
  const lines = await log.server.query(`SELECT text FROM ${schema}.access_lines ORDER BY line`);
  expect(lines.some(({ text }) => String(text).includes(late.event_id))).toBe(true);
  for (;;) {
    await succeeds('mirror', '--store', store, '--data-dir', mirror, '--once');
    const verdict = JSON.parse(await succeeds('verify', '--data-dir', mirror, '--json')) as {
      access_log: { lines: number; unsigned_lines: number };
    };
    expect(verdict).toMatchObject({ intact: true, events: 21 });
    if (verdict.access_log.lines > 0 && verdict.access_log.unsigned_lines === 0) break;
    await sleep(200);
  }
  const { stdout } = await run(['events', '--data-dir', mirror]);
  for (const id of ids) expect(stdout).toContain(id);
  // [R-701] The head of those lines is the entry without an event, in the database and on the mirror.
  const sequences = new Set(eventsIn(stdout).map(({ sequence }) => sequence));
  const entry = String([...sequences].map((each) => each + 1).find((each) => !sequences.has(each)));
  const [head] = await printed('--event', entry);
  expect(head).toMatchObject({ kind: 129, body: expect.stringContaining('access-log-head') as string });
  expect(eventsIn(await succeeds('events', '--data-dir', mirror, '--event', entry))).toEqual([head]);
  const none = await run(['events', '--store', store, '--event', '999999']);
  expect([none.code, none.stderr]).toEqual([6, expect.stringContaining('there is no entry 999999 in ')]);
  const served = await run(['serve', '--data-dir', mirror, '--port', '0']);
  expect(served.code).toBe(2);
  expect(served.stderr).toContain('is a mirror');
  const elsewhere = await run(['mirror', '--store', store, '--data-dir', place('one'), '--once']);
  expect(elsewhere.code).toBe(5);
  await Promise.all([one.stop(), other.stop()]);
});

test('[R-1262] follow shows what comes, in the order of the log, and proof gives a file and tiles that hold without the log', async () => {
  const { one, other, key } = await log.filled();
  const following = launch(['events', '--store', store, '--follow', '--since', '2020-01-01']);
  const event = outcomeEvent();
  await postEvent(other, key, event);
  while (!following.output.stdout.includes(event.event_id)) await sleep(50);
  following.process.kill('SIGINT');
  await following.exited;
  const sequences = following.output.stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => (JSON.parse(line) as PrintedEvent).sequence);
  expect(sequences).toEqual(sequences.map((_, i) => i + 1));
  const proof = place('proof');
  await succeeds('proof', event.event_id, '--store', store, '--out', proof);
  const body = place('body');
  fs.writeFileSync(body, (await printed('--event', event.event_id))[0]?.body ?? '');
  const { key: vkey } = JSON.parse(
    await succeeds('signing-key', 'show', '--store', store, '--data-dir', place('one'), '--json'),
  ) as { key: string };
  await succeeds('check-proof', proof, '--event', body, '--key', vkey);
  await succeeds('proof', '--tiles', place('tiles'), '--store', store);
  const tiles = new IndependentReader(place('tiles'), vkey);
  expect([tiles.size > 20, tiles.rootFromEntries()]).toEqual([true, tiles.root]);
  await Promise.all([one.stop(), other.stop()]);
});

test('[R-1260] a signing key that is rotated is followed by the collectors that have it, and the log stays whole', async () => {
  const { one, other, key } = await log.filled();
  const signing = ['--store', store, '--data-dir', place('one'), '--signing-keys', place('signing-keys')];
  await succeeds('signing-key', 'rotate', ...signing, '--overlap', '0');
  for (const each of [one, other, one, other])
    expect((await postEvent(each, key, outcomeEvent())).status).toBe(201);
  await signed(24);
  expect(await succeeds('verify', '--store', store)).toContain('INTACT');
  await Promise.all([one.stop(), other.stop()]);
});

test('[R-1430] a role that may not add a signing key to the log rotates none: nothing is printed and nothing is changed', async () => {
  const one = await collector('one');
  const data = place('one');
  const { schema } = log;
  await log.server
    .query(`CREATE ROLE ${schema}_reads LOGIN; GRANT USAGE ON SCHEMA ${schema} TO ${schema}_reads;
    GRANT SELECT ON ALL TABLES IN SCHEMA ${schema} TO ${schema}_reads`);
  const files = () => [data, place('signing-keys')].map((each) => fs.readdirSync(each, { recursive: true }));
  await one.stop();
  const before = files();
  const rotate = (at: string) =>
    run([
      'signing-key',
      'rotate',
      '--store',
      at,
      '--data-dir',
      data,
      '--signing-keys',
      place('signing-keys'),
    ]);
  const refused = await rotate(store.replace('postgres@', `${schema}_reads@`));
  expect(refused).toMatchObject({ code: 1, stdout: '' });
  expect(refused.stderr).toContain('nothing was changed');
  expect(files()).toEqual(before);
  const done = await rotate(store);
  expect(done.stdout).toMatch(/^Key [0-9a-f]{8} replaces [0-9a-f]{8}, which also signs until /);
  expect(done.code).toBe(0);
  expect(await log.server.query(`SELECT count(*)::int AS keys FROM ${schema}.log_keys`)).toEqual([
    { keys: 2 },
  ]);
});

test('[R-702] acts on a log in a database have their lines there, and are not done without them', async () => {
  const { schema, server } = log;
  await server.query(await succeeds('store', 'roles', '--store', store));
  await server.query(`CREATE ROLE ${schema}_clerk LOGIN; GRANT ${schema}_keys TO ${schema}_clerk`);
  const one = await collector('one');
  await one.stop();
  const clerk = ['--store', store.replace('postgres@', `${schema}_clerk@`)];
  const signing = ['--store', store, '--data-dir', place('one'), '--signing-keys', place('signing-keys')];
  const create = ['keys', 'create', ...clerk, '--permissions', 'outcome', '--json'];
  const { key_id: id } = JSON.parse(await succeeds(...create)) as { key_id: string };
  await succeeds('keys', 'revoke', id, ...clerk);
  const rotated = JSON.parse(await succeeds('signing-key', 'rotate', ...signing, '--json')) as {
    key: string;
  };
  await succeeds('store', 'maintain', '--store', store);
  await run(['store', 'check', '--adopt', '--store', store]);
  const rows = await server.query(`SELECT text FROM ${schema}.access_lines ORDER BY line`);
  const lines = rows.map(({ text }) => JSON.parse(String(text)) as Record<string, unknown>);
  const done = { key_id: rotated.key.split('+')[1] };
  const shown = lines.map(({ state, command, filter, complete, done: has, database_user: user }) =>
    [state, command, filter ?? complete, has, user].filter((each) => each !== undefined),
  );
  const grants = { organisation: 'default', permissions: ['outcome'], expires_at: null };
  const old = expect.any(String) as string;
  expect(shown).toEqual([
    ['begun', 'keys create', { key_id: id, ...grants }, `${schema}_clerk`],
    ['ended', 'keys create', true, `${schema}_clerk`],
    ['begun', 'keys revoke', { key_id: id }, `${schema}_clerk`],
    ['ended', 'keys revoke', true, `${schema}_clerk`],
    ['begun', 'signing-key rotate', { key_id: old, overlap: '30d' }, 'postgres'],
    ['ended', 'signing-key rotate', true, done, 'postgres'],
    ['begun', 'store maintain', {}, 'postgres'],
    ['ended', 'store maintain', true, { months: 0, payloads: 0 }, 'postgres'],
    ['begun', 'store check --adopt', {}, 'postgres'],
    ['ended', 'store check --adopt', true, 'postgres'],
  ]);
  await expect(
    server.query(`SET ROLE ${schema}_clerk; SET search_path = ${schema}; SELECT text FROM access_lines`),
  ).rejects.toThrow('permission denied');
  await server.query(
    `SET ROLE postgres; REVOKE EXECUTE ON FUNCTION ${schema}.append_access_line(text) FROM ${schema}_keys`,
  );
  const count = () => server.query(`SELECT count(*)::int AS keys FROM ${schema}.api_keys`);
  const before = await count();
  const refused = await run(create);
  expect(refused).toMatchObject({ code: 1, stdout: '' });
  expect(refused.stderr).toMatch(
    /cannot be written \(.*permission denied.*\), and nothing is changed unless it is logged/,
  );
  expect(await count()).toEqual(before);
});

test('a collector that does not have the signing key of the log does not start, and says what it needs', async () => {
  const { one, other } = await log.filled();
  await Promise.all([one.stop(), other.stop()]);
  const { code, stderr } = await run([
    'serve',
    '--store',
    store,
    '--data-dir',
    place('third'),
    '--port',
    '0',
  ]);
  expect(code).toBe(2);
  expect(stderr).toContain('--signing-keys');
});

test('[R-1268] a collector that does not have the key of the seals does not start, and says which file it needs', async () => {
  const { one, other } = await log.filled();
  await Promise.all([one.stop(), other.stop()]);
  fs.mkdirSync(place('unsealed'));
  const names = fs.readdirSync(place('signing-keys'));
  for (const name of names.filter((each) => each.endsWith('.pem'))) {
    fs.copyFileSync(path.join(place('signing-keys'), name), path.join(place('unsealed'), name));
  }
  const args = ['serve', '--store', store, '--data-dir', place('third'), '--port', '0'];
  const { code, stderr } = await run([...args, '--signing-keys', place('unsealed')]);
  expect(code).toBe(2);
  expect(stderr).toContain(names.find((each) => each.endsWith('.seal')));
  expect(fs.readdirSync(place('unsealed')).filter((each) => each.endsWith('.seal'))).toEqual([]);
  // Where every copy is lost, the next one makes another, and notes up to where the log had come.
  await log.server.query(`DELETE FROM ${log.schema}.seal_key`);
  const [{ size } = {}] = await log.server.query(`SELECT size FROM ${log.schema}.heads`);
  const next = await start(place('third'), ['--store', store, '--signing-keys', place('unsealed')]);
  const made = fs.readdirSync(place('unsealed')).find((each) => each.endsWith('.seal')) ?? '';
  expect(fs.readFileSync(path.join(place('unsealed'), made), 'utf8')).toMatch(
    new RegExp(`^[0-9a-f]{64}\n${String(size)}\n$`),
  );
  expect(await next.stop()).toBe(0);
});

test('what reads a data directory alone says so, and names the mirror', async () => {
  for (const command of ['runs', 'records', `report --out ${place('r')}`]) {
    const { code, stderr } = await run([...command.split(' '), '--store', store]);
    expect(code, command).toBe(2);
    expect(stderr, command).toContain('collector mirror --store');
  }
});

test('an address with a password, an unknown scheme or option is refused before anything is done', async () => {
  for (const [url, why] of [
    ['postgres://user:secret@127.0.0.1/db', 'PGPASSWORD'],
    ['mysql://127.0.0.1/db', 'does not begin with postgres://'],
    ['postgres://127.0.0.1/db?sslmode=off', 'sslmode'],
    ['postgres://db.example.org/db?sslmode=disable', 'unencrypted'],
  ] as const) {
    const { code, stderr } = await run(['events', '--store', url]);
    expect(code, url).toBe(2);
    expect(stderr, url).toContain(why);
    expect(stderr, url).not.toContain('secret');
  }
});

test('[R-1265] [R-1334] the roles let a collector write and change no event, readers read, and an officer ask', async () => {
  const { schema } = log;
  await log.server.query(await succeeds('store', 'roles', '--store', store));
  await log.server.query(`CREATE ROLE ${schema}_app LOGIN; GRANT ${schema}_writer TO ${schema}_app;
    ALTER ROLE ${schema}_app SET log_parameter_max_length = 0; ALTER ROLE ${schema}_app SET log_parameter_max_length_on_error = 0;
    CREATE ROLE ${schema}_look LOGIN; GRANT ${schema}_reader TO ${schema}_look;
    CREATE ROLE ${schema}_officer LOGIN; GRANT ${schema}_eraser TO ${schema}_officer`);
  const owner = store;
  log.store = store.replace('postgres@', `${schema}_app@`);
  const one = await collector('one');
  const key = await keyFrom(one);
  expect((await postEvent(one, key, outcomeEvent())).status).toBe(201);
  await signed(1);
  for (const statement of [
    'UPDATE events SET salted = NULL',
    'DELETE FROM event_ids',
    'TRUNCATE batches',
    'DELETE FROM access_lines',
  ]) {
    await expect(
      log.server.query(`SET ROLE ${schema}_app; SET search_path = ${schema}; ${statement}`),
    ).rejects.toThrow('permission denied');
  }
  const findings = await run(['store', 'check', '--store', log.store]);
  expect(findings.stdout).toContain('statement parameters are not logged');
  store = owner.replace('postgres@', `${schema}_look@`);
  expect(await printed()).toHaveLength(1);
  await succeeds('mirror', '--store', store, '--data-dir', place('mirror'), '--once');
  expect((await run(['verify', '--store', store])).code).toBe(0);
  for (const statement of ['SELECT salted FROM events', 'INSERT INTO actions VALUES (9, 1, 1)']) {
    await expect(
      log.server.query(`SET ROLE ${schema}_officer; SET search_path = ${schema}; ${statement}`),
    ).rejects.toThrow('permission denied');
  }
  const policy = place('policy.json');
  fs.writeFileSync(policy, JSON.stringify({ version: 1, name: 'kept', default: { keep: 'forever' } }));
  const mirror = launch(['mirror', '--store', store, '--data-dir', place('mirror')]);
  const officer = owner.replace('postgres@', `${schema}_officer@`);
  await succeeds('retention', 'policy', 'set', policy, '--data-dir', place('mirror'), '--store', officer);
  mirror.process.kill('SIGTERM');
  expect(await mirror.exited).toBe(0);
  await one.stop();
  // With no collector left: the officer's role can withdraw what it asked for [R-1550].
  const requests = `SELECT count(*)::int AS n FROM ${schema}.requests WHERE request IS NOT NULL`;
  const asking = launch([
    'retention',
    'policy',
    'set',
    policy,
    '--data-dir',
    place('mirror'),
    '--store',
    officer,
  ]);
  await expect.poll(() => log.server.query(requests)).toEqual([{ n: 1 }]);
  asking.process.kill('SIGINT');
  expect(await asking.exited).toBe(130);
  expect(asking.output.stderr).toContain('withdrawn');
  expect(await log.server.query(requests)).toEqual([{ n: 0 }]);
});

describe('[R-1266] verify and doctor find and name what a superuser has changed', () => {
  const row = '(lane, batch, ord) = (SELECT lane, batch, 0 FROM sequenced WHERE first_sequence = 5)';
  const flipped = (column: string, at: number) =>
    `${column} = set_byte(${column}, ${at}, get_byte(${column}, ${at}) # 1)`;
  const attacks: [name: string, sql: string, finds: { kind: string; sequence?: number }][] = [
    [
      'a payload',
      `UPDATE events SET ${flipped('salted', 20)} WHERE ${row}`,
      { kind: 'altered', sequence: 5 },
    ],
    [
      'an envelope',
      `UPDATE events SET ${flipped('envelope', 12)} WHERE ${row}`,
      { kind: 'altered', sequence: 5 },
    ],
    [
      'an envelope that is none',
      `UPDATE events SET envelope = '\\x00' WHERE ${row}`,
      { kind: 'altered', sequence: 5 },
    ],
    ['a row of a payload that is gone', `DELETE FROM events WHERE ${row}`, { kind: 'missing', sequence: 5 }],
    [
      'the last row',
      `DELETE FROM events WHERE (lane, batch) = (SELECT lane, batch FROM sequenced WHERE entries > 0 ORDER BY first_sequence DESC LIMIT 1)`,
      { kind: 'missing' },
    ],
    ['an id that is gone', `DELETE FROM event_ids WHERE ${row}`, { kind: 'altered', sequence: 5 }],
    [
      'an id that was put in',
      `INSERT INTO event_ids SELECT gen_random_uuid(), 1, 1, 1, 1000`,
      { kind: 'altered' },
    ],
    [
      'a row that was put in',
      `INSERT INTO events (lane, batch, ord, envelope, salted) SELECT lane, batch, 7, envelope, salted FROM events WHERE ${row}`,
      { kind: 'altered', sequence: 5 },
    ],
    [
      'the leaves of a batch',
      `UPDATE batches SET ${flipped('leaves', 60)} WHERE (lane, batch) = (SELECT lane, batch FROM sequenced WHERE first_sequence = 5)`,
      { kind: 'altered', sequence: 5 },
    ],
    [
      'the place of a batch',
      `DELETE FROM sequenced WHERE first_sequence = 5`,
      { kind: 'missing', sequence: 5 },
    ],
    ['a tile', `UPDATE tiles SET ${flipped('hashes', 0)} WHERE level = 0`, { kind: 'tile_altered' }],
  ];
  /** What needs no verdict, or has one of its own. */
  const ownVerdicts: [name: string, sql: string, finds: RegExp][] = [
    [
      'the newest checkpoint',
      `UPDATE published SET note = (SELECT note FROM checkpoints ORDER BY size LIMIT 1)`,
      /covered by a checkpoint|forked|signed/,
    ],
    [
      'a line of the access log',
      `INSERT INTO access_lines (line, text) VALUES (1, 'nobody')`,
      /note: line 1 of access.log was not written by a collector: the database role postgres/,
    ],
  ];

  test('each of these', async () => {
    const one = await collector('one');
    const key = await keyFrom(one);
    for (let i = 0; i < 12; i++) expect((await postEvent(one, key, outcomeEvent())).status).toBe(201);
    await signed(12);
    await one.stop();
    const copy = log.schema;
    for (const [name, sql, finds] of [...attacks, ...ownVerdicts]) {
      const tables = await log.server.query(`SELECT tablename FROM pg_tables WHERE schemaname = '${copy}'`);
      const kept = tables
        .map(({ tablename }) => String(tablename))
        .filter((each) => !/^(events|batches)$/.test(each));
      await log.server.query(
        `CREATE SCHEMA kept; ${kept.map((each) => `CREATE TABLE kept.${each} AS TABLE ${copy}.${each};`).join(' ')}`,
      );
      await log.server.query(`SET search_path = ${copy}; ${sql}`);
      const { code, stdout } = await run([
        'verify',
        '--store',
        store,
        ...(finds instanceof RegExp ? [] : ['--json']),
      ]);
      if (finds instanceof RegExp) expect(stdout, name).toMatch(finds);
      else {
        expect(code, `${name}: ${stdout}`).toBe(3);
        const { findings } = JSON.parse(stdout) as {
          findings: { kind: string; sequence?: number; file?: string }[];
        };
        const faults = findings.filter(({ kind }) => kind !== 'note');
        expect(faults, name).toContainEqual(expect.objectContaining(finds));
        // Nothing is said of another event.
        expect(
          faults.filter(({ sequence = finds.sequence }) => sequence !== (finds.sequence ?? sequence)),
          name,
        ).toEqual([]);
        expect(
          faults.filter(({ file }) => file?.startsWith('ledger/')),
          name,
        ).toEqual([]);
      }
      await log.server.query(
        `SET session_replication_role = replica; ${kept.map((each) => `DELETE FROM ${copy}.${each};`).join(' ')}
         ${kept.map((each) => `INSERT INTO ${copy}.${each} OVERRIDING SYSTEM VALUE SELECT * FROM kept.${each};`).join(' ')} DROP SCHEMA kept CASCADE`,
      );
    }
    expect(await succeeds('verify', '--store', store)).toContain('INTACT');
  });
});

/** What a collector measures now; undefined when that is not there. */
async function measured({ output }: Running, name: string): Promise<string | undefined> {
  const port = /"port":(\d+),[^\n]*"msg":"management listening"/.exec(output.stderr)?.[1];
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return text
    .split('\n')
    .find((line) => line.startsWith(`${name} `))
    ?.slice(name.length + 1);
}

test('[R-1254] [R-1435] a database that goes back behind what was signed is not signed again, and events are taken', async () => {
  const { schema } = log;
  const { one, other, key } = await log.filled();
  await log.server.query(`CREATE TABLE ${schema}.before AS TABLE ${schema}.published;
    CREATE TABLE ${schema}.head_before AS TABLE ${schema}.heads`);
  for (let i = 0; i < 5; i++) expect((await postEvent(one, key, outcomeEvent())).status).toBe(201);
  await givenOut(25, 'one', 'other');
  const merged = async () => {
    const counts = await Promise.all(
      [one, other].map((each) => measured(each, 'collector_merge_delay_seconds_count')),
    );
    return counts.reduce((sum, count) => sum + Number(count), 0);
  };
  await expect.poll(merged).toBeGreaterThanOrEqual(5);
  expect(await measured(one, 'collector_partition_months_ahead')).toBe('12');
  expect(await measured(one, 'collector_replication_safe')).toBeUndefined();
  expect(await measured(one, 'collector_log_forked')).toBe('0');
  await log.server.query(`SET search_path = ${schema}; BEGIN; SELECT 1 FROM heads FOR UPDATE;
    DELETE FROM sequenced WHERE first_sequence > (SELECT size FROM head_before);
    UPDATE heads SET size = b.size, own_entries = b.own_entries, bytes = b.bytes FROM head_before b;
    UPDATE published SET note = b.note FROM before b; DELETE FROM checkpoints WHERE size > (SELECT size FROM head_before);
    INSERT INTO open_lanes SELECT lane FROM lanes ON CONFLICT DO NOTHING; COMMIT`);
  for (const each of [one, other]) {
    while (!each.output.stderr.includes('the log is not the one that was signed')) await sleep(50);
    expect((await postEvent(each, key, outcomeEvent())).status).toBe(201);
    await expect.poll(() => measured(each, 'collector_log_forked')).toBe('1');
    expect(await measured(each, 'collector_warnings{id="log_forked"}')).toBe('1');
    expect(await measured(each, 'collector_warnings{id="access_log_altered"}')).toBe('0');
    expect(await measured(each, 'collector_warnings{id="backup_old"}')).toBe('0');
  }
  const [note] = await log.server.query(
    `SELECT note = (SELECT note FROM ${schema}.before) AS same FROM ${schema}.published`,
  );
  expect(note).toEqual({ same: true });
  await Promise.all([one.stop(), other.stop()]);
  // Nor by one that has seen the later state before it was stopped.
  const { code, stderr } = await run([
    ...['serve', '--store', store, '--data-dir', place('other'), '--signing-keys', place('signing-keys')],
    ...['--port', '0'],
  ]);
  expect(code).toBe(3);
  expect(stderr).toContain('gone back to an earlier state');
});

test('a database that holds no log, or one that was restored elsewhere, is refused with what to do', async () => {
  const { schema } = log;
  await log.server.query(`UPDATE ${schema}.log SET system_id = 1`);
  const { code, stderr } = await run(['serve', '--store', store, '--data-dir', place('one'), '--port', '0']);
  expect(code).toBe(1);
  expect(stderr).toContain('collector store check --adopt');
  await succeeds('store', 'check', '--store', store, '--adopt');
  const one = await collector('one');
  await one.stop();
});
