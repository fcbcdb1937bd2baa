// Writes the examples of plan, certificate, API keys and back-up, from one log (make-vectors.mjs).
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { createKey, rotateKey } from '../../dist/access/issuing.js';
import { certificateOf } from '../../dist/commands/lifecycle/certificate.js';
import { keepRecord } from '../../dist/commands/lifecycle/holds.js';
import { keepErasureRecord } from '../../dist/commands/lifecycle/erasure-record.js';
import { PLAN_FORMAT, planFile, planText } from '../../dist/commands/lifecycle/plan-file.js';
import { newestCheckpoint } from '../../dist/commands/verify/log-checkpoints.js';
import { nodeFiles } from '../../dist/files.js';
import { Sequencer } from '../../dist/ledger/sequencer.js';
import { dataDirectory, standingNotes } from '../../dist/replica/data-directory.js';
import { backUp } from '../../dist/replica/replica.js';
import { KeyDatabase } from '../../dist/store/embedded/key-database.js';
import { TreeFiles } from '../../dist/store/embedded/tree-files.js';
import { copiedLog } from '../../dist/store/open-to-copy.js';
import { openStore } from '../../dist/store/open-to-read.js';
import { SigningKeys } from '../../dist/tree/signing-keys.js';

function onTrouble(what, error) {
  throw new Error(String(what), { cause: error });
}

/** @param log encrypted and open. @param events makes a batch. @param tick a second passes. */
export async function makeDocuments(log, { out, events, tick }) {
  fs.mkdirSync(out, { recursive: true });
  const dataDir = log.directory;
  const sequencer = await sequencerOf(log);
  const batches = [events(), events()];
  await log.append(...batches);
  const { ledgerId } = openStore(dataDir).events;
  const hold = await holdOn(log, batches[0][0]);
  const plan = planFile(planOf(batches.flat(), ledgerId, hold));
  fs.writeFileSync(path.join(out, 'plan.json'), planText(plan));
  const action = randomUUID();
  const record = await keepErasureRecord(dataDir, factsOf(action));
  const { sha256, marks } = plan;
  await log.erase([1, 2, 3, 6], { action, reason: 'erasure-request', plan: sha256, marks, record });
  await sequencer.close();
  await log.close();
  const certificate = await certificateOf(dataDir, action, { withIds: true });
  fs.writeFileSync(path.join(out, 'certificate.json'), `${JSON.stringify(certificate, null, 2)}\n`);
  await makeKeys(dataDir, tick);
  await makeBackup(dataDir, path.join(out, 'backup'));
  fs.cpSync(log.keys, path.join(out, 'keys'), { recursive: true });
}

const sequencerOf = (log) =>
  Sequencer.open({
    store: TreeFiles.open(log.directory, nodeFiles),
    signer: SigningKeys.openOrCreate({
      dataDir: log.directory,
      directory: path.join(log.directory, 'signing-keys'),
      origin: () => 'log.example/ward-7',
      onTrouble,
    }),
    ...{ committed: log.store.committed, intervalMs: 3_600_000, onCheckpoint: () => undefined, onTrouble },
  });

const idText = (bytes) =>
  Buffer.from(bytes)
    .toString('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');

/** The members of an event in a plan that differ from a marked one. */
const UNUSUAL = {
  4: { because: 'mention', about: 'someone else', why: 'mentions Größe', erase: false },
  5: {
    ...{ blocked: [{ by: 'hold', name: 'CASE-7', until: null }], why: 'on hold by CASE-7', erase: false },
  },
  6: { blocked: [{ by: 'floor', name: 'law', until: '2036-01-01T00:00:00.000Z' }] },
};

/** @returns the id of a hold on the run of an event. */
async function holdOn(log, { runId, eventId }) {
  const action = randomUUID();
  const key = await log.store.keys.newHoldKey(action);
  const met = { runs: [idText(runId)], events: 'AQE=' };
  const covers = { runs: [idText(runId)], organisations: [], subjects: [idText(eventId)], met };
  const { record } = await keepRecord(log.directory, { action, name: 'CASE-7', ...covers }, key);
  await log.act({ does: 'hold', record }, action);
  return action;
}

function planOf(events, log, hold) {
  const made = new Date().toISOString();
  return {
    ...{ format: PLAN_FORMAT, log, made, through: 21, policy: null, holds: [hold] },
    ...{ asked: 'a subject (2 ids)', searched: 'every payload', unread: 1, unmatched: [2] },
    late: [{ action: randomUUID(), events: 3 }],
    events: events.slice(0, 6).map(({ eventId, runId, organisation, kind, receivedAt }, i) => ({
      ...{ sequence: i + 1, id: idText(eventId), run: idText(runId), organisation, kind },
      ...{ received_at: new Date(receivedAt).toISOString(), size: 500, because: 'target' },
      ...{ about: 'this person', blocked: [], why: '', erase: true, ...UNUSUAL[i + 1] },
    })),
  };
}

function factsOf(action) {
  const person = { name: 'A planner', isProven: false, at: new Date().toISOString() };
  return {
    ...{ action, case: 'DSR-2026/0042', planner: person, applier: { ...person, isProven: true } },
    left: [{ why: 'hold', of: 'CASE-7', until: '2031-05-06T00:00:00.000Z', events: 1 }],
    overridden: [{ of: 'law', until: '2036-01-01T00:00:00.000Z', events: 1 }],
    ...{ mentions: 1, setByHand: { marked: 0, unmarked: 1 }, unread: 1 },
  };
}

async function makeKeys(dataDir, tick) {
  const keys = KeyDatabase.open(dataDir);
  const grants = [
    { organisation: 'icu', permissions: 'all', note: 'Größe' },
    { organisation: 'ed', permissions: ['outcome', 'otlp'], profile: 'full', clientCertificate: 'dns:app' },
    { organisation: 'ed', permissions: ['outcome'], rateLimit: { perSecond: 2.5, burst: 10 } },
  ];
  const made = [];
  for (const each of grants) {
    tick();
    made.push((await createKey(keys, each, Date.now())).key);
  }
  await rotateKey(keys, made[0].keyId, 60_000, Date.now());
  await keys.revoke(made[1].keyId, Date.now());
  await keys.close();
}

async function makeBackup(dataDir, directory) {
  const standing = standingNotes(dataDir);
  const { history, newest } = await newestCheckpoint(dataDir, openStore(dataDir).tree);
  const log = copiedLog(dataDir, { signed: newest.checkpoint.size, agreed: 0 });
  const given = {
    dataDir,
    history,
    newest,
    log,
    standing,
    checkNote: () => undefined,
    signingKeys: undefined,
  };
  await backUp(directory, dataDirectory(given), new Date().toISOString(), () => undefined);
}
