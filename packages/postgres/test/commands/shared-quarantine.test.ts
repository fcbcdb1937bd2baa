/** A batch, an id and a line that the roles of a log put there by hand: what the operator sees, and what he does. */
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { PostgresServer, signed } from '../running/postgres-server.js';
import {
  keyFrom,
  outcomeEvent,
  postEvent,
  run,
  type Running,
  start,
  temporaryDirectory,
} from '../../../collector/test/running/collector-process.js';

let server: PostgresServer;
let schemas = 0;
let schema: string;
let directory: string;

beforeAll(async () => {
  server = await PostgresServer.start();
});
afterAll(() => server.remove());
beforeEach(async () => {
  directory = temporaryDirectory();
  schema = `log_${schemas++}`;
  await succeeds('store', 'migrate', '--store', storeOf('postgres'), '--durability', 'local');
  await server.query(await succeeds('store', 'roles', '--store', storeOf('postgres')));
  for (const role of ['writer', 'reader'])
    await server.query(
      `CREATE ROLE ${schema}_a_${role} LOGIN; GRANT ${schema}_${role} TO ${schema}_a_${role}`,
    );
});

function storeOf(user: string): string {
  return `${server.url('postgres', user)}?schema=${schema}`;
}

async function succeeds(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await run(args);
  expect(code, `${args.join(' ')}: ${stderr}`).toBe(0);
  return stdout;
}

function place(name: string): string {
  return path.join(directory, name);
}

function collector(name: string): Promise<Running> {
  const store = storeOf(`${schema}_a_writer`);
  return start(place(name), ['--store', store, '--signing-keys', place('signing-keys')]);
}

async function asked({ output }: Running, route: string): Promise<{ status: number; text: string }> {
  const port = /"port":(\d+),[^\n]*"msg":"management listening"/.exec(output.stderr)?.[1];
  const response = await fetch(`http://127.0.0.1:${port}${route}`);
  return { status: response.status, text: await response.text() };
}

interface Verdict {
  readonly intact: boolean;
  readonly unsequenced_entries: number;
  readonly quarantined_batches: number;
  readonly findings: readonly {
    kind: string;
    lane?: number;
    batch?: number;
    entries?: number;
    message: string;
  }[];
}

async function verified(): Promise<Verdict> {
  const { stdout } = await run(['verify', '--store', storeOf(`${schema}_a_reader`), '--json']);
  return JSON.parse(stdout) as Verdict;
}

const quarantine = (...more: readonly string[]) => [
  ...['store', 'quarantine', '--store', storeOf('postgres')],
  ...['--signing-keys', place('signing-keys'), ...more],
];

test('[R-1435] [R-1266] [R-1268] a batch that stops all signing is named, seen, quarantined, and signing resumes by itself', async () => {
  const one = await collector('one');
  const key = await keyFrom(one);
  const other = await collector('other');
  expect((await postEvent(one, key, outcomeEvent())).status).toBe(201);
  await signed(server, schema, 1);
  const [{ lane } = {}] = await server.query(`SELECT max(lane) AS lane FROM ${schema}.batches`);
  await server.query(
    `SET ROLE ${schema}_writer; INSERT INTO ${schema}.batches (lane, batch, candidates, entries, leaves, seal)
     VALUES (${String(lane)}, 2, 1, 1, decode(repeat('ab', 73), 'hex'), 'x')`,
  );
  expect((await postEvent(other, key, outcomeEvent())).status).toBe(201);
  for (;;) {
    const ready = await Promise.all([one, other].map((each) => asked(each, '/readyz')));
    if (ready.every(({ status }) => status === 503)) {
      expect(ready[0]?.text).toMatch(
        /"check":"signing","cause":"signing_stalled","reason":"nothing is signed: the oldest batch/,
      );
      break;
    }
    await sleep(200);
  }
  expect((await asked(one, '/readyz?verbose')).text).toContain('[-]signing failed: nothing is signed');
  expect((await asked(one, '/livez')).status).toBe(200);
  const { warnings } = JSON.parse((await asked(one, '/console/state.json')).text) as {
    warnings: { id: string; severity: string }[];
  };
  expect(warnings).toContainEqual(expect.objectContaining({ id: 'signing_stalled', severity: 'critical' }));
  const metric = /^collector_signing_stalled_seconds (\S+)$/m.exec((await asked(one, '/metrics')).text);
  expect(Number(metric?.[1])).toBeGreaterThanOrEqual(5);
  // Events are taken all the same.
  expect((await postEvent(one, key, outcomeEvent())).status).toBe(201);

  const found = await verified();
  expect(found).toMatchObject({ intact: false, quarantined_batches: 0 });
  // With heads of the access log.
  expect(found.unsequenced_entries).toBeGreaterThanOrEqual(3);
  expect(found.findings).toContainEqual(
    expect.objectContaining({ kind: 'not_signed', lane: Number(lane), batch: 2 }),
  );

  const refused = await run(
    quarantine().map((each) => (each === storeOf('postgres') ? storeOf(`${schema}_a_writer`) : each)),
  );
  expect([refused.code, refused.stderr]).toEqual([
    1,
    expect.stringContaining('run it as the owner of the schema'),
  ]);
  const planned = JSON.parse(await succeeds(...quarantine('--dry-run', '--json'))) as object;
  expect(planned).toMatchObject({
    ...{ dry_run: true, action: null, gaps: [] },
    items: [{ kind: 'batch', lane: Number(lane), batch: 2, entries: 1, ids: 0 }],
  });
  expect((await verified()).unsequenced_entries).toBeGreaterThanOrEqual(3);
  expect(await succeeds(...quarantine())).toMatch(/Moved by action [0-9a-f-]{36}/);
  await signed(server, schema, 4);
  for (const each of [one, other]) while ((await asked(each, '/readyz')).status !== 200) await sleep(100);
  expect((await postEvent(one, key, outcomeEvent())).status).toBe(201);
  await signed(server, schema, 5);
  const verdict = await verified();
  expect(verdict).toMatchObject({ intact: true, quarantined_batches: 1 });
  expect(verdict.findings).toContainEqual({
    kind: 'note',
    message: '1 batch and 0 ids are quarantined: no collector stored them',
  });
  expect(await succeeds(...quarantine())).toContain('There is nothing to move');
  // A mirror has the entry, and prints it; the access log says who.
  await succeeds('mirror', '--store', storeOf(`${schema}_a_reader`), '--data-dir', place('mirror'), '--once');
  expect(await succeeds('erase', '--list', '--data-dir', place('mirror'))).toContain('quarantine');
  expect(await succeeds('verify', '--data-dir', place('mirror'))).toContain(
    '1 batch and 0 ids are quarantined',
  );
  const lines = await server.query(
    `SELECT text FROM ${schema}.access_lines WHERE text LIKE '%store quarantine%'`,
  );
  // Attempts by a role that may not do it are there too.
  expect(lines.map(({ text }) => String(text)).join()).toContain('"database_user":"postgres"');
  await Promise.all([one.stop(), other.stop()]);
});

test('[R-1268] an id in no batch is named, and its event is stored once it is quarantined', async () => {
  const one = await collector('one');
  const key = await keyFrom(one);
  const event = outcomeEvent();
  expect((await postEvent(one, key, outcomeEvent())).status).toBe(201);
  await signed(server, schema, 1);
  const [{ id } = {}] = await server.query(
    `SELECT organisation_id AS id FROM ${schema}.organisations ORDER BY 1 LIMIT 1`,
  );
  await server.query(
    `SET ROLE ${schema}_writer; INSERT INTO ${schema}.event_ids VALUES ('${event.event_id}', ${String(id)}, 900, 1, 0)`,
  );
  expect((await postEvent(one, key, event)).status).toBe(500);
  expect((await verified()).findings).toContainEqual(
    expect.objectContaining({
      kind: 'altered',
      lane: 900,
      batch: 1,
      message: expect.stringContaining('event_ids has 1 id') as string,
    }),
  );
  await succeeds(...quarantine());
  expect((await postEvent(one, key, event)).status).toBe(201);
  await signed(server, schema, 3);
  expect(await verified()).toMatchObject({ intact: true });
  await one.stop();
});

test('[R-1265] a line that no command has written is named, with who put it there, and does not condemn the log', async () => {
  const one = await collector('one');
  const key = await keyFrom(one);
  expect((await postEvent(one, key, outcomeEvent())).status).toBe(201);
  await succeeds('events', '--store', storeOf(`${schema}_a_reader`));
  await server.query(
    `INSERT INTO ${schema}.access_lines (line, text) SELECT max(line) + 1, 'garbage' FROM ${schema}.access_lines`,
  );
  await succeeds('events', '--store', storeOf(`${schema}_a_reader`));
  for (;;) {
    const [row] = await server.query(`SELECT access_lines::int AS n FROM ${schema}.heads`);
    if (Number(row?.['n']) >= 5) break;
    await sleep(100);
  }
  const verdict = await verified();
  expect(verdict.intact).toBe(true);
  const foreign = {
    kind: 'note',
    message: 'line 3 of access.log was not written by a collector: the database role postgres wrote it',
  };
  expect(verdict.findings).toContainEqual(expect.objectContaining(foreign));
  await succeeds('mirror', '--store', storeOf(`${schema}_a_reader`), '--data-dir', place('mirror'), '--once');
  expect(await succeeds('verify', '--data-dir', place('mirror'))).toContain(
    'line 3 of access.log was not written by a collector',
  );
  await one.stop();
});
