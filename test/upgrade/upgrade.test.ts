/** Opens and continues what each released version has stored: test/upgrade/make.mjs wrote it. */
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  createKey,
  outcomeEvent,
  postEvent,
  type PrintedEvent,
  run,
  type Running,
  start,
  storedEvents,
  temporaryDirectory,
} from '../../packages/collector/test/running/collector-process.js';
import { PostgresServer } from '../../packages/postgres/test/running/postgres-server.js';
import { hasPython } from '../python.js';
import { unpack, unpackText } from './fixture.js';

const ROOT = path.resolve(import.meta.dirname, '../..');
const SPOOL_COMMAND = path.join(ROOT, 'packages/client/dist/cli/main.js');
const PYTHON_SOURCES = path.join(ROOT, 'clients/python/src');
const VERSIONS = fs.readdirSync(import.meta.dirname).filter((name) => /^\d+\.\d+\.\d+$/.test(name));

/** An event as a later version must print it. */
type Stored = Pick<
  PrintedEvent,
  'sequence' | 'kind' | 'organisation' | 'event_id' | 'run_id' | 'received_at'
> & { readonly body: string | null };

interface Expected {
  readonly key: string;
  readonly revoked?: string;
  readonly events: readonly Stored[];
  readonly certificate?: { readonly action: string } & Record<string, unknown>;
  readonly plan?: string;
}

async function succeeds(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await run(args);
  expect(code, `${args.join(' ')}: ${stderr}`).toBe(0);
  return stdout;
}

/** The fixtures of a version, unpacked for one test. */
class Fixtures {
  readonly #version: string;
  readonly #scratch = temporaryDirectory();

  constructor(version: string) {
    this.#version = version;
    onTestFinished(() => fs.rmSync(this.#scratch, { recursive: true, force: true }));
  }

  at(name: string): string {
    return path.join(this.#scratch, name);
  }

  unpacked(name: string): string {
    unpack(path.join(import.meta.dirname, this.#version, `${name}.br`), this.at(name));
    return this.at(name);
  }

  json(name: string): unknown {
    return JSON.parse(this.text(`${name}.json`));
  }

  text(name: string): string {
    return unpackText(path.join(import.meta.dirname, this.#version, `${name}.br`));
  }

  write(name: string, text: string): string {
    fs.writeFileSync(this.at(name), text, { mode: 0o600 });
    return this.at(name);
  }
}

/** The closed files of the access log that were not checked. */
async function unchecked(where: readonly string[]): Promise<unknown> {
  const verdict = JSON.parse(await succeeds('verify', '--json', ...where)) as {
    readonly access_log: { readonly unchecked_files: unknown };
  };
  return verdict.access_log.unchecked_files;
}

/** Checks that an old key works, a revoked one does not, a stored event is known, and a new one is stored. */
async function continues(collector: Running, { key, revoked, events }: Expected): Promise<string> {
  const event = outcomeEvent();
  expect((await postEvent(collector, key, event)).status).toBe(201);
  if (revoked !== undefined) expect((await postEvent(collector, revoked, event)).status).toBe(401);
  const old = events.find(({ body, kind }) => body !== null && kind === 'outcome')?.body ?? '';
  expect((await postEvent(collector, key, JSON.parse(old) as object)).status).toBe(201);
  return event.event_id;
}

describe.each(VERSIONS)('%s', (version) => {
  test.each(['plain', 'encrypted'])(
    '[R-2057] a data directory is opened, verified and continued: %s',
    async (name) => {
      const fixtures = new Fixtures(version);
      const directory = fixtures.unpacked(name);
      const expected = fixtures.json(name) as Expected;
      const where = ['--data-dir', directory];
      await succeeds('verify', ...where);
      expect(await storedEvents(directory)).toMatchObject(expected.events);
      const subject = ['--subject-file', fixtures.write('subject.txt', 'patient-1\n')];
      expect(await succeeds('access-log', ...subject, '--json', ...where)).toContain('"possible"');
      const collector = await start(directory);
      const added = await continues(collector, expected);
      if (expected.certificate !== undefined) await erasesMore(fixtures, where, expected);
      expect(await collector.stop()).toBe(0);
      await succeeds('verify', ...where);
      const events = await storedEvents(directory);
      const closed = path.join(fixtures.at('archive'), 'access.log');
      fs.mkdirSync(path.dirname(closed));
      fs.renameSync(path.join(directory, 'access.log'), closed);
      expect(await unchecked(where)).toMatchObject([{ file: 'access.log' }]);
      expect(await unchecked([...where, '--access-log', closed])).toEqual([]);
      expect(events.map(({ event_id: id }) => id)).toEqual([
        ...expected.events.map(({ event_id: id }) => id),
        added,
      ]);
    },
  );

  /** Checks that the certificate stays and a hold forbids, and applies a plan of the old version. */
  async function erasesMore(fixtures: Fixtures, where: readonly string[], expected: Expected): Promise<void> {
    const { certificate = { action: '' }, plan = '' } = expected;
    const printed = await succeeds('erase', '--certificate', certificate.action, '--json', ...where);
    for (const member of ['format', 'action', 'reason', 'log', 'case', 'plan', 'entries', 'keys_destroyed'])
      expect((JSON.parse(printed) as Record<string, unknown>)[member]).toEqual(certificate[member]);
    expect(await succeeds('hold', 'list', ...where)).toMatch(/CASE-1/);
    const held = fixtures.write('held.txt', 'patient-2\n');
    const by = ['--by', 'upgrade'];
    const planned = await succeeds(
      ...['erase', 'plan', '--subject-file', held, '--out', fixtures.at('held.json'), ...by, ...where],
    );
    expect(planned).toMatch(/on hold by CASE-1/);
    const file = fixtures.write('plan.json', plan);
    const reason = ['--reason', 'erasure-request', '--case', 'U-2'];
    await succeeds('erase', 'apply', file, ...reason, ...by, '--wait', ...where);
    expect(JSON.parse(await succeeds('verify', '--json', ...where))).toMatchObject({ intact: true });
  }

  test.each(['plain', 'encrypted'])('[R-2057] a back-up is restored and continued: %s', async (name) => {
    const fixtures = new Fixtures(version);
    const [original, backup] = [fixtures.unpacked(name), fixtures.unpacked(`${name}-backup`)];
    const expected = fixtures.json(name) as Expected;
    const keys = ['--encryption-keys', path.join(original, 'encryption-keys')];
    const options = name === 'encrypted' ? keys : [];
    const signer = name === 'encrypted' ? ['--key', path.join(original, 'checkpoints/origin.vkey')] : [];
    const restored = fixtures.at('restored');
    await succeeds('restore', backup, '--data-dir', restored, ...options, ...signer);
    const events = await storedEvents(restored);
    expect(events.length).toBeGreaterThan(20);
    const ids = events.map(({ event_id: id }) => id);
    expect(events).toMatchObject(expected.events.slice(0, events.length));
    const signing = ['--signing-keys', path.join(original, 'signing-keys')];
    const collector = await start(restored, [...signing, ...options]);
    await continues(collector, expected);
    expect(await collector.stop()).toBe(0);
    await succeeds('verify', '--data-dir', restored);
    expect((await storedEvents(restored)).map(({ event_id: id }) => id).slice(0, events.length)).toEqual(ids);
  });

  test('[R-2057] the spools of both clients are sent by both', async () => {
    const fixtures = new Fixtures(version);
    const sent = fixtures.json('spools') as Record<string, readonly [string, object][]>;
    const drains: Record<string, readonly string[]> = { node: [process.execPath, SPOOL_COMMAND] };
    if (hasPython) drains['python'] = ['python3', '-c', PYTHON_DRAIN];
    for (const [name, program] of Object.entries(drains)) {
      const directory = fixtures.at(`collector of ${name}`);
      const key = await createKey(directory);
      const collector = await start(directory);
      for (const language of ['node', 'python']) {
        const spool = fixtures.unpacked(`${language}-spool`);
        await drained(program, spool, collector, key);
        fs.rmSync(spool, { recursive: true });
      }
      expect(await collector.stop()).toBe(0);
      const bodies = new Map((await storedEvents(directory)).map(({ event_id: id, body }) => [id, body]));
      const expected = Object.values(sent)
        .flat()
        .map(([, event]) => [(event as { event_id: string }).event_id, JSON.stringify(event)] as const);
      expect(bodies).toEqual(new Map(expected));
    }
  });

  test('[R-2057] a database is migrated, verified, continued and mirrored', async () => {
    const fixtures = new Fixtures(version);
    const restored = async (name: string) => {
      const server = await PostgresServer.start();
      onTestFinished(() => server.remove());
      await server.query(fixtures.text(`${name}.sql`));
      return server;
    };
    const [server, keyServer] = [await restored('database'), await restored('database-keys')];
    await server.query(`UPDATE log.encryption SET keys = '${keyServer.url()}?schema=keys'`);
    const [directory, mirror] = [fixtures.unpacked('database-collector'), fixtures.unpacked('mirror')];
    const expected = fixtures.json('database') as Expected;
    const store = ['--store', `${server.url()}?schema=log`];
    const where = [...store, '--data-dir', directory];
    await succeeds('store', 'migrate', ...store);
    await succeeds('store', 'check', '--adopt', ...store);
    await succeeds('verify', ...store, '--data-dir', fixtures.at('nowhere'));
    const kek = ['--kek', `file:${path.join(directory, 'kek')}`];
    const keys = ['--encryption-keys', `${keyServer.url()}?schema=keys`];
    const collector = await start(directory, [...store, ...keys, ...kek]);
    const printed = async () => parsed(await succeeds('events', ...where));
    expect(await printed()).toMatchObject(expected.events);
    await continues(collector, expected);
    const ids = (events: readonly PrintedEvent[]) => events.map(({ event_id: id }) => id);
    await expect.poll(async () => ids(await printed())).toHaveLength(expected.events.length + 1);
    const stored = ids(await printed());
    // The new event is copied once it is signed.
    await expect
      .poll(async () => {
        await succeeds('mirror', ...store, '--data-dir', mirror, '--once', ...kek);
        return ids(await storedEvents(mirror));
      })
      .toEqual(stored);
    expect(await collector.stop()).toBe(0);
    await succeeds('verify', ...where);
    await succeeds('verify', '--data-dir', mirror);
  });
});

const parsed = (text: string) =>
  text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as PrintedEvent);

const PYTHON_DRAIN = 'import sys; from clinical_events._command import main; sys.exit(main())';

async function drained(
  [program = '', ...args]: readonly string[],
  spool: string,
  { url }: Running,
  key: string,
): Promise<void> {
  const env = { PATH: process.env['PATH'], PYTHONPATH: PYTHON_SOURCES, COLLECTOR_KEY: key };
  await promisify(execFile)(program, [...args, 'drain', spool, '--url', url], { env });
}
