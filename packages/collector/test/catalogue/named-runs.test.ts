/** Names and how many runs have them, against a count of the runs themselves. */
import fs from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Catalogue, CatalogueRun, NameKind, RunFilter } from '../../src/catalogue/catalogue.js';
import { unknownNames } from '../../src/commands/catalogue.js';
import { SyntheticIv } from '../../src/privacy/name-cipher.js';
import { id } from '../records/run-events.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { candidate, type Made } from '../store/candidate.js';
import { fillDirectory } from '../store/embedded/filled-directory.js';
import { catalogueIn, withLog } from './made-catalogue.js';

const DAY = Date.parse('2026-03-02T00:00:00Z');
const MODELS: readonly { readonly model_id: string; readonly model_version?: string }[] = [
  { model_id: 'gpt-4', model_version: '1' },
  { model_id: 'gpt-4' },
  { model_id: 'risk@2', model_version: '7' },
];

/** The models that the calls of run `n` name: every sixth has two calls, some of the same model. */
function modelsOf(n: number) {
  const first = n % 5 === 0 ? undefined : MODELS[n % 3];
  return n % 6 === 0 ? [first, MODELS[n % 4 === 0 ? n % 3 : (n + 1) % 3]] : [first];
}

/** Every twelfth is called by two users, which is a conflict. */
const userOf = (n: number, call: number) => `dr-${(n % 12 === 6 ? n + call : n) % 9}`;

/** The start of run `n`, and that of its second call; every seventh is an outcome of no run. */
function events(n: number): Made[] {
  const eventId = id(n);
  const base = { event_id: eventId, timestamp: '2026-03-01T00:00:00Z', protocol_version: '0.0.1' };
  const of = { eventId, organisation: n % 3 === 0 ? 'ward-7' : 'ward-8', receivedAt: DAY + n };
  if (n % 7 === 0) return [candidate({ ...of, body: { ...base, outcome: { outcome_type: 'partial' } } })];
  return modelsOf(n).map((model, call) => {
    const body = {
      ...{ ...base, event_id: id(n + 5000 * call), run_id: eventId },
      ...(model !== undefined && { model_instance: model }),
      ...(n % 4 !== 0 && { user_identity: { caller_id: userOf(n, call) } }),
      target_identity: { target_id: `patient-${n % 11}` },
      system_metadata: { app_name: n % 2 === 0 ? 'triage' : 'letters' },
    };
    return candidate({ ...of, eventId: body.event_id, runId: eventId, kind: 'inference-start', body });
  });
}

async function catalogueOf(names?: SyntheticIv): Promise<Catalogue> {
  const scratch = temporaryDirectory();
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
  const dataDir = path.join(scratch, 'data');
  await fillDirectory(dataDir, [Array.from({ length: 200 }, (_, i) => events(i + 1)).flat()], 1 << 20);
  const catalogue = catalogueIn(path.join(scratch, 'catalogue'), { names });
  onTestFinished(() => catalogue.close());
  await withLog(dataDir, (log) => catalogue.update(Object.defineProperty(log, 'names', { value: names })));
  return catalogue;
}

/** Of a run the names that it counts for. */
const NAMES: Readonly<Record<NameKind, (run: CatalogueRun) => readonly (readonly (string | null)[])[]>> = {
  models: (run) => callsOf(run).map(({ model_id }) => [model_id]),
  versions: (run) => callsOf(run).map(({ model_id, model_version = null }) => [model_id, model_version]),
  apps: ({ application }) => [[application]],
  users: (run) => usersOf(run).map((user) => [user]),
  organisations: ({ organisation }) => [[organisation]],
};

function usersOf({ recordId, isRun }: CatalogueRun): string[] {
  const n = Number(recordId.slice(-4));
  return isRun && n % 4 !== 0 ? modelsOf(n).map((_, call) => userOf(n, call)) : [];
}

function callsOf({ recordId, isRun }: CatalogueRun) {
  return isRun ? modelsOf(Number(recordId.slice(-4))).filter((model) => model !== undefined) : [];
}

/** By a count of the runs that match. */
function expectedOf(catalogue: Catalogue, kind: NameKind, filter: RunFilter): Map<string, number> {
  const counts = new Map<string, number>();
  for (const run of catalogue.runs(filter)) {
    const names = NAMES[kind](run).filter(([name]) => name !== null);
    for (const key of new Set(names.map((each) => JSON.stringify(each))))
      counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return counts;
}

const KEY = new SyntheticIv(Buffer.alloc(32, 1));
const FILTERS: readonly RunFilter[] = [
  {},
  { isRun: true },
  { isRun: true, clock: 'sender' },
  { organisation: 'ward-7', isRun: true },
  { user: 'dr-3' },
  { target: 'patient-4', isRun: true },
  { models: [{ model: 'gpt-4' }], since: DAY + 50, until: DAY + 150 },
  { application: 'triage', level: 'minimum' },
  { noOutcomeSince: DAY + 60 },
];

test.each([
  ['in plain text', undefined],
  ['encrypted', KEY],
])(
  '[R-1040] names stored %s are listed with the number of runs that a count finds, most first',
  async (_, key) => {
    const catalogue = await catalogueOf(key);
    let rows = 0;
    for (const filter of FILTERS) {
      for (const kind of Object.keys(NAMES) as NameKind[]) {
        const found = [...catalogue.names(kind, filter)];
        const counts = new Map(found.map(({ names, runs }) => [JSON.stringify(names), runs]));
        expect(counts, `${kind} ${JSON.stringify(filter)}`).toEqual(expectedOf(catalogue, kind, filter));
        const runs = found.map((each) => each.runs);
        expect(runs).toEqual(runs.toSorted((a, b) => b - a));
        expect(found.map(({ of }) => of)).toEqual(found.map(() => counts.size));
        expect([...catalogue.names(kind, { ...filter, limit: 2 })]).toEqual(found.slice(0, 2));
        rows += found.length;
      }
    }
    expect(rows).toBeGreaterThan(100);
    expect(catalogue.count({ isRun: false })).toBeGreaterThan(20);
    expect([...catalogue.names('users', { organisation: 'ward-9' })]).toEqual([]);
  },
);

test('[R-1040] an unknown name is reported with the nearest, a user’s where persons may be shown, a patient’s never', async () => {
  const catalogue = await catalogueOf(KEY);
  const asked = {
    model: 'gtp-4',
    application: 'triaje',
    organisation: 'ward8',
    user: 'dr-33',
    target: 'patient-44',
  };
  expect(unknownNames(catalogue, asked, true)).toEqual([
    'no event has the organisation "ward8"; the nearest is "ward-8"',
    'no run has the model "gtp-4"; the nearest is "gpt-4"',
    'no run has this target',
    'no run has this user; the nearest is "dr-3"',
    'no run has the application "triaje"; the nearest is "triage"',
  ]);
  expect(
    unknownNames(catalogue, { user: 'dr-33', model: 'risk@2@8', application: 'dictation' }, false),
  ).toEqual([
    'no run has the model "risk@2@8"; the nearest is "risk@2@7"',
    expect.stringMatching(/^no run has this user; (?!.*dr-3).*collector names users$/),
    'no run has the application "dictation"',
  ]);
  expect(unknownNames(catalogue, { model: 'gpt-4@', user: 'dr-3', organisation: undefined }, true)).toEqual(
    [],
  );
});
