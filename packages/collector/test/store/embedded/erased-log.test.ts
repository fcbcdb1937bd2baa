/** Events whose keys are destroyed: who can still read them, and the results of interruptions and of old copies. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { SALT_BYTES } from '@clinical-events/protocol';
import { random, runs } from '../../../../../test/property-runs.js';
import { type Files, nodeFiles } from '../../../src/files.js';
import { answerTo, layRequest, Lifecycle } from '../../../src/ledger/lifecycle.js';
import { actionFields, type Reason } from '../../../src/privacy/actions.js';
import { openKeys } from '../../../src/privacy/open-keys.js';
import type { TakenKeys } from '../../../src/privacy/payload-keys.js';
import { SequenceSet } from '../../../src/privacy/sequence-set.js';
import { type Candidate, NotCommitted, type Outcome } from '../../../src/store/contract/events.js';
import { Inbox } from '../../../src/store/embedded/inbox.js';
import { noteKeyPlaces } from '../../../src/store/key-places.js';
import { EmbeddedStore } from '../../../src/store/embedded/embedded-store.js';
import { LogReader } from '../../../src/store/embedded/log-reader.js';
import type { VerifyFinding } from '../../../src/store/findings.js';
import type { AuditedLog, HeadListener } from '../../../src/store/log-audit.js';
import { LogAudit } from '../../../src/store/open-to-audit.js';
import { openStore } from '../../../src/store/open-to-read.js';
import { candidate, idOf } from '../candidate.js';
import { encryptionIn } from './filled-directory.js';
import { killedAt } from './killed-files.js';

let root: string;
let dataDir: string;
let keys: string;
let mirror: string;

beforeEach(() => {
  root = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-erased-'));
  onTestFinished(() => fs.rmSync(root, { recursive: true, force: true }));
  dataDir = path.join(root, 'data');
  keys = path.join(root, 'keys');
  mirror = path.join(root, 'mirror');
});

function events(count: number, organisations = ['icu', 'ed']): Candidate[] {
  return Array.from({ length: count }, (_, i) =>
    candidate({
      organisation: organisations[i % organisations.length] ?? '',
      body: { text: `Lactate ${i}` },
    }),
  );
}

const bodyOf = ({ salted }: Candidate) => Buffer.from(salted).toString('utf8', SALT_BYTES);

interface Opened {
  readonly store: EmbeddedStore;
  readonly lifecycle: Lifecycle;
}

async function open({ files = nodeFiles, directories = [keys, mirror] } = {}): Promise<Opened> {
  const store = await EmbeddedStore.open({
    ...{ directory: dataDir, segmentBytes: 16 << 10, files, onTrouble: () => undefined },
    encryption: encryptionIn(dataDir, { directories, files }),
  });
  await noteKeyPlaces(dataDir, { directories: [keys, mirror], kek: '' });
  const lifecycle = new Lifecycle({
    ...{ requests: new Inbox(dataDir, files), actions: store.actions, keys: store.keys },
    onTrouble: () => undefined,
    keysIn: (lists, signal) => store.keysIn(lists, signal),
    append: async (entry) => {
      await store.append([entry]);
    },
  });
  return { store, lifecycle };
}

/** @returns what brings all back to how it is now. */
function beginning(): () => void {
  const names = ['data', 'keys', 'mirror'];
  for (const name of names)
    fs.cpSync(path.join(root, name), path.join(root, `${name}.0`), { recursive: true });
  return () => {
    for (const name of names) {
      fs.rmSync(path.join(root, name), { recursive: true });
      fs.cpSync(path.join(root, `${name}.0`), path.join(root, name), { recursive: true });
    }
  };
}

/** Stores the batches, and closes. */
async function fill(...batches: Candidate[][]): Promise<void> {
  const { store } = await open();
  for (const batch of batches) await store.append(batch);
  await store.close();
}

/** The entries for a new reader, by sequence: bodies, or the state of those without one. */
async function readAll(): Promise<Map<number, string>> {
  const log = new LogReader(dataDir, nodeFiles);
  try {
    const found = new Map<number, string>();
    for await (const batch of log.entries())
      for (const { sequence, kind, payloadState, body } of batch)
        if (typeof kind !== 'number')
          found.set(sequence, payloadState === 'plain' ? body.toString() : payloadState);
    return found;
  } finally {
    await log.close();
  }
}

/** The keys of some events, as a plan has them. */
async function keysOf(sequences: readonly number[]): Promise<TakenKeys[]> {
  const log = new LogReader(dataDir, nodeFiles);
  const byKey = new Map<string, { tag: number; organisation: string; sequences: number[] }>();
  for await (const batch of log.pass()) {
    for (const { sequence, organisation, bucket } of batch) {
      if (!sequences.includes(sequence) || bucket === undefined) continue;
      const name = `${bucket} ${organisation}`;
      const known = byKey.get(name) ?? { tag: bucket, organisation, sequences: [] };
      byKey.set(name, known);
      known.sequences.push(sequence);
    }
  }
  await log.close();
  return [...byKey.values()].map((each) => ({ ...each, sequences: SequenceSet.of(each.sequences) }));
}

async function request(sequences: readonly number[], reason: Reason = 'test-data'): Promise<string> {
  const action = randomUUID();
  const taken = await keysOf(sequences);
  await layRequest(new Inbox(dataDir), {
    action: { action, does: 'erase', reason, part: 1, parts: 1, keys: taken },
    considered: { policy: null, holds: [] },
  });
  return action;
}

/** The outcome of an event that is sent until it can be stored. */
async function stored(store: EmbeddedStore, sent: Candidate): Promise<Outcome | undefined> {
  for (;;) {
    try {
      return (await store.append([sent]))[0];
    } catch (error) {
      if (!(error instanceof NotCommitted)) throw error;
      await store.prove().catch(() => undefined);
    }
  }
}

async function erase(sequences: readonly number[]): Promise<string> {
  const action = await request(sequences);
  const { store, lifecycle } = await open();
  await lifecycle.look();
  expect(await answerTo(new Inbox(dataDir), action)).toEqual({ state: 'done' });
  await store.close();
  return action;
}

/** What is left of these when some were erased. */
function expected(sent: readonly Candidate[], erased: readonly number[]): Map<number, string> {
  return new Map(sent.map((each, i) => [i + 1, erased.includes(i + 1) ? 'erased' : bodyOf(each)]));
}

describe('[R-1334] an event that was erased', () => {
  test('can no longer be read, and every other event can', async () => {
    const sent = events(60);
    await fill(sent.slice(0, 40), sent.slice(40));
    await erase([1, 7, 8, 9, 33, 60]);
    expect(await readAll()).toEqual(expected(sent, [1, 7, 8, 9, 33, 60]));
    await erase([2, 10]);
    expect(await readAll()).toEqual(expected(sent, [1, 2, 7, 8, 9, 10, 33, 60]));
  });

  test('cannot be distinguished from another one of its id, and is not stored again', async () => {
    const sent = events(3, ['icu']);
    await fill(sent);
    await erase([2]);
    const { store } = await open();
    onTestFinished(() => store.close());
    const [first, second] = sent as [Candidate, Candidate];
    const other = candidate({ organisation: 'icu', eventId: idOf(second), body: { text: 'another' } });
    expect(await store.append([first, second, other])).toEqual(['duplicate', 'erased', 'erased']);
    expect((await readAll()).size).toBe(3);
  });

  test('in the current bucket leaves the next events their keys', async () => {
    const { store, lifecycle } = await open();
    onTestFinished(() => store.close());
    const sent = events(20);
    await store.append(sent.slice(0, 10));
    await request([3, 10]);
    await lifecycle.look();
    await store.append(sent.slice(10));
    const found = [...(await readAll()).values()];
    expect(found).toEqual([...expected(sent, [3, 10]).values()]);
    expect(await store.append([sent[2] ?? candidate(), sent[12] ?? candidate()])).toEqual([
      'erased',
      'duplicate',
    ]);
  });

  test('takes little room: a hundred of a thousand take some tens of kilobytes', async () => {
    const sent = events(1000, ['icu']);
    await fill(sent);
    await erase(Array.from({ length: 100 }, (_, i) => 10 * i + 1));
    const [file = ''] = fs.readdirSync(path.join(keys, 'buckets'));
    expect(fs.statSync(path.join(keys, 'buckets', file)).size).toBeLessThan(40_000);
  });
});

/** The report of verify on the log by itself, without a checkpoint. */
async function audit(
  takenSince: readonly TakenKeys[],
  heads: HeadListener = { head: () => undefined, settle: () => Promise.resolve() },
): Promise<{ readonly log: AuditedLog; readonly found: VerifyFinding[] }> {
  const found: VerifyFinding[] = [];
  const list = {
    add: (...more: readonly VerifyFinding[]) => found.push(...more),
    confirm: () => undefined,
    ...{ faults: 0, unlisted: 0 },
  };
  const { tree } = openStore(dataDir);
  const options = { dataDir, files: nodeFiles, onProgress: () => undefined, takenSince };
  const log = await new LogAudit(options, tree, { roots: [], newest: undefined }, heads).report(list);
  await tree.close();
  return { log, found };
}

test('[R-1336] an erasure passed to restore explains the keys that it names, and no number that was used again', async () => {
  await fill(events(5, ['icu']));
  const taken = await keysOf([2, 3]);
  const { store } = await open();
  expect(await store.keys?.destroy(taken)).toEqual([]);
  await store.close();
  const unexplained = async (takenSince: readonly TakenKeys[]) =>
    (await audit(takenSince)).found.flatMap(({ kind, sequence }) =>
      kind === 'unexplained' ? [sequence] : [],
    );
  expect(await unexplained([])).toEqual([2]);
  expect(await unexplained(taken)).toEqual([]);
  const others = taken.map((keys) => ({ ...keys, tag: keys.tag ^ 1 }));
  expect(await unexplained(others)).toEqual([2]);
  expect(await unexplained(await keysOf([3]))).toEqual([2]);
});

test('[R-1336] a directory among the notes prevents nothing', async () => {
  const sent = events(3);
  await fill(sent);
  for (const directory of [keys, mirror])
    fs.mkdirSync(path.join(directory, 'actions', `${'0'.repeat(32)}.json`), { recursive: true });
  await erase([2]);
  expect(await readAll()).toEqual(expected(sent, [2]));
});

test('[R-1339] an erasure beside verify is explained, although its entry is after those that were read', async () => {
  await fill(...Array.from({ length: 42 }, () => events(100, ['icu'])));
  // Of another bucket, which verify has not met when it is erased.
  await fill(...Array.from({ length: 3 }, () => events(100, ['icu'])));
  let isErased = false;
  const heads = {
    head: () => undefined,
    // It is asked after 4,096 entries.
    async settle() {
      if (isErased) return;
      isErased = true;
      await erase([4400]);
    },
  };
  const { log, found } = await audit([], heads);
  expect([log.entries, log.erasures.actions.erased.size]).toEqual([4500, 0]);
  expect(found.filter(({ kind }) => kind === 'unexplained')).toEqual([]);
  expect(found.map(({ message }) => message)).toContainEqual(
    expect.stringContaining('an erasure newer than this copy'),
  );
});

describe('[R-1335] an interrupted erasure', () => {
  test('at any step is done once and answered by the next start, or withdrawn by its requester [R-1335] [R-1550]', async () => {
    const sent = events(30);
    await fill(sent.slice(0, 15), sent.slice(15));
    const begin = beginning();
    const erased = [2, 3, 20, 29];
    let [done, withdrawn, turn] = [0, 0, random.below(2)];
    // Every third of them, from another start each time; each one in a campaign.
    const stride = runs(1, 3);
    for (let step = 1 + random.below(stride); ; step += stride) {
      begin();
      const action = await request(erased);
      const { files, steps } = killedAt(step);
      try {
        const { store, lifecycle } = await open({ files });
        await lifecycle.look();
        await store.close();
      } catch {
        // Killed while it was opened.
      }
      if (steps() < step) break;
      // Every second time the requester was killed too.
      const isAlive = turn++ % 2 === 0;
      const isWithdrawn = isAlive && (await new Inbox(dataDir).withdraw(action));
      const { store, lifecycle } = await open();
      await lifecycle.look();
      const logged = store.actions.logged.map(({ said }) => said.does);
      await store.close();
      if (isWithdrawn) withdrawn++;
      else done++;
      const answer = isWithdrawn ? undefined : { state: 'done' };
      expect(logged, `step ${step}`).toEqual(isWithdrawn ? [] : ['erase', 'done']);
      expect(await answerTo(new Inbox(dataDir), action), `step ${step}`).toEqual(answer);
      expect(await readAll(), `step ${step}`).toEqual(expected(sent, isWithdrawn ? [] : erased));
      expect(await new Inbox(dataDir).waiting()).toEqual([]);
      const reopened = await open();
      expect(reopened.store.actions.undone()).toEqual([]);
      await reopened.store.close();
    }
    expect(done).toBeGreaterThan(3);
    expect(withdrawn).toBeGreaterThan(0);
  });

  test('[R-1996] [R-1335] by a full disk at any write is done when there is room, and nothing else is lost', async () => {
    const sent = events(30);
    await fill(sent.slice(0, 15), sent.slice(15));
    const begin = beginning();
    const erased = [2, 3, 20, 29];
    let failed = 0;
    for (let step = 1; ; step++) {
      begin();
      await request(erased);
      let [isFull, writes] = [false, 0];
      const write = () => {
        if (isFull && ++writes >= step) throw Object.assign(new Error('no room'), { code: 'ENOSPC' });
      };
      const files: Files = {
        ...nodeFiles,
        write: (...given) => {
          write();
          nodeFiles.write(...given);
        },
        replace: async (...given) => {
          write();
          await nodeFiles.replace(...given);
        },
        // A directory that has no room for another name.
        rename: (...given) => {
          write();
          nodeFiles.rename(...given);
        },
      };
      const { store, lifecycle } = await open({ files });
      isFull = true;
      await lifecycle.look();
      const isOver = writes < step;
      isFull = false;
      // What no batch could be stored for, can be once there is room.
      if (!isOver) expect(await stored(store, sent[0] ?? candidate())).toBe('duplicate');
      await store.close();
      const again = await open();
      await again.lifecycle.look();
      const logged = again.store.actions.logged.map(({ said }) => said.does);
      expect(logged, `write ${step}`).toEqual(['erase', 'done']);
      await again.store.close();
      expect(await readAll(), `write ${step}`).toEqual(expected(sent, erased));
      if (isOver) break;
      failed++;
    }
    expect(failed).toBeGreaterThan(5);
  });

  test('whose request is still there is done once', async () => {
    await fill(events(10));
    const action = await request([4]);
    const inbox = path.join(dataDir, 'lifecycle', 'inbox', `${action}.request.json`);
    const text = fs.readFileSync(inbox);
    const { store, lifecycle } = await open();
    await lifecycle.look();
    for (const name of [inbox, inbox.replace('.request.', '.begun.')]) {
      fs.writeFileSync(name, text);
      await lifecycle.look();
      expect(store.actions.partsIn(action)).toHaveLength(1);
      expect(fs.existsSync(name)).toBe(false);
    }
    await store.close();
    // An answer that is not collected is deleted after an hour.
    const answer = inbox.replace('.request.', '.answer.');
    const next = await open();
    await next.lifecycle.look();
    expect(fs.existsSync(answer)).toBe(true);
    fs.utimesSync(answer, 0, Date.now() / 1000 - 3601);
    await next.lifecycle.look();
    await next.store.close();
    expect(fs.existsSync(answer)).toBe(false);
  });

  test('[R-1550] whose request is withdrawn is not begun, and one that was begun is not withdrawn', async () => {
    await fill(events(10));
    const inbox = new Inbox(dataDir);
    const [gone, stays] = [await request([4]), await request([5])];
    expect(await inbox.begin(stays)).toBe(true);
    expect([await inbox.withdraw(gone), await inbox.withdraw(stays)]).toEqual([true, false]);
    expect([await inbox.begin(gone), await inbox.begin(stays)]).toEqual([false, true]);
    expect((await inbox.waiting()).map(({ id }) => id)).toEqual([stays]);
    // Withdrawn when the collector has read it already.
    const late = await request([6]);
    const { store, lifecycle } = await open({
      files: {
        ...nodeFiles,
        rename(from, to) {
          if (from.endsWith(`${late}.request.json`)) fs.unlinkSync(from);
          nodeFiles.rename(from, to);
        },
      },
    });
    await lifecycle.look();
    expect(store.actions.logged.map(({ said }) => said.action)).toEqual([stays, stays]);
    expect(await answerTo(inbox, late)).toBeUndefined();
    await store.close();
  });

  test('waits for a mirror that is missing, and is done when it is back', async () => {
    const sent = events(10);
    await fill(sent);
    const action = await request([4]);
    fs.renameSync(mirror, `${mirror}.away`);
    fs.symlinkSync(mirror, mirror);
    const { store, lifecycle } = await open();
    await lifecycle.look();
    expect(await answerTo(new Inbox(dataDir), action)).toEqual({ state: 'pending', unreached: [mirror] });
    expect(store.actions.undone()).toEqual([action]);
    expect((await readAll()).get(4)).toBe('erased');
    await store.close();
    fs.rmSync(mirror);
    fs.renameSync(`${mirror}.away`, mirror);
    const again = await open();
    await again.lifecycle.look();
    expect(again.store.actions.undone()).toEqual([]);
    await again.store.close();
    fs.rmSync(keys, { recursive: true });
    fs.renameSync(mirror, keys);
    expect(await readAll()).toEqual(expected(sent, [4]));
  });
});

describe('[R-1336] an older copy', () => {
  /** The data, or the keys, as they were before. */
  const copy = (name: string) =>
    fs.cpSync(path.join(root, name), path.join(root, `${name}.old`), { recursive: true });
  const bringBack = (name: string) => {
    fs.rmSync(path.join(root, name), { recursive: true });
    fs.cpSync(path.join(root, `${name}.old`), path.join(root, name), { recursive: true });
  };

  test('of the log opens no event erased since', async () => {
    const sent = events(12);
    await fill(sent);
    copy('data');
    await erase([5, 6]);
    bringBack('data');
    const found = await readAll();
    expect([found.get(5), found.get(6), found.get(7)]).toEqual([
      'encrypted',
      'encrypted',
      bodyOf(sent[6] ?? candidate()),
    ]);
  });

  test('[R-1336] of the log learns of later erasures from the notes beside the keys, and erases no event of its own', async () => {
    const sent = events(12, ['icu']);
    await fill(sent);
    copy('data');
    await fill(events(4, ['icu']));
    fs.cpSync(dataDir, path.join(root, 'later'), { recursive: true });
    const [erasure, second] = [await erase([5, 8, 14]), await erase([9])];
    bringBack('data');
    // Forged notes of a policy, an end, or keys of a log in a database.
    const [bucket] = await keysOf([1]);
    const notes: readonly object[] = [
      actionFields({ action: randomUUID(), does: 'policy', policy: { version: 1, name: 'forged' } }),
      actionFields({ action: randomUUID(), does: 'done' }),
      { format: 'clinical-events/action/v1', does: 'erase' },
      actionFields({
        ...{ action: randomUUID(), does: 'erase', reason: 'test-data', part: 2, parts: 2 },
        keys: [{ tag: 1, organisation: 'icu', sequences: SequenceSet.of([2]) }],
      }),
    ];
    expect(bucket?.tag).not.toBe(1);
    for (const [i, body] of notes.entries())
      for (const directory of [keys, mirror])
        fs.writeFileSync(path.join(directory, 'actions', `${i}`.repeat(32) + '.json'), JSON.stringify(body));
    const { store, lifecycle } = await open();
    const own = events(4, ['icu']);
    await store.append(own);
    await lifecycle.look();
    const did = store.actions.logged.map(({ said }) => `${said.does} ${said.action}`);
    expect(did.toSorted()).toEqual(
      ['done', 'erase'].flatMap((does) => [erasure, second].map((each) => `${does} ${each}`)).toSorted(),
    );
    expect(await readAll()).toEqual(expected([...sent, ...own], [5, 8, 9]));
    await store.close();
    // Nothing is added twice, and what a narrower note hides is not lost to a newer state.
    const again = await open();
    await again.lifecycle.look();
    expect(again.store.actions.logged).toHaveLength(4);
    await again.store.close();
    fs.rmSync(dataDir, { recursive: true });
    fs.cpSync(path.join(root, 'later'), dataDir, { recursive: true });
    const newer = await open();
    onTestFinished(() => newer.store.close());
    await newer.lifecycle.look();
    expect(newer.store.actions.erased.toText()).toBe(SequenceSet.of([5, 8, 9, 14]).toText());
  });

  test('of all keys is reduced by the next start before it is used', async () => {
    const sent = events(12);
    await fill(sent);
    for (const name of ['keys', 'mirror']) copy(name);
    await erase([5, 6]);
    for (const name of ['keys', 'mirror']) bringBack(name);
    await (await open()).store.close();
    fs.rmSync(path.join(dataDir, 'index'), { recursive: true });
    expect(await readAll()).toEqual(expected(sent, [5, 6]));
    for (const directory of [keys, mirror]) {
      fs.rmSync(path.join(root, 'one'), { recursive: true, force: true });
      fs.cpSync(directory, path.join(root, 'one'), { recursive: true });
      const writer = await openKeys({
        ...{ places: { directories: [path.join(root, 'one')], kek: '' } },
        ...{ ledgerId: new LogReader(dataDir, nodeFiles).ledgerId, onTrouble: () => undefined },
      });
      for (const { tag, organisation, sequences } of await keysOf([5, 6]))
        for (const { first } of sequences)
          expect(writer.stored.keyOf(tag, organisation, first)).toBeUndefined();
    }
  });

  test('of one mirror restores no erased event, although its state was changed as often', async () => {
    const sent = events(12);
    await fill(sent);
    await erase([1]);
    copy('mirror');
    await erase([5]);
    // Another history of the same length: it lacks the erasure of 5, and has that of 9.
    fs.rmSync(keys, { recursive: true });
    fs.cpSync(path.join(root, 'mirror.old'), keys, { recursive: true });
    const writer = await openKeys({
      ...{ places: { directories: [keys], kek: '' } },
      ...{ ledgerId: new LogReader(dataDir, nodeFiles).ledgerId, onTrouble: () => undefined },
    });
    expect(await writer.destroy(await keysOf([9]))).toEqual([]);
    // Events that both copies open are read, and remain after a start.
    const found = await readAll();
    expect([found.get(1), found.get(5)]).toEqual(['erased', 'erased']);
    await (await open()).store.close();
    fs.rmSync(mirror, { recursive: true });
    const after = await readAll();
    expect([after.get(1), after.get(5), after.get(9)]).toEqual(['erased', 'erased', 'encrypted']);
  });

  test('[R-1339] that the keys had when verify opened an event is checked again', async () => {
    await fill(events(12));
    for (const name of ['keys', 'mirror']) copy(name);
    await erase([5]);
    for (const directory of [keys, mirror]) fs.cpSync(directory, `${directory}.now`, { recursive: true });
    for (const name of ['keys', 'mirror']) bringBack(name);
    const notErased = async (settle: () => void) => {
      const heads = { head: () => undefined, settle: () => Promise.resolve().then(settle) };
      const { found } = await audit([], heads);
      return found.flatMap(({ kind, sequence }) => (kind === 'not_erased' ? [sequence] : []));
    };
    expect(await notErased(() => undefined)).toEqual([5]);
    // As beside a collector, which appends the action and destroys the key while the log is read.
    const follow = () => {
      for (const directory of [keys, mirror])
        fs.cpSync(`${directory}.now`, directory, { recursive: true, force: true });
    };
    expect(await notErased(follow)).toEqual([]);
  });

  test('of the id index, or none, loses no action', async () => {
    const sent = events(12);
    await fill(sent);
    copy('data/index');
    await erase([5]);
    bringBack('data/index');
    await (await open()).store.close();
    expect(await readAll()).toEqual(expected(sent, [5]));
    fs.rmSync(path.join(dataDir, 'index'), { recursive: true });
    expect(await readAll()).toEqual(expected(sent, [5]));
    const { store } = await open();
    expect(store.actions.erased.size).toBe(1);
    await store.close();
  });
});

describe('[R-1996] a new epoch', () => {
  test('leaves no key of an older one, and old copies of keys open nothing', async () => {
    const sent = events(12);
    await fill(sent);
    const bucket = path.join(keys, 'buckets', fs.readdirSync(path.join(keys, 'buckets'))[0] ?? '');
    const remnant = fs.readFileSync(bucket);
    await erase([5]);
    const { store } = await open();
    expect(await store.keys?.rotate()).toEqual([]);
    await store.append(events(2, ['lab']));
    await store.close();
    for (const directory of [keys, mirror])
      expect(fs.readdirSync(path.join(directory, 'epochs'))).toEqual(['0000002.json']);
    expect((await readAll()).get(5)).toBe('erased');
    expect([...(await readAll()).values()].filter((body) => body.includes('Lactate'))).toHaveLength(13);
    fs.writeFileSync(bucket, remnant);
    fs.writeFileSync(path.join(mirror, 'buckets', path.basename(bucket)), remnant);
    await expect(readAll()).rejects.toThrow(/0000001.json is missing/);
  });

  test('[R-1996] that is interrupted at any step is completed by the next start, and no key is lost', async () => {
    const sent = events(12);
    await fill(sent);
    await erase([5]);
    const begin = beginning();
    let rotated = 0;
    for (let step = 1; ; step++) {
      begin();
      const { files, steps } = killedAt(step);
      try {
        const { store } = await open({ files });
        await store.keys?.rotate();
        await store.close();
      } catch {
        // Killed.
      }
      const { store } = await open();
      if (store.keys?.isRotating === true)
        expect(await store.keys.finishRotation(), `step ${step}`).toEqual([]);
      expect(await store.append(events(1, ['lab'])), `step ${step}`).toEqual(['accepted']);
      if (store.keys !== undefined && store.keys.epoch > 1) rotated++;
      await store.close();
      for (const directory of [keys, mirror])
        expect(
          fs.readdirSync(path.join(directory, 'epochs')).filter((name) => !name.endsWith('.draft')),
          `step ${step}`,
        ).toHaveLength(1);
      const found = await readAll();
      expect([...found].slice(0, 12), `step ${step}`).toEqual([...expected(sent, [5])]);
      fs.rmSync(keys, { recursive: true });
      fs.renameSync(mirror, keys);
      expect(await readAll(), `step ${step}`).toEqual(found);
      fs.mkdirSync(mirror);
      if (steps() < step) break;
    }
    expect(rotated).toBeGreaterThan(5);
  });

  test('that is interrupted at a mirror is completed once that is back', async () => {
    await fill(events(12));
    const { store } = await open();
    fs.renameSync(mirror, `${mirror}.away`);
    fs.symlinkSync(mirror, mirror);
    await expect(store.keys?.rotate()).rejects.toThrow(/too few/);
    fs.rmSync(mirror);
    fs.renameSync(`${mirror}.away`, mirror);
    expect(await store.keys?.rotate()).toEqual([]);
    expect(store.keys?.isRotating).toBe(false);
    await store.close();
    expect([...(await readAll()).values()]).not.toContain('encrypted');
  });
});
