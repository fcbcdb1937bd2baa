/** Every role on every page, over HTTP: what is shown, what counts as missing, and what the access log has. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { commit, version } from '@clinical-events/collector/commands/typed';
import { issueKey } from '../../collector/test/running/issued-keys.js';
import {
  run,
  type Running,
  start,
  temporaryDirectory,
} from '../../collector/test/running/collector-process.js';
import {
  looksIn,
  MAIN,
  PROXY,
  ProxyPerson,
  rolesFile,
  type RunningViewer,
  sendRun,
  type SentRun,
  startViewer,
} from './running/viewer-process.js';

const directory = temporaryDirectory();
const dataDir = path.join(directory, 'data');
const SUMMARY = 'Give 5 mg now.';
const PATIENT = 'patient-90210';
const CALLER = 'dr-lane';
let collector: Running;
let viewer: RunningViewer;
/** A run of the organisation and application, and of the caller, that the roles name; and others. */
const runs: Record<string, SentRun & { readonly organisation: string }> = {};

beforeAll(async () => {
  fs.mkdirSync(dataDir);
  const keys = {
    'st-mary': (await issueKey(dataDir, { organisation: 'st-mary' })).text,
    'st-john': (await issueKey(dataDir, { organisation: 'st-john' })).text,
  };
  collector = await start(dataDir);
  const startOf = (caller: string) => ({
    'inference-start': {
      user_identity: { caller_id: caller },
      target_identity: { target_id: PATIENT },
      inputs: { prompt: 'How much?' },
    },
    'human-output': { output: { summary: SUMMARY } },
  });
  const send = async (name: string, organisation: keyof typeof keys, app: string, caller: string) => {
    runs[name] = {
      ...(await sendRun(collector.url, keys[organisation], { app, more: startOf(caller) })),
      organisation,
    };
  };
  await send('own', 'st-mary', 'sepsis', CALLER);
  await send('of another caller', 'st-mary', 'sepsis', 'dr-other');
  await send('of another application', 'st-mary', 'triage', CALLER);
  await send('of another organisation', 'st-john', 'sepsis', CALLER);
  const scoped = { organisations: ['st-mary'], applications: ['sepsis'] };
  viewer = await startViewer([
    ...['--data-dir', dataDir, '--state-dir', path.join(directory, 'state')],
    ...['--auth', 'proxy:X-Remote-User', '--url', PROXY],
    '--roles',
    rolesFile(directory, [
      { role: 'reviewer', groups: ['safety'], ...scoped },
      { role: 'clinician', groups: ['doctors'], ...scoped },
      { role: 'auditor', groups: ['audit'], ...scoped },
      { role: 'break-glass', groups: ['on-call'], organisations: '*' },
    ]),
  ]);
  await viewer.logged('the catalogue is ready');
});

afterAll(async () => {
  await viewer.stop();
  await collector.stop();
  fs.rmSync(directory, { recursive: true, force: true });
});

const GROUP = {
  reviewer: 'safety',
  clinician: 'doctors',
  auditor: 'audit',
  'break-glass': 'on-call',
} as const;
type Role = keyof typeof GROUP;

test('[R-2058] --version and the first line of the viewer name the version and the commit', () => {
  const [first = ''] = viewer.output.stderr.split('\n');
  expect(JSON.parse(first)).toMatchObject({ msg: 'starting', version: version(), commit: commit() });
  const printed = execFileSync(process.execPath, [MAIN, '--version'], { encoding: 'utf8' });
  expect(printed).toBe(`${version()} (commit ${commit()})\n`);
});
const ROLES = Object.keys(GROUP) as Role[];

async function personIn(role: Role): Promise<ProxyPerson> {
  const person = new ProxyPerson(viewer, CALLER, GROUP[role]);
  if (role === 'break-glass')
    await person.post('/break-glass', { reason: 'The patient is in the emergency room.' });
  return person;
}

/** The runs whose pages each role may see, in this scope. */
const SEEN: Readonly<Record<Role, readonly string[]>> = {
  reviewer: ['own', 'of another caller'],
  clinician: ['own'],
  auditor: ['own', 'of another caller'],
  'break-glass': ['own', 'of another caller', 'of another application', 'of another organisation'],
};
const HAS_CONTENTS: readonly Role[] = ['reviewer', 'clinician', 'break-glass'];

test.each(ROLES)(
  '[R-2047] %s sees exactly the runs of the scope, and others count as missing',
  async (role) => {
    const person = await personIn(role);
    for (const [name, { run: id, organisation }] of Object.entries(runs)) {
      const { status, text } = await person.get(`/${role}/runs/${id}?organisation=${organisation}`);
      const isSeen = SEEN[role].includes(name);
      expect([name, status]).toEqual([name, isSeen ? 200 : 404]);
      expect(text.includes(SUMMARY)).toBe(isSeen && HAS_CONTENTS.includes(role));
      expect(text.includes(PATIENT)).toBe(isSeen && HAS_CONTENTS.includes(role));
    }
    const missing = await person.get(
      `/${role}/runs/00000000-0000-4000-8000-000000000000?organisation=st-mary`,
    );
    if (role === 'break-glass') return;
    const outside = await person.get(
      `/${role}/runs/${runs['of another organisation']?.run}?organisation=st-john`,
    );
    const same = (text: string) => text.replaceAll(/value="[^"]*"/g, '').replaceAll(/\d\d:\d\d(:\d\d)?/g, '');
    expect(same(outside.text)).toBe(same(missing.text));
  },
);

test.each(ROLES)('[R-2047] the list of %s has the runs of the scope and names no person', async (role) => {
  const { status, text } = await (await personIn(role)).get(`/${role}/runs`);
  expect(status).toBe(200);
  const listed = Object.entries(runs).filter(([, { run: id }]) => text.includes(id));
  expect(listed.map(([name]) => name)).toEqual(SEEN[role]);
  expect(text).not.toContain(PATIENT);
  expect(text).not.toContain('dr-other');
  expect(text).not.toContain(SUMMARY);
});

test.each(ROLES)('[R-2047] %s reads proofs within the scope alone', async (role) => {
  const person = await personIn(role);
  for (const [name, { events, organisation }] of Object.entries(runs)) {
    const { status } = await person.get(`/${role}/proof/${events.outcome}?organisation=${organisation}`);
    expect([name, status]).toEqual([name, SEEN[role].includes(name) ? 200 : 404]);
  }
});

test.each(ROLES)('[R-2047] %s has a report or not, and may look up a patient or not', async (role) => {
  const person = await personIn(role);
  const report = await person.get(`/${role}/report?show=1`);
  expect(report.status).toBe(role === 'clinician' ? 403 : 200);
  const list = `/${role}/runs`;
  const found = await person.post(list, { target: PATIENT });
  expect(found.status).toBe(role === 'auditor' ? 403 : 200);
  if (role !== 'auditor') expect(found.text).toContain(runs['own']?.run);
  const none = await person.post(list, { target: 'patient-without-runs' });
  if (role !== 'auditor') expect(none.text).not.toContain(runs['own']?.run);
});

test.each(ROLES)('[R-2047] a person without the group of %s has none of its pages', async (role) => {
  const others = Object.values(GROUP).filter((group) => group !== GROUP[role] && group !== 'on-call');
  const person = new ProxyPerson(viewer, CALLER, others.join(','));
  for (const page of ['runs', `runs/${runs['own']?.run}`, `proof/${runs['own']?.events.outcome}`, 'report'])
    expect((await person.get(`/${role}/${page}?organisation=st-mary&show=1`)).status).not.toBe(200);
});

test('[R-2048] without a stated reason, break-glass shows nothing', async () => {
  const person = new ProxyPerson(viewer, CALLER, 'on-call');
  expect((await person.get('/break-glass/runs')).status).not.toBe(200);
  const short = await person.post('/break-glass', { reason: 'urgent' });
  expect(short.status).not.toBe(200);
  expect((await person.get('/break-glass/runs')).status).not.toBe(200);
});

test('[R-2042] each page that left has its two lines, with person, role and what was shown', async () => {
  const before = looksIn(dataDir).length;
  const person = new ProxyPerson(viewer, 'auditor-7', 'audit');
  const own = runs['own'];
  await person.get('/auditor/runs?outcome=validated');
  await person.get(`/auditor/runs/${own?.run}?organisation=st-mary`);
  await person.get(`/auditor/proof/${own?.events.outcome}?organisation=st-mary`);
  await person.get('/auditor/report?show=1');
  await person.get('/auditor/runs/no-run');
  await expect.poll(() => looksIn(dataDir).length - before).toBe(8);
  const looks = looksIn(dataDir).slice(before);
  const begun = looks.filter(({ state }) => state === 'begun');
  const actor = { kind: 'proxy', name: 'auditor-7', role: 'auditor' };
  for (const look of begun) expect(look['actor']).toMatchObject(actor);
  expect(begun.map(({ command, filter }) => [command, filter])).toMatchObject([
    ['viewer runs', { outcome: 'validated' }],
    ['viewer run', { run: own?.run, organisation: 'st-mary' }],
    ['viewer proof', { event: own?.events.outcome, run: own?.run }],
    ['viewer report', {}],
  ]);
  const ended = looks.filter(({ state }) => state === 'ended');
  expect(ended.map(({ reading }) => reading).sort()).toEqual(begun.map(({ reading }) => reading).sort());
  for (const look of ended) expect(look['complete']).toBe(true);
});

test('[R-2042] [R-2041] no patient is in the access log, and the lines verify', async () => {
  const person = new ProxyPerson(viewer, 'reviewer-2', 'safety');
  await person.post('/reviewer/runs', { target: PATIENT });
  await expect.poll(() => looksIn(dataDir).at(-1)?.['state']).toBe('ended');
  expect(looksIn(dataDir).at(-2)).toMatchObject({ command: 'viewer runs', filter: { target: true } });
  expect(fs.readFileSync(path.join(dataDir, 'access.log'), 'utf8')).not.toContain(PATIENT);
  expect(viewer.output.stderr).not.toContain(PATIENT);
  const verified = await run(['verify', '--data-dir', dataDir]);
  expect([verified.code, verified.stderr]).toEqual([0, verified.stderr]);
});

test('[R-2042] while no collector records looks, nothing is shown', async () => {
  const person = await personIn('reviewer');
  const address = `/reviewer/runs/${runs['own']?.run}?organisation=st-mary`;
  expect((await person.get(address)).status).toBe(200);
  await collector.stop();
  for (const page of [address, '/reviewer/runs', '/reviewer/report?show=1']) {
    const { status, text } = await person.get(page);
    expect(status).toBe(503);
    expect(text).not.toContain(SUMMARY);
    expect(text).not.toContain(PATIENT);
    expect(text).not.toContain(runs['own']?.run.slice(0, 8) ?? '');
  }
  collector = await start(dataDir);
  await expect.poll(async () => (await person.get(address)).status).toBe(200);
});
