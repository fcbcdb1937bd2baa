import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { Catalogue } from '../../src/catalogue/catalogue.js';
import type { ConsoleState } from '../../src/operate/console/console-state.js';
import { openStore } from '../../src/store/open-to-read.js';
import { writeMirrorNote } from '../../src/tree/state-files.js';
import { contentsOf, expectedOf, twinLog } from '../catalogue/made-catalogue.js';
import { getJson, managementPort } from '../operate/managed.js';
import { stored } from '../records/odd-log.js';
import {
  launch,
  limits,
  run,
  start,
  temporaryDirectory,
  type Running,
} from '../running/collector-process.js';
import { contents } from '../running/directory-contents.js';
import { issueKey } from '../running/issued-keys.js';
import { post } from '../running/load.js';
import { canMount, withoutRoomIn } from '../running/restricted-process.js';
import { sampleEvent } from '../running/sample-events.js';
import { fillSigned } from './signed-directory.js';

/** The same log each time. */
const EVENTS =
  fc.sample(twinLog(120), { numRuns: 40, seed: 14 }).sort((a, b) => b.length - a.length)[0] ?? [];

let dataDir: string;
let key: string;

beforeEach(async () => {
  dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
  key = (await issueKey(dataDir)).text;
});

const catalogueOf = (directory = dataDir) => path.join(directory, 'catalogue');
const fileOf = (directory = dataDir) => path.join(catalogueOf(directory), 'catalogue.sqlite');

async function started(...args: readonly string[]): Promise<Running> {
  const collector = await start(dataDir, limits({ 'segment-bytes': '2MiB' }), [], {}, args);
  onTestFinished(() => collector.kill());
  return collector;
}

async function send({ port }: Running): Promise<void> {
  expect((await post(port, key, JSON.stringify(sampleEvent()))).status).toBe(201);
}

async function stateOf(collector: Running): Promise<ConsoleState> {
  return (await getJson(managementPort(collector), '/console/state.json')) as unknown as ConsoleState;
}

/** On return the collector's catalogue covers all that is stored. */
async function followed(collector: Running): Promise<void> {
  const behind = async () => (await stateOf(collector)).runs?.events_behind;
  await expect.poll(behind, { interval: 200 }).toBe(0);
}

/** Compares its rows, without an update for this, with what they should be for the whole log. */
async function expectRight(): Promise<void> {
  const log = openStore(dataDir).events;
  const { sequence } = await log.end();
  const catalogue = Catalogue.open({ directory: catalogueOf(), ledgerId: log.ledgerId });
  expect(catalogue.cursor.sequence).toBeGreaterThanOrEqual(EVENTS.length + 1);
  // After the last update, rows are still settled.
  const isSettled = () => [...catalogue.runs({ limit: 1 })].length;
  await expect.poll(isSettled, { interval: 200 }).toBe(1);
  expect(contentsOf(catalogue)).toEqual(await expectedOf(dataDir, sequence));
  catalogue.close();
  await log.close();
}

test('[R-1020] a running collector keeps its catalogue up to date, for its owner alone, also beside another process that updates it', async () => {
  await fillSigned(dataDir, [EVENTS.map(stored)]);
  const collector = await started();
  const log = openStore(dataDir).events;
  await expect.poll(() => log.ledgerId).not.toBe('');
  const other = Catalogue.open({ directory: catalogueOf(), ledgerId: log.ledgerId, mostEntries: 7 });
  for (let n = 0; n < 20; n++) {
    await send(collector);
    await other.update(log);
  }
  other.close();
  await log.close();
  await followed(collector);
  await expectRight();
  expect(fs.statSync(catalogueOf()).mode & 0o777).toBe(0o700);
  for (const name of fs.readdirSync(catalogueOf()))
    expect([name, fs.statSync(path.join(catalogueOf(), name)).mode & 0o777]).toEqual([name, 0o600]);
  expect(await collector.stop()).toBe(0);
});

test('[R-1020] after kills in the middle of an update the next start continues, and the rows are right', async () => {
  const many = Array.from({ length: 60 }, (_, copy) =>
    EVENTS.map((event) => stored({ ...event, organisation: `${event.organisation}-${copy}` })),
  );
  await fillSigned(dataDir, many);
  for (let round = 0; round < 3; round++) {
    const collector = await started();
    const isThere = () => fs.existsSync(`${fileOf()}-wal`) && fs.statSync(`${fileOf()}-wal`).size > 0;
    await expect.poll(isThere, { interval: 5 }).toBe(true);
    await collector.kill();
  }
  const collector = await started();
  await followed(collector);
  await expectRight();
});

describe('[R-1020] a catalogue that is damaged under a running collector', () => {
  const damage = {
    deleted: () => fs.rmSync(catalogueOf(), { recursive: true }),
    'cut off': () => fs.truncateSync(fileOf(), 8192),
    'all zeros': () => fs.writeFileSync(fileOf(), Buffer.alloc(fs.statSync(fileOf()).size), { flag: 'r+' }),
  };
  test.each(Object.entries(damage))('is rebuilt while events are accepted (%s)', async (_, spoil) => {
    await fillSigned(dataDir, [EVENTS.map(stored)]);
    const collector = await started();
    await followed(collector);
    spoil();
    for (let n = 0; n < 3; n++) await send(collector);
    const isRight = async () => {
      await followed(collector);
      const log = openStore(dataDir).events;
      const { sequence } = await log.end();
      await log.close();
      using database = new DatabaseSync(fileOf(), { readOnly: true, timeout: 600_000 });
      const taken = database.prepare("SELECT value FROM meta WHERE name = 'sequence'").get()?.['value'];
      expect(taken).toBe(sequence);
    };
    await expect.poll(isRight, { interval: 300 }).toBeUndefined();
    await expectRight();
    expect(await collector.stop()).toBe(0);
  });
});

test('[R-1020] a catalogue that cannot be made causes a warning and is tried again; events are stored', async () => {
  fs.writeFileSync(catalogueOf(), 'no directory');
  const collector = await started();
  await send(collector);
  const warned = async () => (await stateOf(collector)).warnings.map(({ id }) => id);
  await expect.poll(warned).toContain('catalogue_fails');
  expect(collector.output.stderr).toContain('the catalogue cannot be updated');
  fs.rmSync(catalogueOf());
  await expect.poll(warned).not.toContain('catalogue_fails');
  await send(collector);
  await followed(collector);
  expect(collector.output.stderr).toContain('the catalogue is being updated again');
  expect(await collector.stop()).toBe(0);
});

test.runIf(canMount)('[R-1020] without space for its catalogue a collector accepts events', async () => {
  fs.mkdirSync(catalogueOf(), 0o700);
  const collector = await started(...withoutRoomIn(catalogueOf()));
  await send(collector);
  const reason = () => /"reason":"([^"]*)"/.exec(collector.output.stderr)?.[1];
  await expect.poll(reason).toContain('no room for the catalogue');
  await send(collector);
  expect(await collector.stop()).toBe(0);
});

describe('[R-703] doctor', () => {
  interface Found {
    readonly code: number | null;
    readonly severity?: string;
    readonly message?: string;
    readonly records?: readonly object[];
    readonly records_not_listed?: number;
  }

  async function found(): Promise<Found> {
    const { code, stdout, stderr } = await run(['doctor', '--json', '--data-dir', dataDir]);
    expect(stderr).toBe('');
    const { findings, damaged } = JSON.parse(stdout) as {
      findings: ({ subject: string } & Found)[];
      damaged: boolean;
    };
    expect(damaged).toBe(false);
    return { ...findings.find(({ subject }) => subject === 'catalogue'), code };
  }

  function change(sql: string): void {
    using database = new DatabaseSync(fileOf(), { timeout: 600_000 });
    database.exec(sql);
  }

  /** @returns how many records it has. */
  async function made(): Promise<number> {
    const log = openStore(dataDir).events;
    const catalogue = Catalogue.open({ directory: catalogueOf(), ledgerId: log.ledgerId, mostEntries: 7 });
    await catalogue.update(log);
    const records = catalogue.count();
    catalogue.close();
    await log.close();
    return records;
  }

  const ok = (message: RegExp | string) => ({
    ...{ code: 0, severity: 'ok', message: expect.stringMatching(message) as string },
  });
  const wrong = (message: string) => ({
    ...{ code: 7, severity: 'warning' },
    message: expect.stringMatching(
      `${message}: derived; delete catalogue/, also while a collector runs$`,
    ) as string,
  });

  test('compares each row of the catalogue with the log, changes nothing, and says with exit code 7 which differ', async () => {
    await fillSigned(dataDir, [EVENTS.map(stored)]);
    expect(await found()).toMatchObject(ok(/^none yet/));
    const records = await made();
    const before = contents(dataDir);
    expect(await found()).toMatchObject(
      ok(`^${records} records up to entry ${EVENTS.length}, all equal to the log$`),
    );
    expect(contents(dataDir)).toEqual(before);
    const catalogue = Catalogue.open({ directory: catalogueOf(), ledgerId: 'ab'.repeat(16) });
    catalogue.close();
    expect(await found()).toMatchObject({
      ...wrong('^of another log.*'),
      records: [],
      records_not_listed: 0,
    });
    fs.rmSync(catalogueOf(), { recursive: true });
    await made();
    change('DELETE FROM tally');
    expect(await found()).toMatchObject({ ...wrong('^wrong: its totals .*'), records: [] });
    change('PRAGMA user_version = 1');
    expect(await found()).toMatchObject(ok(/^of another version/));
    fs.writeFileSync(fileOf(), Buffer.alloc(1 << 16, 7));
    expect(await found()).toMatchObject(wrong('^damaged'));
    fs.rmSync(fileOf());
    fs.mkdirSync(fileOf());
    expect(await found()).toMatchObject(wrong('^damaged'));
  });

  test('[R-703] names ten wrong records to people and all to scripts', async () => {
    await fillSigned(dataDir, [EVENTS.map(stored)]);
    const records = await made();
    const one = { record_id: expect.any(String) as string, organisation: expect.any(String) as string };
    change(
      'UPDATE run SET began_sender = began_sender + 1 WHERE id = (SELECT min(id) FROM run WHERE is_run = 0)',
    );
    expect(await found()).toMatchObject({
      ...wrong(`^1 of ${records} records differs from the log`),
      records: [{ ...one, run_id: null, found: 'differs' }],
    });
    change('UPDATE run SET began_sender = began_sender + 2');
    const all = await found();
    expect(all).toMatchObject({
      ...wrong(`^${records} of ${records} records differ from .*`),
      records_not_listed: 0,
    });
    expect(all.records).toHaveLength(records);
    const { code, stdout } = await run(['doctor', '--data-dir', dataDir]);
    expect(code).toBe(7);
    expect(
      stdout.match(
        /^WARNING +catalogue +(?:run|record) \S+ (?:\(no run\) )?of organisation \S+ differs from the log$/gm,
      ),
    ).toHaveLength(10);
    expect(stdout).toMatch(new RegExp(`^WARNING +catalogue +${records - 10} more: --json$`, 'm'));
    // Damage to the log decides the exit code.
    fs.rmSync(path.join(dataDir, 'checkpoints'), { recursive: true });
    const [segment = ''] = fs.readdirSync(path.join(dataDir, 'ledger'));
    fs.truncateSync(path.join(dataDir, 'ledger', segment), 200);
    expect((await run(['doctor', '--data-dir', dataDir])).code).toBe(3);
  });

  test('compares the catalogue of a running collector too', async () => {
    await fillSigned(dataDir, [EVENTS.map(stored)]);
    const collector = await started();
    await send(collector);
    await followed(collector);
    expect(await found()).toMatchObject(ok(/^[0-9]+ records up to entry [0-9]+, all equal to the log$/));
    change('DELETE FROM run WHERE id = (SELECT min(id) FROM run)');
    expect(await found()).toMatchObject({ code: 7, severity: 'warning' });
  });

  test('[R-703] compares the catalogue of a mirror', async () => {
    await fillSigned(dataDir, [EVENTS.map(stored)]);
    await made();
    const { ledgerId } = openStore(dataDir).events;
    writeMirrorNote(dataDir, {
      store: 'postgres://log.example',
      ledger_id: ledgerId,
      id: 'm',
      forwarded: 0,
      followed: 0,
    });
    expect(await found()).toMatchObject(ok(/all equal to the log$/));
    change('DELETE FROM run WHERE id = (SELECT min(id) FROM run)');
    expect(await found()).toMatchObject({ code: 7 });
  });

  test('[R-703] keeps its temporary files for their owner alone, and removes them, also after a signal', async () => {
    const many = Array.from({ length: 100 }, (_, copy) =>
      EVENTS.map((event) => stored({ ...event, organisation: `${event.organisation}-${copy}` })),
    );
    await fillSigned(dataDir, many);
    await made();
    const scratch = fs.mkdtempSync(path.join(dataDir, 'tmp-'));
    const args = ['doctor', '--data-dir', dataDir];
    const env = { TMPDIR: scratch };
    expect((await run(args, { env })).code).toBe(0);
    expect(fs.readdirSync(scratch)).toEqual([]);
    const { process: child, exited } = launch(args, { env });
    await expect.poll(() => fs.readdirSync(scratch), { interval: 1 }).toHaveLength(1);
    child.kill('SIGSTOP');
    const [name = ''] = fs.readdirSync(scratch);
    expect(fs.statSync(path.join(scratch, name)).mode & 0o777).toBe(0o700);
    child.kill('SIGTERM');
    child.kill('SIGCONT');
    expect(await exited).toBe(130);
    expect(fs.readdirSync(scratch)).toEqual([]);
  });
});
