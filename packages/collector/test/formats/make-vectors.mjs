// Writes the committed examples of the formats into a directory, always the same: run it with test/net/preload.mjs, which
// replaces the clock and the random source.
//
//   NET_SEED=formats NET_CLOCK=FILE node --import ./test/net/preload.mjs packages/collector/test/formats/make-vectors.mjs OUT
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { ENTRY_KINDS } from '../../../protocol/dist/index.js';
import { ownEntry } from '../../dist/ledger/own-entry.js';
import { nodeFiles } from '../../dist/files.js';
import { actionFields } from '../../dist/privacy/actions.js';
import { openKeys } from '../../dist/privacy/open-keys.js';
import { newKekFile, openKek } from '../../dist/privacy/key-encryption-key.js';
import { epochBytes, epochName, epochRecordIn } from '../../dist/privacy/key-record.js';
import { unwrapped } from '../../dist/privacy/opened-vault.js';
import { SequenceSet } from '../../dist/privacy/sequence-set.js';
import { compactLog, erasuresIn } from '../../dist/store/embedded/compaction.js';
import { EmbeddedStore } from '../../dist/store/embedded/embedded-store.js';
import { LogReader } from '../../dist/store/embedded/log-reader.js';
import { contentsOf } from './contents.mjs';
import { makeAccessLog } from './make-access-log.mjs';
import { makeDocuments } from './make-documents.mjs';

const [, , out = ''] = process.argv;
const START = Date.UTC(2026, 10, 2, 8, 15);
const NO_ID = new Uint8Array(16);
const SEGMENT_BYTES = 4096;
let now = START;

function setClock(instant) {
  now = instant;
  fs.writeFileSync(process.env.NET_CLOCK ?? '', String(now));
}

/** On return a second has passed. */
const tick = () => setClock(now + 1000);

const uuidBytes = (text) => Buffer.from(text.replaceAll('-', ''), 'hex');

function event({ kind = 'outcome', organisation = 'icu', runId, parentId, text, ...more }) {
  const id = randomUUID();
  const fields = { event_id: id, timestamp: new Date(now).toISOString(), text };
  const salted = Buffer.concat([randomBytes(16), Buffer.from(JSON.stringify(fields))]);
  const commitment = createHash('sha256').update(salted).digest();
  return {
    ...{
      kind,
      profile: 'minimum',
      door: 'endpoint',
      organisation,
      keyId: 'abcdefghij23',
      receivedAt: now,
      ...more,
    },
    ...{ eventId: uuidBytes(id), runId: runId ?? NO_ID, parentId: parentId ?? NO_ID, salted, commitment },
  };
}

/** A run in each of two organisations. */
function events(count) {
  const run = uuidBytes(randomUUID());
  const first = event({ kind: 'inference-start', runId: run, text: 'Lactate 4.1 mmol/l' });
  return [
    first,
    event({
      kind: 'human-output',
      profile: 'full',
      runId: run,
      parentId: first.eventId,
      text: 'Größe 1,62 m',
    }),
    event({ kind: 'user-feedback', door: 'import', organisation: 'ed', text: '👍' }),
    event({ kind: 'internal-artifact', door: 'otlp', organisation: 'ed', text: '' }),
    ...Array.from({ length: count - 4 }, (_, i) =>
      event({ organisation: i % 2 === 0 ? 'icu' : 'ed', text: `Ward round ${i}: ${'stable. '.repeat(12)}` }),
    ),
  ];
}

const head = () =>
  ownEntry(ENTRY_KINDS.accessLogHead, 'accesslog000', {
    ...{ format: 'clinical-events/access-log-head/v1', lines: 2, head: '06279140'.repeat(8) },
  });

/** A log in a directory of its own. */
class Log {
  constructor(name, suite) {
    this.directory = path.join(scratch, name);
    this.keys = path.join(this.directory, 'encryption-keys');
    this.suite = suite;
  }

  async open() {
    const places = { directories: [this.keys], kek: '' };
    const open = (ledgerId) => openKeys({ places, ledgerId, onTrouble: fail });
    if (this.suite !== undefined) fs.mkdirSync(this.keys, { recursive: true });
    this.store = await EmbeddedStore.open({
      ...{ directory: this.directory, segmentBytes: SEGMENT_BYTES, onTrouble: fail },
      ...(this.suite !== undefined && { encryption: { suite: this.suite, openKeys: open } }),
    });
    return this;
  }

  async append(...batches) {
    for (const batch of batches) {
      tick();
      await this.store.append(batch);
    }
  }

  /** Logs an action. */
  async act(fields, action = randomUUID()) {
    tick();
    const said = actionFields({ action, ...fields });
    await this.store.append([ownEntry(ENTRY_KINDS.lifecycleAction, 'lifecycle000', said)]);
    return { action, said };
  }

  /** Begins a hold, which gets a key where payloads are encrypted. */
  async hold(byte) {
    const { action } = await this.act({ does: 'hold', record: HASH(byte) });
    await this.store.keys?.newHoldKey(action);
    return action;
  }

  async release(hold) {
    const { said } = await this.act({ does: 'release', hold });
    await this.store.keys?.noteAction(said);
    await this.store.keys?.destroyHold(hold);
  }

  /** As an erasure does: entry, note, keys, names, done. */
  async erase(numbers, { action = randomUUID(), ...more }) {
    const keys = await this.#keysOf(numbers);
    const { said } = await this.act({ does: 'erase', part: 1, parts: 1, ...more, keys }, action);
    await this.store.keys.noteAction(said);
    await this.store.keys.destroy(keys);
    await this.store.keys.renewNames();
    await this.store.keys.endOldNames();
    await this.act({ does: 'done' }, action);
  }

  async #keysOf(numbers) {
    const log = new LogReader(this.directory, nodeFiles);
    const keys = new Map();
    for await (const batch of log.pass())
      for (const { sequence, organisation, bucket } of batch) {
        if (!numbers.includes(sequence)) continue;
        const name = `${bucket} ${organisation}`;
        keys.set(name, { tag: bucket, organisation, list: [...(keys.get(name)?.list ?? []), sequence] });
      }
    await log.close();
    return [...keys.values()].map(({ list, ...key }) => ({ ...key, sequences: SequenceSet.of(list) }));
  }

  /** The epoch key is wrapped by a second key too, as while the key-encryption key is exchanged. */
  async wrapTwice(epoch) {
    const file = path.join(this.keys, epochName(epoch));
    const record = epochRecordIn(epochName(epoch), fs.readFileSync(file));
    const second = path.join(this.directory, 'second-kek');
    fs.writeFileSync(second, newKekFile(), { mode: 0o600 });
    const key = unwrapped(openKek(`file:${path.join(this.keys, 'kek')}`), record);
    const wrapped = [await openKek(`file:${second}`).wrap(key), ...record.wrapped];
    fs.writeFileSync(file, epochBytes({ ...record, generation: record.generation + 1, wrapped }));
  }

  async close() {
    await this.store.close();
  }

  /** Keeps the files of the log as an example. */
  async keep(name) {
    const to = path.join(out, name);
    fs.mkdirSync(path.join(to, 'ledger'), { recursive: true });
    const ledger = path.join(this.directory, 'ledger');
    for (const segment of fs.readdirSync(ledger).filter((each) => each.endsWith('.segment')))
      fs.writeFileSync(
        path.join(to, 'ledger', segment),
        trimmed(fs.readFileSync(path.join(ledger, segment))),
      );
    if (this.suite !== undefined) fs.cpSync(this.keys, path.join(to, 'keys'), { recursive: true });
    const contents = await contentsOf(to);
    fs.writeFileSync(path.join(to, 'expected.json'), `${JSON.stringify(contents, null, 1)}\n`);
  }
}

/** Room allocated ahead is left out, apart from a few bytes. */
function trimmed(bytes) {
  const end = bytes.findLastIndex((byte) => byte !== 0) + 1;
  return bytes.subarray(0, Math.min(bytes.length, end + 64));
}

function fail(what, error) {
  throw new Error(String(what), { cause: error });
}

const POLICY = { version: 1, name: 'ward', default: { keep: 'P10Y' } };
const HASH = (byte) => byte.repeat(32);

async function plain() {
  const log = await new Log('plain').open();
  await log.append(events(12), [head()]);
  await log.act({ does: 'policy', policy: POLICY });
  await log.append(events(12));
  await log.release(await log.hold('ab'));
  await log.append(events(6));
  await log.close();
  await log.keep('plain');
}

async function encrypted(name, suite) {
  const log = await new Log(name, suite).open();
  await log.append(events(12), [head()], events(8));
  await log.close();
  await log.keep(name);
}

async function erased() {
  const log = await new Log('erased', 1).open();
  await log.append(events(20), [head()], events(10));
  const { action: policy } = await log.act({ does: 'policy', policy: POLICY });
  const hold = await log.hold('ab');
  await log.hold('cd');
  const planned = { plan: HASH('01'), marks: HASH('02'), record: HASH('03') };
  await log.erase([1, 2, 5, 6, 7, 9, 11], { reason: 'erasure-request', ...planned });
  await log.release(hold);
  await log.append(events(8));
  await log.erase([8, 3], { reason: 'court-order', ...planned, override: true });
  await log.erase([27], { reason: 'policy', policy, rule: 'default' });
  await log.store.keys.rotate();
  await log.act({ does: 'rotate', epoch: 2 });
  await log.append(events(4));
  await log.close();
  await log.wrapTwice(2);
  await log.keep('erased');
  tick();
  const onTrouble = (error) => fail('compaction', error);
  await compactLog(log.directory, erasuresIn(log.store.actions), { onTrouble });
  await log.keep('compacted');
}

tick();
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'formats-'));
try {
  await plain();
  await encrypted('encrypted', 1);
  await encrypted('encrypted-suite-2', 2);
  await erased();
  const log = await new Log('documents', 1).open();
  await makeDocuments(log, { out: path.join(out, 'documents'), events: () => events(10), tick });
  await makeAccessLog(path.join(out, 'access-log'), (at) => setClock(Date.parse(at)));
} finally {
  fs.rmSync(scratch, { recursive: true, force: true });
}
