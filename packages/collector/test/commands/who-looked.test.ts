/** `collector access-log --subject-file`: who looked at the runs of a person. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { openAccessLog, openReadingsLog } from '../../src/store/open-access-log.js';
import { createKey, postEvent, run, type Running, start } from '../running/collector-process.js';
import { sampleEvent } from '../running/sample-events.js';
import { scratch } from '../running/scratch.js';

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

const collector = (...args: readonly string[]) => run([...args, '--data-dir', dataDir]);
const asked = (...args: readonly string[]) => collector('access-log', '--subject-file', subjects, ...args);

interface Seen {
  readonly kind: string;
  readonly command: string;
  readonly run: string | null;
  readonly events: number | null;
}

async function seen(...args: readonly string[]): Promise<Seen[]> {
  const { code, stdout, stderr } = await asked('--json', ...args);
  expect(code, stderr).toBe(0);
  const lines = stdout.trimEnd().split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Seen);
}

const facts = ({ kind, command, run: of, events }: Seen) => [kind, command, of, events];

async function sendStart(
  to: Running,
  key: string,
  { target, parent }: { target?: string; parent?: string },
): Promise<string> {
  const event = sampleEvent('inference-start', {
    target_identity: target === undefined ? {} : { target_id: target, target_type: 'patient' },
    ...(parent !== undefined && { parent_event_id: parent }),
  });
  expect((await postEvent(to, key, event, 'inference-start')).status).toBe(201);
  return event.event_id;
}

interface Access {
  readonly command: string;
  readonly filter: object;
  readonly at?: string;
  readonly actor?: object;
  readonly reason?: string;
  readonly break_glass?: boolean;
  readonly end?: object | null;
}

/** Lines of an access, as a viewer or another host wrote them. */
function lines({ end = { events: 3, complete: true }, ...said }: Access): string[] {
  const both = {
    ...{ at: '2026-11-20T10:00:00.000Z', reading: randomUUID() },
    ...{ actor: { kind: 'oidc', name: 'dr.b', role: 'reviewer', proven: true }, uid: 990, user: 'viewer' },
  };
  const { filter, reason, break_glass, ...more } = said;
  const begun = { ...both, ...more, state: 'begun', reason, break_glass, filter };
  const ended = { ...both, ...more, state: 'ended', ...end };
  return [begun, ...(end === null ? [] : [ended])].map((line) => JSON.stringify(line));
}

function log(access: Access): void {
  for (const line of lines(access)) openAccessLog(dataDir).append(line);
}

test('[R-2043] lists looks at the runs of a person by commands, matched by run and by event', async () => {
  const key = await createKey(dataDir);
  const running = await start(dataDir);
  const mine = await sendStart(running, key, { target: SUBJECT });
  const nested = await sendStart(running, key, { parent: mine });
  const alien = await sendStart(running, key, { target: OTHER });
  const outcome = sampleEvent('outcome', { run_id: mine });
  expect((await postEvent(running, key, outcome)).status).toBe(201);
  await collector('records', '--run', mine, '--format', 'json');
  await collector('records', '--run', mine.slice(0, 8).toUpperCase(), '--format', 'json');
  await collector('records', '--run', alien, '--format', 'json');
  await collector('events', '--run', nested);
  await collector('events', '--event', outcome.event_id);
  await collector('events', '--event', alien);
  await expect
    .poll(async () => (await collector('proof', outcome.event_id, '--out', path.join(root, 'p'))).code)
    .toBe(0);
  await collector('runs', '--target', SUBJECT);
  await collector('records', '--subject-file', subjects, '--format', 'json');
  await collector('events');
  await collector('backup', path.join(root, 'backup'), '--keys-elsewhere');
  await running.stop();

  const found = await seen();
  const of = (command: string) => found.filter((each) => each.command === command).map(facts);
  expect(of('records')).toEqual([
    ['look', 'records', mine, 2],
    ['look', 'records', mine, 2],
    ['possible', 'records', null, 2],
  ]);
  expect(of('events')).toEqual([
    ['look', 'events', nested, 1],
    ['look', 'events', mine, 1],
    ['possible', 'events', null, 4],
  ]);
  expect(new Set(of('proof').map(String))).toContain(String(['look', 'proof', mine, 1]));
  expect(of('runs')).toEqual([['possible', 'runs', null, 2]]);
  expect(of('backup')).toMatchObject([['possible', 'backup', null, expect.any(Number)]]);
  expect(new Set(found.map(({ command }) => command))).toEqual(
    new Set(['records', 'events', 'proof', 'runs', 'backup']),
  );

  const { code, stdout } = await asked();
  expect(code).toBe(0);
  expect(stdout).toMatch(/^\d+ looks at the 2 runs of this person$/m);
  expect(stdout).toMatch(/^\d+ accesses not limited to other runs/m);
  expect(stdout).not.toContain(alien);
  expect(fs.readFileSync(path.join(dataDir, 'access.log'), 'utf8')).toContain(
    '"command":"access-log","filter":{"subjects":1}',
  );
  expect(fs.readFileSync(path.join(dataDir, 'access.log'), 'utf8')).not.toContain('patient-');
});

test('[R-2043] lists looks in the viewer with person, login, role, reason and break-glass', async () => {
  const key = await createKey(dataDir, '--organisation', 'icu');
  const running = await start(dataDir);
  const mine = await sendStart(running, key, { target: SUBJECT });
  await running.stop();
  const glass = { actor: { kind: 'proxy', name: 'dr.c', role: 'break-glass', proven: true } };
  const reason = 'resuscitation \u001b[31m\u202e';
  log({ command: 'viewer run', filter: { run: mine, organisation: 'icu' } });
  log({ command: 'viewer run', filter: { run: mine }, ...glass, reason, break_glass: true, end: null });
  log({ command: 'viewer proof', filter: { event: mine }, end: { events: 0, complete: false } });
  log({ command: 'viewer run', filter: { run: mine, organisation: 'other' } });
  log({ command: 'viewer run', filter: { run: randomUUID() } });
  log({ command: 'viewer runs', filter: { organisation: 'icu' } });
  log({ command: 'viewer runs', filter: { organisation: 'other' } });
  log({ command: 'viewer report', filter: {}, end: null });
  log({ command: 'a command of the future', filter: {} });
  for (const command of [
    'viewer break-glass',
    'keys create',
    'mirror',
    'viewer',
    'erase apply',
    'store check',
  ])
    log({ command, filter: {} });
  log({ command: 'viewer report', filter: { names: true } });
  log({ command: 'events', filter: { entry: 3 } });
  log({ command: 'proof', filter: { tiles: '/tiles' } });
  log({ command: 'hold add', filter: { run: [mine], name: 'CASE-1' } });
  openAccessLog(dataDir).append('something else');

  const found = await seen();
  expect(found.map(facts)).toEqual([
    ['look', 'viewer run', mine, 3],
    ['look', 'viewer run', mine, null],
    ['look', 'viewer proof', mine, 0],
    ['possible', 'viewer runs', null, 3],
    ['possible', 'viewer report', null, null],
    ['possible', 'a command of the future', null, 3],
    ['look', 'hold add', mine, 3],
  ]);
  expect(found[1]).toMatchObject({
    ...{ actor: glass.actor, reason, break_glass: true, organisation: 'icu', complete: null },
  });
  const { stdout, stderr } = await asked();
  expect(stderr).toContain('1 line of the access log cannot be read; run');
  expect(stdout).toMatch(/dr\.b +OpenID Connect +reviewer +viewer run +\S+ +3 +-$/m);
  expect(stdout).toMatch(/dr\.c +proxy +break-glass +viewer run +\S+ +unknown +BREAK-GLASS: resuscitation/m);
  expect(stdout).toMatch(/viewer proof +\S+ +0, cut short/m);
  // eslint-disable-next-line no-control-regex -- nothing of a line may move the cursor of a terminal
  expect(stdout).not.toMatch(/[\u001b\u202e]/);
});

test('[R-2043] on a mirror also reads its own log of readings, and lists each look once', async () => {
  const key = await createKey(dataDir);
  const running = await start(dataDir);
  const mine = await sendStart(running, key, { target: SUBJECT });
  await running.stop();
  const [here, there, early] = [
    lines({ command: 'viewer run', filter: { run: mine } }),
    lines({ command: 'records', filter: { run: mine } }),
    lines({ command: 'records', filter: { run: mine }, at: '2026-01-01T00:00:00.000Z' }),
  ];
  for (const line of [...early, ...here, ...there]) openAccessLog(dataDir).append(line);
  for (const line of here) openReadingsLog(dataDir).append(line);
  openReadingsLog(dataDir).append(lines({ command: 'report', filter: {} })[0] ?? '');
  const since = ['--since', '2026-11-20'];
  expect((await seen(...since)).map(facts)).toEqual([
    ['look', 'viewer run', mine, 3],
    ['look', 'records', mine, 3],
    ['possible', 'report', null, null],
  ]);
  expect(await seen('--until', '2026-11-20')).toHaveLength(1);
  expect(await seen('--until', '2025-11-20')).toEqual([]);
});

test('[R-2056] names each file of the access log that was moved away, and reads it where it is', async () => {
  const key = await createKey(dataDir);
  const running = await start(dataDir);
  const mine = await sendStart(running, key, { target: SUBJECT });
  await running.stop();
  for (const year of [2997, 2998, 2999]) {
    log({ command: 'viewer run', filter: { run: mine }, at: `${year}-05-01T00:00:00.000Z` });
    await (await start(dataDir)).stop();
  }
  const names = ['access.log', 'access-2998.log'];
  expect((await asked()).stderr).toBe('');
  for (const name of names) fs.renameSync(path.join(dataDir, name), path.join(root, name));
  const incomplete = (name: string) => `warning: access log incomplete: ${name} is not in the data directory`;
  const { code, stdout, stderr } = await asked();
  expect([code, stdout]).toEqual([0, expect.stringContaining('1 look at the 1 run')]);
  for (const name of names) expect(stderr).toContain(incomplete(name));
  const given = names.flatMap((name) => ['--access-log', path.join(root, name)]);
  const one = await asked(...given.slice(2));
  expect(one.stdout).toContain('2 looks at the 1 run');
  expect(one.stderr).toContain(incomplete(names[0] ?? ''));
  expect(one.stderr).not.toContain(names[1]);
  const all = await asked(...given);
  expect([all.stdout, all.stderr]).toEqual([expect.stringContaining('3 looks at the 1 run'), '']);
  expect((await asked('--access-log', path.join(dataDir, 'access-2999.log'))).code).toBe(2);
});

test('[R-2043] asks for one organisation, and says if no run names the person', async () => {
  const running = await start(dataDir);
  for (const organisation of ['icu', 'ward'])
    await sendStart(running, await createKey(dataDir, '--organisation', organisation), { target: SUBJECT });
  await running.stop();
  expect(await asked()).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('icu (1), ward (1)') as string,
  });
  expect((await asked('--organisation', 'icu')).code).toBe(0);
  fs.writeFileSync(subjects, 'nobody\n');
  const { code, stdout, stderr } = await asked();
  expect([code, stdout]).toEqual([6, '']);
  expect(stderr).toContain('names one of the ids');
  expect(stderr).not.toContain('nobody');
  expect((await collector('access-log')).code).toBe(2);
});
