/** `collector records --subject-file`: the records about a person (GDPR, Article 15). */
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, expect, test } from 'vitest';
import { createKey, postEvent, run, start, type Running } from '../running/collector-process.js';
import { sampleEvent } from '../running/sample-events.js';
import { scratch } from '../running/scratch.js';
import { segmentPaths } from '../store/embedded/filled-directory.js';

const SUBJECT = 'patient-4711-ß';
const OTHER = 'patient-0815';

let root: string;
let dataDir: string;
let subjects: string;

beforeEach(() => {
  root = scratch();
  dataDir = path.join(root, 'data');
  subjects = path.join(root, 'subject.txt');
  fs.writeFileSync(subjects, `${SUBJECT}\n`);
});

const records = (...args: readonly string[]) => run(['records', '--data-dir', dataDir, ...args]);
const asked = (...args: readonly string[]) => records('--subject-file', subjects, ...args);

interface Given {
  readonly metadata: { readonly run_id: string };
}

const runsIn = (text: string) => (JSON.parse(text) as Given[]).map(({ metadata }) => metadata.run_id);

interface Named {
  readonly target?: string;
  readonly caller?: string;
  readonly parent?: string;
  readonly run?: string;
}

async function sendStart(
  collector: Running,
  key: string,
  { target, caller = 'clinician-17', parent, run: runId }: Named,
): Promise<string> {
  const event = sampleEvent('inference-start', {
    ...{ target_identity: target === undefined ? {} : { target_id: target, target_type: 'patient' } },
    ...{ user_identity: { caller_id: caller, caller_type: 'clinician' } },
    ...(parent !== undefined && { parent_event_id: parent }),
    ...(runId !== undefined && { run_id: runId }),
  });
  const { status } = await postEvent(collector, key, event, 'inference-start');
  expect(status).toBe(201);
  return event.event_id;
}

test('[R-1562] --subject-file prints only records about the person, found in the log, and lists the others with the reason', async () => {
  const key = await createKey(dataDir);
  const collector = await start(dataDir);
  const send = (named: Named) => sendStart(collector, key, named);
  const mine = await send({ target: SUBJECT });
  const called = await send({ caller: SUBJECT });
  const ofOther = await send({ caller: SUBJECT, target: OTHER });
  const twoTargets = await send({ target: SUBJECT });
  await send({ target: OTHER, run: twoTargets });
  const twoCallers = await send({ caller: SUBJECT });
  await send({ run: twoCallers });
  const nested = await send({ parent: mine });
  const alien = await send({ target: OTHER });
  expect((await records('--format', 'json')).code).toBe(0);
  await collector.stop();
  // The catalogue does not decide.
  const database = new DatabaseSync(path.join(dataDir, 'catalogue', 'catalogue.sqlite'), {
    timeout: 600_000,
  });
  const alone = database.prepare('DELETE FROM run WHERE record <> ?');
  alone.run(Buffer.from(alien.replaceAll('-', ''), 'hex'));
  database.close();

  const others = [
    [ofOther, 'the person is the caller, .*'],
    [twoTargets, '.* several targets'],
    [twoCallers, '.* several callers'],
    [nested, 'nested in .*'],
  ] as const;
  const given = await asked('--format', 'json');
  expect(given.code, given.stderr).toBe(0);
  expect(runsIn(given.stdout)).toEqual([mine, called]);
  for (const [id, why] of others) expect(given.stderr).toMatch(new RegExp(`^${id} +default +${why}$`, 'm'));
  expect(given.stderr).toContain('4 runs ');

  const all = await asked('--with-others', '--format', 'json', '--json');
  expect(runsIn(all.stdout)).toEqual([mine, called, ...others.map(([id]) => id)]);
  expect(JSON.parse(all.stderr)).toEqual({
    ...{ records: 6, events: 8, unread: 0, out: null, warnings: [] },
    others: others.map(([run, why]) => ({
      ...{ run, organisation: 'default' },
      why: expect.stringMatching(new RegExp(`^${why}$`)) as string,
    })),
  });
  expect(all.stdout).not.toContain(alien);

  // A record is the same as by its run, once the catalogue agrees with the log again.
  fs.rmSync(path.join(dataDir, 'catalogue'), { recursive: true });
  for (const id of [mine, nested]) {
    const byRun = await records('--run', id, '--format', 'ndjson');
    expect((await asked('--with-others')).stdout.split('\n')).toContain(byRun.stdout.trim());
  }

  const csv = await asked('--format', 'csv', '--for-spreadsheet');
  expect(csv.stdout).toMatch(/^\ufeffrecord_id,/);
  expect(csv.stderr).not.toContain('warning');

  const text = await asked('--format', 'text');
  expect(text.stdout.match(/^Run .*$/gm)).toEqual(
    [mine, called].map((id) => expect.stringContaining(id) as string),
  );
  const out = path.join(root, 'answer.json');
  expect(await asked('--format', 'json', '--out', out)).toMatchObject({ code: 0, stdout: '' });
  expect(runsIn(fs.readFileSync(out, 'utf8'))).toEqual([mine, called]);

  const lines = fs.readFileSync(path.join(dataDir, 'access.log'), 'utf8');
  expect(lines).toContain('"filter":{"subjects":1,"with_others":true,"format":"json"}');
  for (const each of [SUBJECT, 'answer.txt']) expect(lines).not.toContain(each);
  expect(lines).toMatch(/"command":"records","events":8,"complete":true/);

  fs.writeFileSync(subjects, 'x\n');
  const nothing = await asked();
  expect([nothing.code, nothing.stderr]).toEqual([6, expect.stringContaining('names one of the ids')]);
});

test('[R-1562] an id that several organisations have is refused with counts, until one is named', async () => {
  const key = await createKey(dataDir);
  const icu = await createKey(dataDir, '--organisation', 'icu');
  const collector = await start(dataDir);
  const here = await sendStart(collector, key, { target: SUBJECT });
  await sendStart(collector, icu, { target: SUBJECT });
  await sendStart(collector, icu, { caller: SUBJECT });
  const refused = await asked();
  expect(refused).toMatchObject({
    ...{ code: 2, stdout: '' },
    stderr: expect.stringMatching(/in 2 organisations .*: default \(1\), icu \(2\)/) as string,
  });
  const one = await asked('--organisation', 'default', '--format', 'json');
  expect(runsIn(one.stdout)).toEqual([here]);
  await collector.stop();
});

test('[R-1562] no record is printed from a log that ends before its checkpoint', async () => {
  const key = await createKey(dataDir);
  const collector = await start(dataDir, ['--encryption', 'off']);
  await sendStart(collector, key, { target: SUBJECT });
  await sendStart(collector, key, { target: SUBJECT, caller: 'the-last-caller' });
  await collector.stop();
  expect((await asked('--format', 'json')).code).toBe(0);
  const [file = ''] = segmentPaths(dataDir);
  const bytes = fs.readFileSync(file);
  fs.writeFileSync(file, bytes.fill(0, bytes.indexOf('the-last-caller')));
  expect(await asked('--format', 'json')).toMatchObject({
    ...{ code: 3, stdout: '' },
    stderr: expect.stringContaining('collector verify') as string,
  });
});

test.each([
  [['--with-others'], '--with-others'],
  [['--subject-file', '/nonexistent'], 'ENOENT'],
  [['--subject-file', '-', '--run', 'abcdefab'], '--subject-file'],
  [['--subject-file', '-', '--after', '0'], '--subject-file'],
  [['--format', 'text'], '--format'],
])('[R-1562] %j is refused before anything is done', async (args, message) => {
  const { code, stderr } = await records(...args);
  expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
});
