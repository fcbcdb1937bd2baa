/** Operations on stored events of a log in PostgreSQL, by several collectors at the same time. */
import { createSecretKey, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { encodeEnvelope, encodeLeaf, ENTRY_KINDS, envelopeSize, LEAF_BYTES } from '@clinical-events/protocol';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
  vi,
} from 'vitest';
import { answerTo, layRequest, Lifecycle } from '@clinical-events/collector/ledger/lifecycle';
import { ownEntry } from '@clinical-events/collector/ledger/own-entry';
import { actionFields, type Actions, eventsOf } from '@clinical-events/collector/privacy/actions';
import { SequenceSet } from '@clinical-events/collector/privacy/sequence-set';
import type { Candidate } from '@clinical-events/collector/store/contract/events';
import type { VerifyFinding } from '@clinical-events/collector/store/findings';
import type { AuditedLog } from '@clinical-events/collector/store/log-audit';
import { VerifyFindings } from '../../collector/src/commands/verify/verification.js';
import { nodeFiles } from '../../collector/src/files.js';
import { copySharedLog } from '../../collector/src/replica/shared-log.js';
import { matchingEvents } from '../../collector/src/store/matching-events.js';
import { LogAudit } from '../../collector/src/store/open-to-audit.js';
import { keysOf } from '../src/action-rows.js';
import type { Address } from '../src/address.js';
import { maintainLog } from '../src/administration.js';
import { sha256 } from '../src/binary.js';
import { ReadingConnection } from '../src/connection.js';
import { openForReading } from '../src/driver.js';
import { openWrittenKeys } from '../src/opened-keys.js';
import { PostgresStore } from '../src/postgres-store.js';
import { PostgresServer, SEAL_KEY } from './running/postgres-server.js';
import { random, runs } from '../../../test/property-runs.js';
import { candidate } from '../../collector/test/store/candidate.js';
import { type Database, type KeyedServers, makeLog, startKeyed } from './conformance.js';

const COLLECTORS = 2;

let servers: KeyedServers;
let server: PostgresServer;
let keyServer: PostgresServer;
let database: Database;
let kek: string;
let logs = 0;
let address: Address;
let collectors: Collector[] = [];

beforeAll(async () => {
  servers = await startKeyed();
  ({ server, keyServer, database, kek } = servers);
});
afterAll(() => servers.remove());
beforeEach(async () => {
  address = await makeLog(database, `erased_${logs++}`);
});
afterEach(async () => {
  await Promise.all(collectors.map((each) => each.close()));
  collectors = [];
});

const keysAt = () => `${keyServer.url()}?schema=${address.schema}`;

/** A store as in a collector, which sequences all the time, and the part that carries out requests. */
class Collector {
  readonly lifecycle: Lifecycle;
  readonly #timer: NodeJS.Timeout;
  #placing: Promise<unknown> | undefined;

  private constructor(
    readonly store: PostgresStore,
    readonly told: string[],
  ) {
    this.#timer = setInterval(() => {
      this.#placing ??= store.committed
        .sequence()
        .catch(() => undefined)
        .finally(() => (this.#placing = undefined));
    }, 5);
    const { requests, actions, keys } = store;
    this.lifecycle = new Lifecycle({
      ...{ requests, actions, keys, onTrouble: (what) => told.push(what) },
      append: (entry) => store.appendAction(entry),
      // All at the same time, as if none was first.
      isOnUs: async () => {
        await store.refreshActions();
        return true;
      },
      keysOf: (sequences) => store.keysOf(sequences),
      keysIn: (lists, signal) => store.keysIn(lists, signal),
    });
  }

  static async open(sealKey = SEAL_KEY): Promise<Collector> {
    const told: string[] = [];
    const store = await PostgresStore.open({
      sealKey: () => Promise.resolve(sealKey),
      ...{ address, lanes: 1, version: 'test', onLost: (reason) => told.push(reason) },
      onTrouble: (what) => told.push(what),
      openKeys: async ({ ledgerId, cluster, noted }) => ({
        ...(await openWrittenKeys(
          {
            ...{ places: { directories: [keysAt()], kek }, ledgerId, isNeeded: noted !== undefined },
            onTrouble: (what) => told.push(what),
            onOpened: () => Promise.resolve(),
          },
          cluster,
        )),
        address: keysAt(),
      }),
    });
    const collector = new Collector(store, told);
    collectors.push(collector);
    return collector;
  }

  async append(events: readonly Candidate[]): Promise<void> {
    expect(await this.store.append(events)).toEqual(events.map(() => 'accepted'));
    await this.placed();
  }

  /** Until all that is stored has its place. */
  async placed(): Promise<void> {
    const waiting = `SELECT sum(entries) AS n FROM ${address.schema}.batches`;
    for (;;) {
      const [{ n } = {}] = await server.query(waiting);
      await this.store.committed.look();
      if (this.store.committed.entries === Number(n)) return;
    }
  }

  /** From now on the call of this number fails of those by which a request is done, and so do all after it. */
  failFrom(step: number): void {
    let calls = 0;
    const { store } = this;
    const fail = <Name extends string>(
      of: Record<Name, (...given: never[]) => unknown>,
      ...names: Name[]
    ) => {
      for (const name of names) {
        const real = of[name].bind(of) as (...given: unknown[]) => unknown;
        of[name] = (...given: unknown[]) =>
          ++calls < step ? real(...given) : Promise.reject(new Error('cut off'));
      }
    };
    fail(store.requests, 'begin', 'take', 'answer');
    fail(store, 'appendAction');
    if (store.keys !== undefined) fail(store.keys, 'noteAction', 'destroy');
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#placing;
    await this.lifecycle.close();
    await this.store.close();
  }
}

function events(count: number, organisation = 'ward-1'): Candidate[] {
  return Array.from({ length: count }, (_, i) => candidate({ organisation, body: { i } }));
}

async function request(of: Collector, sequences: Iterable<number>): Promise<string> {
  const action = randomUUID();
  // Those who ask know the sequences, and not the buckets.
  const keys = [{ tag: 0, organisation: '', sequences: SequenceSet.of(sequences) }];
  await layRequest(of.store.requests, {
    action: { action, does: 'erase', reason: 'test-data', part: 1, parts: 1, keys },
    considered: { policy: null, holds: [] },
  });
  return action;
}

/** What readers see of each entry that is no action, with keys unless they are not wanted. */
async function states({ hasKeys = true } = {}): Promise<string[]> {
  const log = await openForReading(address, hasKeys ? { directories: [keysAt()], kek } : undefined);
  const found: string[] = [];
  for await (const batch of matchingEvents(log.events, {}))
    for (const { payloadState } of batch) found.push(payloadState);
  await log.close();
  return found;
}

async function audit(): Promise<{ readonly log: AuditedLog; readonly findings: VerifyFinding[] }> {
  const shared = await openForReading(address, { directories: [keysAt()], kek });
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'audit-'));
  const list = new VerifyFindings();
  const heads = { head: () => undefined, settle: () => Promise.resolve() };
  const onProgress = () => undefined;
  const copy = await copySharedLog(shared, dataDir, onProgress);
  const options = { dataDir, files: nodeFiles, onProgress, shared: copy };
  const log = await new LogAudit(options, shared.tree, { roots: [], newest: undefined }, heads).report(list);
  await copy.evidence.tell(list);
  await shared.close();
  fs.rmSync(dataDir, { recursive: true });
  return { log, findings: list.listed.filter(({ kind }) => kind !== 'note' && kind !== 'forked') };
}

const of = (table: string) => `${address.schema}.${table}`;
const hex = (bytes: Uint8Array) => `'\\x${Buffer.from(bytes).toString('hex')}'`;

/** Rows by which someone with all rights on the database erases events, at a chosen place. */
async function forge(sequences: readonly number[], place: number): Promise<void> {
  const reading = new ReadingConnection(address, 'forged');
  const keys = await keysOf(reading, SequenceSet.of(sequences), () => true);
  await reading.close();
  const erasure = {
    action: randomUUID(),
    does: 'erase',
    reason: 'test-data',
    part: 1,
    parts: 1,
    keys,
  } as const;
  const entry = ownEntry(ENTRY_KINDS.lifecycleAction, 'lifecycle000', actionFields(erasure));
  const envelope = Buffer.alloc(envelopeSize(entry));
  encodeEnvelope(envelope, 0, entry);
  const leaf = Buffer.alloc(LEAF_BYTES);
  encodeLeaf(leaf, 0, envelope, sha256(envelope), entry.commitment);
  await server.query(`
    INSERT INTO ${of('batches')} (lane, batch, candidates, entries, own, leaves, closes)
      VALUES (900000, 1, 1, 1, 1, ${hex(leaf)}, true);
    INSERT INTO ${of('events')} (lane, batch, ord, envelope, salted)
      VALUES (900000, 1, 0, ${hex(envelope)}, ${hex(entry.salted)});
    INSERT INTO ${of('sequenced')} VALUES (900000, 1, ${place}, 1);
    INSERT INTO ${of('actions')} SELECT coalesce(max(number), 0) + 1, 900000, 1 FROM ${of('actions')}`);
}

/** The stored keys, and a function that restores them. */
async function copyOfKeys(): Promise<() => Promise<void>> {
  const table = of('encryption_keys');
  const copy = await keyServer.query(`SELECT name, bytes, version FROM ${table}`);
  return async () => {
    await keyServer.query(`TRUNCATE ${table}`);
    for (const { name, bytes, version } of copy)
      await keyServer.query(
        `INSERT INTO ${table} VALUES ('${String(name)}', ${hex(bytes as Buffer)}, ${String(version)})`,
      );
  };
}

const partsOf = (actions: Actions, action: string) => actions.partsIn(action).map(({ part }) => part);

describe('an erasure in a log in PostgreSQL', () => {
  test('[R-1334] destroys the keys of the named events only, for every collector and reader', async () => {
    const [one, other] = [await Collector.open(), await Collector.open()];
    const [mine, others] = [events(6), events(4, 'ward-2')];
    await one.append(mine);
    await other.append(others);
    const action = await request(one, [2, 3, 7]);
    await one.lifecycle.look();
    expect(await answerTo(one.store.requests, action)).toEqual({ state: 'done' });
    expect([...eventsOf(one.store.actions.partsIn(action).flatMap(({ keys }) => keys))]).toEqual([
      { first: 2, end: 4 },
      { first: 7, end: 8 },
    ]);
    const expected = [
      'plain',
      'erased',
      'erased',
      'plain',
      'plain',
      'plain',
      'erased',
      'plain',
      'plain',
      'plain',
    ];
    expect(await states()).toEqual(expected);
    expect(await states({ hasKeys: false })).toEqual(
      expected.map((state) => (state === 'erased' ? state : 'encrypted')),
    );
    await other.store.refreshActions();
    for (const { store } of [one, other]) {
      expect(await store.append(mine)).toEqual([
        ...['duplicate', 'erased', 'erased', 'duplicate', 'duplicate', 'duplicate'],
      ]);
      const changed = mine.map((event) => ({
        ...candidate({ organisation: 'ward-1' }),
        eventId: event.eventId,
      }));
      expect((await store.append(changed)).slice(1, 4)).toEqual(['erased', 'erased', 'conflict']);
      expect((await store.append(others)).slice(0, 2)).toEqual(['erased', 'duplicate']);
    }
    const { log, findings } = await audit();
    expect(findings).toEqual([]);
    expect([log.erased, log.erasing]).toEqual([{ 'test-data': 3 }, 0]);
    // New events of the same buckets are still encrypted.
    await one.append(events(3));
    expect((await states()).slice(-3)).toEqual(['plain', 'plain', 'plain']);
    expect([one.told, other.told]).toEqual([[], []]);
  });

  test('[R-1334] is done once, although every collector does it at the same time', async () => {
    for (let i = 0; i < COLLECTORS + 1; i++) await Collector.open();
    const [first] = collectors;
    if (first === undefined) return;
    for (const each of collectors) await each.append(events(20));
    const asked: string[] = [];
    for (let i = 0; i < 10; i++) asked.push(await request(first, [i + 1, i + 21, i + 41]));
    const isDone = async () => {
      const answers = await Promise.all(asked.map((action) => answerTo(first.store.requests, action)));
      return answers.every((answer) => answer?.state === 'done');
    };
    while (!(await isDone())) {
      // What one was too late for is tried again after a pause.
      await Promise.all(collectors.map(({ lifecycle }) => lifecycle.look()));
      const resting = collectors;
      collectors = [];
      await Promise.all(resting.map((each) => each.close()));
      for (let i = 0; i < COLLECTORS; i++) await Collector.open();
      const [again] = collectors;
      if (again !== undefined) Object.assign(first, { store: again.store });
    }
    const reader = await Collector.open();
    for (const action of asked) expect(partsOf(reader.store.actions, action)).toEqual([1]);
    expect(reader.store.actions.logged).toHaveLength(2 * asked.length);
    expect((await states()).map((state, i) => [i % 20 < 10, state])).toEqual(
      Array.from({ length: 60 }, (_, i) => [i % 20 < 10, i % 20 < 10 ? 'erased' : 'plain']),
    );
    expect((await audit()).findings).toEqual([]);
  });

  test('[R-1335] is tried again while the database is down, which is reported once', async () => {
    const one = await Collector.open();
    await one.append(events(2));
    const action = await request(one, [1]);
    await server.stop('SIGKILL');
    for (let i = 0; i < 5; i++) await one.lifecycle.look();
    expect(one.told.filter((what) => what.includes('is tried again'))).toHaveLength(1);
    await server.run();
    await one.lifecycle.look();
    expect(await answerTo(one.store.requests, action)).toEqual({ state: 'done' });
  });

  test('[R-1334] is removed from its row by store maintain, and all readers work as before', async () => {
    const one = await Collector.open();
    const sent = events(30);
    await one.append(sent);
    await request(one, [1, 2, 3, 29]);
    expect(await maintainLog(address)).toEqual({ months: 0, takenOut: 0 });
    await one.lifecycle.look();
    expect(await maintainLog(address)).toEqual({ months: 0, takenOut: 4 });
    expect(await maintainLog(address)).toEqual({ months: 0, takenOut: 0 });
    const left = await server.query(`SELECT count(*) FROM ${address.schema}.events WHERE salted IS NULL`);
    expect(left).toEqual([{ count: '4' }]);
    const found = (await states()).map((state) => state === 'erased');
    expect(found).toEqual(sent.map((_, i) => [0, 1, 2, 28].includes(i)));
    expect((await one.store.append(sent)).slice(0, 4)).toEqual(['erased', 'erased', 'erased', 'duplicate']);
    expect((await audit()).findings).toEqual([]);
    // Another envelope in its place was never written.
    await server.query(
      `UPDATE ${address.schema}.events SET envelope = set_byte(envelope, 62, 1) WHERE salted IS NULL AND ord = 1`,
    );
    expect((await audit()).findings.map(({ kind, sequence }) => [kind, sequence])).toEqual([['altered', 2]]);
  });

  test('[R-1335] applies to an older copy of the keys: no payload opens, verify names it, and a start destroys it', async () => {
    const one = await Collector.open();
    await one.append(events(5));
    const restore = await copyOfKeys();
    await request(one, [4]);
    await one.lifecycle.look();
    await one.close();
    collectors = [];
    await restore();
    expect(await states()).toEqual(['plain', 'plain', 'plain', 'erased', 'plain']);
    expect((await audit()).findings.map(({ kind, sequence }) => [kind, sequence])).toEqual([
      ['not_erased', 4],
    ]);
    await Collector.open();
    expect((await audit()).findings).toEqual([]);
  });

  test('[R-1336] is added to an older state of the log from the notes beside the keys; verify believes only the log', async () => {
    const one = await Collector.open();
    await one.append(events(5));
    const taken = await one.store.keysOf(SequenceSet.of([2, 4]));
    // With a sequence that was given again since, to an event with another key, and one that was not.
    const keys = taken.map((each) => ({
      ...each,
      sequences: each.sequences.with(SequenceSet.of([3, 700])),
      places: (each.places ?? SequenceSet.EMPTY).with(SequenceSet.of([7000, 7001])),
    }));
    const action = randomUUID();
    const erasure = { action, does: 'erase', reason: 'test-data', part: 1, parts: 1, keys } as const;
    expect(await one.store.keys?.noteAction(actionFields(erasure))).toEqual([]);
    expect(await one.store.keys?.destroy(taken)).toEqual([]);
    await one.close();
    collectors = [];
    expect((await audit()).findings).toMatchObject([
      {
        kind: 'unexplained',
        sequence: 2,
        message: expect.stringContaining('beside the keys') as string,
      },
      { kind: 'unexplained', sequence: 4 },
    ]);
    const next = await Collector.open();
    await next.lifecycle.look();
    await next.lifecycle.look();
    expect(next.told).toEqual([]);
    expect(next.store.actions.logged.map(({ said }) => said.does)).toEqual(['erase', 'done']);
    expect(next.store.actions.erased.toText()).toBe(SequenceSet.of([2, 4]).toText());
    expect((await audit()).findings).toEqual([]);
    expect(await states()).toEqual(['plain', 'erased', 'plain', 'erased', 'plain']);
  });

  test('[R-1334] names only events that the log has, and verify ends where its last batches are missing', async () => {
    const one = await Collector.open();
    await one.append(events(3));
    const action = await request(one, [2, 700]);
    await one.lifecycle.look();
    expect(await answerTo(one.store.requests, action)).toEqual({ state: 'done' });
    expect(one.store.actions.erased.toText()).toBe(SequenceSet.of([2]).toText());
    await one.close();
    collectors = [];
    await server.query(`DELETE FROM ${address.schema}.sequenced WHERE first_sequence > 1`);
    expect((await audit()).findings).toContainEqual(
      expect.objectContaining({ kind: 'missing', sequence: 4 }),
    );
  });

  test('[R-1335] waits for a database of keys that is down, and is done when it is up', async () => {
    const one = await Collector.open();
    await one.append(events(5));
    await keyServer.stop('SIGKILL');
    const action = await request(one, [1]);
    await one.lifecycle.look();
    // The entry needs no key: it applies from now on.
    expect(await answerTo(one.store.requests, action)).toMatchObject({ state: 'pending' });
    expect(one.store.actions.undone()).toEqual([action]);
    // Events that need no new key are stored meanwhile.
    await one.append(events(1));
    await keyServer.run();
    expect(await states()).toEqual(['erased', 'plain', 'plain', 'plain', 'plain', 'plain']);
    await one.close();
    collectors = [];
    const again = await Collector.open();
    await again.lifecycle.look();
    expect(await answerTo(again.store.requests, action)).toEqual({ state: 'done' });
    expect((await audit()).findings).toEqual([]);
  });

  test('[R-1335] that is interrupted at any step is done once by the next collector, and destroys nothing else', async () => {
    const cut = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'collector/%'`;
    let one = await Collector.open();
    await one.append(events(40));
    const asked: string[] = [];
    let cuts = 0;
    for (let i = 0; i < runs(60, 12); i++) {
      const action = await request(one, [(i % 20) + 1]);
      asked.push(action);
      for (let round = 1; ; round++) {
        expect(round, `rounds of ${action}`).toBeLessThan(30);
        const looking = one.lifecycle.look();
        await sleep(random.below(40));
        cuts += (await (i % 2 === 0 ? server : keyServer).query(cut)).length;
        await looking;
        await one.close().catch(() => undefined);
        collectors = [];
        one = await Collector.open();
        await one.lifecycle.look();
        if ((await answerTo(one.store.requests, action))?.state === 'done') break;
      }
    }
    expect(cuts).toBeGreaterThan(0);
    const { actions } = one.store;
    await one.store.refreshActions();
    for (const action of asked) expect(partsOf(actions, action)).toEqual([1]);
    for (const does of ['erase', 'done'])
      expect(actions.logged.filter(({ said }) => said.does === does)).toHaveLength(asked.length);
    const erased = Math.min(20, asked.length);
    expect(await states()).toEqual(Array.from({ length: 40 }, (_, i) => (i < erased ? 'erased' : 'plain')));
    expect((await audit()).findings).toEqual([]);
  });

  test('[R-1550] [R-1335] is done once by the next collector, wherever the one before it ended, or is withdrawn', async () => {
    let one = await Collector.open();
    await one.append(events(20));
    const erased: number[] = [];
    const asked: string[] = [];
    for (let step = 1, sequence = 1; step <= 8; step++)
      for (const isAlive of [true, false]) {
        const action = await request(one, [sequence]);
        one.failFrom(step);
        await one.lifecycle.look();
        await one.close();
        collectors = [];
        one = await Collector.open();
        const { requests } = one.store;
        const isWithdrawn = isAlive && (await requests.withdraw(action));
        // Before it was begun, and never after.
        expect(isWithdrawn, `step ${step}`).toBe(isAlive && step === 1);
        await one.lifecycle.look();
        expect(await answerTo(requests, action)).toEqual(isWithdrawn ? undefined : { state: 'done' });
        expect(await requests.waiting()).toEqual([]);
        if (!isWithdrawn) {
          erased.push(sequence);
          asked.push(action, action);
        }
        sequence++;
      }
    expect(one.store.actions.logged.map(({ said }) => said.action)).toEqual(asked);
    const left = Array.from({ length: 20 }, (_, i) => (erased.includes(i + 1) ? 'erased' : 'plain'));
    expect(await states()).toEqual(left);
    expect((await audit()).findings).toEqual([]);
  });

  test('[R-1550] is begun by a collector or withdrawn, and never both, when they happen at the same time', async () => {
    const [one, other] = [await Collector.open(), await Collector.open()];
    await one.append(events(2));
    for (let i = 0; i < 30; i++) {
      const action = await request(one, [1]);
      const [isBegun, isWithdrawn] = await Promise.all([
        one.store.requests.begin(action),
        other.store.requests.withdraw(action),
      ]);
      expect(isWithdrawn).toBe(!isBegun);
      // By another collector too, once the first is cut off.
      expect(await other.store.requests.begin(action)).toBe(isBegun);
      await one.store.requests.take(action);
    }
  });

  test('[R-1334] a policy, a hold and another epoch of keys are entries that every collector knows', async () => {
    const [one, other] = [await Collector.open(), await Collector.open()];
    await one.append(events(3));
    const considered = { policy: null, holds: [] };
    const hold = randomUUID();
    const lay = (action: Parameters<typeof layRequest>[1]['action']) =>
      layRequest(one.store.requests, { action, considered });
    await lay({ action: hold, does: 'hold', record: 'ab'.repeat(32) });
    await one.lifecycle.look();
    const rotation = randomUUID();
    await lay({ action: rotation, does: 'rotate', epoch: 1 });
    const refused = await request(one, [1]);
    await other.lifecycle.look();
    expect(await answerTo(one.store.requests, refused)).toEqual({
      state: 'refused',
      ...{ because: 'changed', reason: 'a hold has begun meanwhile: plan again' },
    });
    expect([...other.store.actions.holds.keys()]).toEqual([hold]);
    const done = randomUUID();
    await lay({ action: done, does: 'done' });
    await one.store.requests.lay(randomUUID(), '{"keys":');
    await one.store.refreshActions();
    await one.lifecycle.look();
    expect(await answerTo(one.store.requests, done)).toEqual({
      ...{ state: 'refused', because: 'impossible' },
      reason: 'it is not a request',
    });
    expect(await one.store.requests.waiting()).toEqual([]);
    const epochs = `SELECT name FROM ${address.schema}.encryption_keys WHERE name LIKE 'epochs/%' AND bytes IS NOT NULL`;
    expect(await keyServer.query(epochs)).toEqual([{ name: 'epochs/0000002.json' }]);
    await one.append(events(2));
    expect(await states()).toEqual(['plain', 'plain', 'plain', 'plain', 'plain']);
    expect((await audit()).findings).toEqual([]);
  });

  test('[R-1334] an action that was removed from its table is found, and so is one that was changed', async () => {
    const one = await Collector.open();
    await one.append(events(3));
    await request(one, [2]);
    await one.lifecycle.look();
    await one.close();
    collectors = [];
    await server.query(`DELETE FROM ${address.schema}.actions WHERE number = 2`);
    expect((await audit()).findings.map(({ message }) => message)).toEqual([
      expect.stringContaining('is not in the table actions'),
    ]);
    await server.query(
      `UPDATE ${address.schema}.events SET salted = salted || '\\x20' WHERE lane = (SELECT lane FROM ${address.schema}.actions)`,
    );
    await expect(states()).rejects.toThrow('is damaged');
  });
});

describe('changes by someone with all rights on the database', () => {
  test('[R-1268] [R-1334] an action that no collector has sealed destroys no key, and verify finds it', async () => {
    const one = await Collector.open();
    await one.append(events(4));
    await forge([1, 2], 1_000_000);
    await one.store.refreshActions();
    expect(one.store.actions.logged).toEqual([]);
    await server.query(`UPDATE ${of('events')} SET payload_state = 2, salted = NULL WHERE ord = 2`);
    expect((await audit()).findings.map(({ kind, message }) => [kind, message])).toEqual([
      ['altered', 'sequenced gives 1 batch a place after the end of the log'],
      ['unexplained', expect.stringContaining('event 3 cannot be opened')],
    ]);
    // Nor if it has a place: no root is computed from it.
    await server.query(`
      UPDATE ${of('sequenced')} SET first_sequence = 5 WHERE lane = 900000;
      UPDATE ${of('heads')} SET size = 5`);
    await expect(one.store.refreshActions()).rejects.toThrow('table actions');
    await one.store.committed.look();
    const pass = async () => {
      let passed = 0;
      for await (const batch of one.store.committed.pass({ sequence: 1, at: 0 })) passed += [...batch].length;
      return passed;
    };
    await expect(pass()).rejects.toThrow('has no valid seal of a collector of this log');
    await expect(Collector.open()).rejects.toThrow('table actions');
    expect(await states()).toEqual(['erased', 'erased', 'erased', 'plain']);
    await server.query(`
      DELETE FROM ${of('actions')}; DELETE FROM ${of('sequenced')} WHERE lane = 900000;
      DELETE FROM ${of('batches')} WHERE lane = 900000; DELETE FROM ${of('events')} WHERE lane = 900000;
      UPDATE ${of('heads')} SET size = 4`);
    expect(await states()).toEqual(['plain', 'plain', 'erased', 'plain']);
  });

  test('[R-1268] entries sealed by a lost key are believed up to the size of the log at that time only', async () => {
    const one = await Collector.open();
    await one.append(events(3));
    await request(one, [2]);
    await one.lifecycle.look();
    const entries = one.store.committed.entries;
    await one.close();
    collectors = [];
    const key = createSecretKey(Buffer.alloc(32, 'anew'));
    await expect(Collector.open({ key, lostBefore: entries - 1 })).rejects.toThrow('table actions');
    const next = await Collector.open({ key, lostBefore: entries });
    await next.append(events(1));
    const action = await request(next, [1, 6]);
    await next.lifecycle.look();
    expect(await answerTo(next.store.requests, action)).toEqual({ state: 'done' });
    let passed = 0;
    for await (const batch of next.store.committed.pass({ sequence: 1, at: 0 })) passed += [...batch].length;
    expect(passed).toBe(next.store.committed.entries);
    expect(await states()).toEqual(['erased', 'erased', 'plain', 'erased']);
  });

  test('[R-1334] invalid rows of the table actions, or rows with other numbers, are found', async () => {
    const one = await Collector.open();
    await one.append(events(3));
    await request(one, [2]);
    await one.lifecycle.look();
    expect((await audit()).findings).toEqual([]);
    await server.query(`UPDATE ${of('actions')} SET number = 12 - number`);
    expect((await audit()).findings).toMatchObject([
      { kind: 'altered', message: expect.stringContaining('not numbered') as string },
    ]);
    await expect(Collector.open()).rejects.toThrow('table actions');
    await server.query(`UPDATE ${of('actions')} SET number = 12 - number`);
    await server.query(`
      INSERT INTO ${of('actions')} SELECT 3, lane, batch FROM ${of('sequenced')} WHERE first_sequence = 1;
      INSERT INTO ${of('actions')} VALUES (4, 777, 1)`);
    expect((await audit()).findings.map(({ message }) => message)).toEqual([
      expect.stringMatching(/batch 1 of lane 1, which is not an action/),
      expect.stringMatching(/batch 1 of lane 777, which is not an action/),
      expect.stringMatching(/not numbered/),
    ]);
    expect(await states()).toEqual(['plain', 'erased', 'plain']);
  });

  test('[R-1334] the key that a row names is destroyed only where it opens that row', async () => {
    const one = await Collector.open();
    await one.append(events(4));
    await server.query(
      `UPDATE ${of('events')} SET salted = set_byte(salted, 11, get_byte(salted, 11) + 1) WHERE ord = 1`,
    );
    await server.query(`UPDATE ${of('events')} SET envelope = '\\x00' WHERE ord = 3`);
    const action = await request(one, [1, 2, 4]);
    await one.lifecycle.look();
    expect(await answerTo(one.store.requests, action)).toEqual({ state: 'done' });
    expect(one.store.actions.erased.toText()).toBe(SequenceSet.of([1]).toText());
    await server.query(
      `UPDATE ${of('events')} SET salted = set_byte(salted, 11, get_byte(salted, 11) - 1) WHERE ord = 1`,
    );
    expect((await audit()).findings.map(({ kind, sequence }) => [kind, sequence])).toEqual([['altered', 4]]);
  });
});

describe('the copy that verify audits', () => {
  test('[R-1266] holds no payload in the clear, and says how much room it needs', async () => {
    const one = await Collector.open();
    await one.append(events(5));
    const shared = await openForReading(address, { directories: [keysAt()], kek });
    const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'audit-'));
    onTestFinished(async () => {
      await shared.close();
      fs.rmSync(dataDir, { recursive: true });
    });
    await copySharedLog(shared, dataDir, () => undefined);
    const bytes = fs
      .readdirSync(path.join(dataDir, 'ledger'))
      .map((name) => fs.readFileSync(path.join(dataDir, 'ledger', name), 'latin1'));
    expect(bytes.join('').length).toBeGreaterThan(1000);
    expect(bytes.join('')).not.toContain('"outcome"');
    const room = vi
      .spyOn(fs, 'statfsSync')
      .mockReturnValue(Object.assign(fs.statfsSync('/'), { bavail: 1, bsize: 10 }));
    onTestFinished(() => room.mockRestore());
    await expect(copySharedLog(shared, dataDir, () => undefined)).rejects.toMatchObject({
      ...{ code: 'ENOSPC', message: expect.stringContaining('TMPDIR') as string },
    });
  });
});

describe('a row in the place of another', () => {
  test('[R-1334] gives no one the key of an event that was not named', async () => {
    const one = await Collector.open();
    await one.append(events(4));
    const [row] = await server.query(`SELECT envelope, salted FROM ${of('events')} WHERE ord = 2`);
    const put = (found: typeof row) =>
      server.query(`
        UPDATE ${of('events')} SET envelope = ${hex(found?.['envelope'] as Buffer)}, salted = ${hex(found?.['salted'] as Buffer)}
        WHERE ord = 2`);
    await put((await server.query(`SELECT envelope, salted FROM ${of('events')} WHERE ord = 3`))[0]);
    await one.store.refreshActions();
    const action = await request(one, [1, 3]);
    await one.lifecycle.look();
    expect(await answerTo(one.store.requests, action)).toEqual({ state: 'done' });
    expect(one.store.actions.erased.toText()).toBe(SequenceSet.of([1]).toText());
    await put(row);
    // Nor where they have another order.
    await server.query(`UPDATE ${of('events')} SET ord = -1 WHERE ord = 2`);
    await request(one, [2]);
    await one.lifecycle.look();
    expect(one.store.actions.erased.toText()).toBe(SequenceSet.of([1]).toText());
    await server.query(`UPDATE ${of('events')} SET ord = 2 WHERE ord = -1`);
    expect(await states()).toEqual(['erased', 'plain', 'plain', 'plain']);
    expect((await audit()).findings).toEqual([]);
  });
});

describe('a database of keys in an older state', () => {
  test('[R-1335] is read again by running collectors: events erased then cannot be opened', async () => {
    const one = await Collector.open();
    await one.append(events(2));
    const restore = await copyOfKeys();
    for (let i = 0; i < 5; i++) await one.store.keys?.noteAction({ i });
    await restore();
    const other = await Collector.open();
    await other.append(events(2, 'ward-2'));
    const action = await request(one, [2, 4]);
    await one.lifecycle.look();
    expect(await answerTo(one.store.requests, action)).toEqual({ state: 'done' });
    expect((await audit()).findings).toEqual([]);
    expect(await states()).toEqual(['plain', 'erased', 'plain', 'erased']);
  });

  test('[R-1335] gets the keys that the others have, also where one of them has written to it since', async () => {
    const [one, other] = [await Collector.open(), await Collector.open()];
    const restore = await copyOfKeys();
    await one.append(events(2));
    await one.append(events(2, 'ward-2'));
    await restore();
    await other.append(events(2, 'ward-3'));
    // By the numbers of its rows it is newer by now than what was lost.
    for (let i = 0; i < 9; i++) await other.store.keys?.noteAction({ i });
    await one.append(events(2, 'ward-4'));
    const action = await request(other, [2]);
    await other.lifecycle.look();
    expect(await answerTo(other.store.requests, action)).toEqual({ state: 'done' });
    expect((await audit()).findings).toEqual([]);
    expect(await states()).toEqual(['plain', 'erased', ...Array<string>(6).fill('plain')]);
  });

  test('[R-1324] that lacks the key of the newest event lets no collector start', async () => {
    const one = await Collector.open();
    await one.append(events(2));
    await one.close();
    collectors = [];
    await keyServer.query(`DELETE FROM ${of('encryption_keys')} WHERE name LIKE 'buckets/%'`);
    await expect(Collector.open()).rejects.toThrow('the key of the newest event is missing');
  });
});
