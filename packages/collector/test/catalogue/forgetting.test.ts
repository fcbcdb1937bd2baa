/** The catalogue has nothing of erased events, in any page. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Catalogue, catalogueDirectory } from '../../src/catalogue/catalogue.js';
import { nodeFiles } from '../../src/files.js';
import { EmbeddedStore } from '../../src/store/embedded/embedded-store.js';
import { LogReader } from '../../src/store/embedded/log-reader.js';
import { candidate, idOf, type Made } from '../store/candidate.js';
import { encryptionIn } from '../store/embedded/filled-directory.js';
import { eraseEvents } from '../store/embedded/erased.js';

const SUBJECT = 'patient-4711';
const CALLER = 'clinician-only-his';
/** Of the start received first, which is not the first by its sender's clock. */
const EARLIER = 'clinician-before-him';

/** A start and an outcome of it. */
function run(target: string, caller: string): Made[] {
  const eventId = randomUUID();
  const base = { timestamp: '2026-01-10T00:00:00Z', protocol_version: '0.0.1' };
  const start = { ...base, event_id: eventId, model_instance: { model_id: 'triage', model_version: '4.2' } };
  return [
    candidate({
      ...{ kind: 'inference-start', eventId, runId: eventId },
      body: { ...start, user_identity: { caller_id: caller }, target_identity: { target_id: target } },
    }),
    candidate({
      runId: eventId,
      body: { ...base, event_id: randomUUID(), outcome: { outcome_type: 'validated' } },
    }),
  ];
}

test('[R-1338] names and times of erased events are nowhere in the catalogue, and all others are found', async () => {
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-forgetting-'));
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
  const store = await EmbeddedStore.open({
    ...{ directory: dataDir, segmentBytes: 64 << 10, onTrouble: () => undefined },
    encryption: encryptionIn(dataDir),
  });
  const others = Array.from({ length: 200 }, (_, i) => run(`patient-${i}`, 'clinician-17')).flat();
  const his = run(SUBJECT, CALLER);
  const [start] = his;
  const eventId = randomUUID();
  const later = JSON.parse(start?.body.toString() ?? '') as object;
  const secondStart = candidate({
    ...{ kind: 'inference-start', eventId, runId: idOf(start ?? expect.unreachable()) },
    body: {
      ...later,
      event_id: eventId,
      timestamp: '2026-01-11T00:00:00Z',
      user_identity: { caller_id: EARLIER },
    },
  });
  await store.append([...others.slice(0, 100), secondStart]);
  const log = new LogReader(dataDir, nodeFiles);
  const { names } = log;
  const directory = catalogueDirectory(dataDir);
  const catalogue = Catalogue.open({ directory, ledgerId: log.ledgerId, names });
  onTestFinished(async () => {
    catalogue.close();
    await log.close();
    await store.close();
  });
  await catalogue.update(log);
  // Its row names another caller from now on.
  await store.append([...his, ...others.slice(100)]);
  await catalogue.update(log);
  const isThere = (bytes: Buffer | string) =>
    fs.readdirSync(directory).some((file) => fs.readFileSync(path.join(directory, file)).includes(bytes));
  const has = (name: string) => isThere(log.names?.seal(name) ?? name);
  expect([SUBJECT, CALLER, EARLIER, 'patient-7'].map(has)).toEqual([true, true, true, true]);

  const [found] = [...catalogue.runs({ target: SUBJECT })];
  await eraseEvents(dataDir, store, log, found?.events() ?? []);
  await catalogue.update(log);
  expect([SUBJECT, CALLER, EARLIER, 'patient-7', 'clinician-17'].map(has)).toEqual([
    ...[false, false, false, true, true],
  ]);
  expect([SUBJECT, 'patient-7'].map((name) => isThere(names?.seal(name) ?? ''))).toEqual([false, false]);
  expect([...catalogue.runs({ target: SUBJECT })]).toEqual([]);
  const [left] = catalogue.run('default', found?.recordId ?? '');
  expect(left).toMatchObject({ targetId: null, userId: null, modelId: null, outcome: 'unreadable' });
  expect(left?.events().map(({ sentAt }) => sentAt)).toEqual([undefined, undefined, undefined]);
  expect(catalogue.count()).toBe(201);
});
