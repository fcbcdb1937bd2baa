/** Payloads of a log in PostgreSQL that are encrypted, by keys in another database. */
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { KekFault } from '../../collector/src/privacy/key-encryption-key.js';
import { KeysUnfit } from '@clinical-events/collector/privacy/key-vault';
import type { PayloadKeys } from '@clinical-events/collector/privacy/payload-keys';
import { SequenceSet } from '@clinical-events/collector/privacy/sequence-set';
import type { Store } from '@clinical-events/collector/store/contract/events';
import { matchingEvents } from '../../collector/src/store/matching-events.js';
import { examineLog } from '../src/administration.js';
import type { Address } from '../src/address.js';
import { ReadingConnection } from '../src/connection.js';
import { openWrittenKeys, ReadKeys, type WrittenKeys } from '../src/opened-keys.js';
import { PostgresLog } from '../src/postgres-log.js';
import type { KeysOfLog, PostgresStoreOptions } from '../src/postgres-store.js';
import { readLog } from '../src/schema.js';
import { random, runs } from '../../../test/property-runs.js';
import { PostgresServer } from './running/postgres-server.js';
import { candidate } from '../../collector/test/store/candidate.js';
import { storeConformance } from '../../collector/test/store/store-conformance.js';
import {
  type Database,
  type KeyedServers,
  makeLog,
  openSequencedStore,
  spoil,
  startKeyed,
} from './conformance.js';

let servers: KeyedServers;
let server: PostgresServer;
let keyServer: PostgresServer;
let database: Database;
let kek: string;
let logs = 0;

beforeAll(async () => {
  servers = await startKeyed();
  ({ server, keyServer, database, kek } = servers);
});
afterAll(() => servers.remove());

const keysOf = ({ schema }: Address) => `${keyServer.url()}?schema=${schema}`;

/** As a collector opens them. */
function openKeys(address: Address, told: string[] = []): NonNullable<PostgresStoreOptions['openKeys']> {
  return async ({ ledgerId, cluster, noted }: KeysOfLog) => ({
    ...(await openWrittenKeys(
      {
        ...{ places: { directories: [keysOf(address)], kek }, ledgerId, isNeeded: noted !== undefined },
        onTrouble: (what) => told.push(what),
        onOpened: () => Promise.resolve(),
      },
      cluster,
    )),
    address: keysOf(address),
  });
}

const newLog = () => makeLog(database, `log_${logs++}`);
const open = (address: Address) => openSequencedStore(address, { openKeys: openKeys(address) });

/** With keys, unless they are not wanted. Closing it closes them. */
async function read(address: Address, hasKeys = true): Promise<PostgresLog> {
  const connection = new ReadingConnection(address, 'test');
  const { systemId } = await readLog(connection, { forWriting: false });
  const keys = hasKeys ? await ReadKeys.open({ directories: [keysOf(address)], kek }, systemId) : undefined;
  const log = await PostgresLog.open(address, connection, keys);
  const close = log.close.bind(log);
  log.close = async () => {
    await close();
    await keys?.close();
  };
  return log;
}

async function bodies(log: PostgresLog): Promise<(string | undefined)[]> {
  const found: (string | undefined)[] = [];
  for await (const batch of matchingEvents(log, {}))
    for (const { payloadState, body } of batch)
      found.push(payloadState === 'plain' ? body.toString() : undefined);
  return found;
}

storeConformance({
  name: 'the PostgreSQL store with encrypted payloads',
  async makePlace() {
    const address = await newLog();
    // Who only reads begins no log, and the suite reads one that was never begun.
    await (await open(address)).close();
    return {
      open: () => open(address),
      read: () => read(address),
      spoil: (at) => spoil(server, address, at),
      loseIndex: () => undefined,
      remove: async () => {
        await server.query(`DROP SCHEMA ${address.schema} CASCADE`);
      },
    };
  },
});

describe('encrypted payloads in PostgreSQL', () => {
  let address: Address;
  beforeEach(async () => {
    address = await newLog();
  });

  test('[R-1320] neither the database of the log nor that of the keys holds a payload or a salt', async () => {
    const store = await open(address);
    const event = candidate({ body: { note: 'Frau Özdemir, Zimmer 12' } });
    expect(await store.append([event])).toEqual(['accepted']);
    await store.close();
    for (const [from, schema] of [
      [server, address.schema],
      [keyServer, address.schema],
    ] as const) {
      const tables = await from.query(
        `SELECT table_name FROM information_schema.tables WHERE table_schema = '${schema}'`,
      );
      expect(tables.length).toBeGreaterThan(0);
      for (const { table_name: name } of tables) {
        const rows = await from.query(`SELECT t::text AS row FROM ${schema}.${String(name)} t`);
        const all = rows.map(({ row }) => String(row)).join('\n');
        expect(all).not.toContain(Buffer.from('Zimmer 12').toString('hex'));
        expect(all).not.toContain(Buffer.from(event.salted.subarray(0, 16)).toString('hex'));
      }
    }
    const log = await read(address);
    expect(await bodies(log)).toEqual([event.body.toString()]);
    await log.close();
    const blind = await read(address, false);
    expect(await bodies(blind)).toEqual([undefined]);
    await blind.close();
  });

  test('[R-1320] events that one collector has encrypted are repeats for the other, and are read', async () => {
    const [one, other] = [await open(address), await open(address)];
    const events = Array.from({ length: 6 }, (_, i) =>
      candidate({ organisation: `ward-${i % 3}`, body: { i } }),
    );
    expect(await one.append(events)).toEqual(events.map(() => 'accepted'));
    expect(await other.append(events)).toEqual(events.map(() => 'duplicate'));
    const changed = events.map((event) => ({
      ...candidate({ body: { i: -1 } }),
      eventId: event.eventId,
      organisation: event.organisation,
    }));
    expect(await other.append(changed)).toEqual(events.map(() => 'conflict'));
    expect(await other.append([candidate({ body: { i: 6 } })])).toEqual(['accepted']);
    const log = await read(address);
    expect(await bodies(log)).toEqual([0, 1, 2, 3, 4, 5, 6].map((i) => JSON.stringify({ i })));
    await Promise.all([log, one, other].map((each) => each.close()));
  });

  test('[R-1320] a repeat is recognised right after another collector made the keys of the first', async () => {
    const [one, other] = [await open(address), await open(address)];
    const event = candidate({ body: { i: 1 } });
    expect(await other.append([candidate()])).toEqual(['accepted']);
    expect(await one.append([event])).toEqual(['accepted']);
    expect(await other.append([event])).toEqual(['duplicate']);
    await Promise.all([one, other].map((each) => each.close()));
  });

  test('[R-1323] no event is stored while its key cannot be made durable, and all are when it can', async () => {
    const store = await open(address);
    expect(await store.append([candidate({ organisation: 'ward-1' })])).toEqual(['accepted']);
    await keyServer.stop('SIGKILL');
    await expect(store.append([candidate({ organisation: 'ward-2' })])).rejects.toThrow(
      'the payload keys cannot be written',
    );
    // An event whose keys are there.
    const [{ count } = {}] = await server.query(`SELECT count(*) FROM ${address.schema}.events`);
    expect(count).toBe('1');
    await keyServer.run();
    await store.prove();
    expect(await store.append([candidate({ organisation: 'ward-2' })])).toEqual(['accepted']);
    await store.close();
    const log = await read(address);
    expect((await bodies(log)).every((body) => body !== undefined)).toBe(true);
    await log.close();
  });

  test('[R-1324] a program that wraps the keys is run at a start, and not when others make keys', async () => {
    const directory = path.dirname(kek.slice('file:'.length));
    const [program, asked] = [path.join(directory, 'program'), path.join(directory, 'asked')];
    const script = `#!/bin/sh\necho "$1" >> ${asked}\nexec rev\n`;
    fs.writeFileSync(program, script, { mode: 0o700 });
    const before = kek;
    kek = `command:${program}`;
    try {
      const [one, other] = [await open(address), await open(address)];
      const times = () => fs.readFileSync(asked, 'utf8').split('\n').length;
      const atStart = times();
      for (let i = 0; i < 10; i++) {
        expect(await one.append([candidate({ organisation: `ward-${i}` })])).toEqual(['accepted']);
        // What a collector does each second.
        other.look();
        await sleep(50);
      }
      expect(await other.append([candidate({ organisation: 'ward-0' })])).toEqual(['accepted']);
      expect(times()).toBe(atStart);
      await Promise.all([one, other].map((each) => each.close()));
    } finally {
      kek = before;
    }
  });

  test('[R-1324] a first start that is interrupted anywhere is continued by the next one', async () => {
    const directory = path.dirname(kek.slice('file:'.length));
    const before = kek;
    const keyRows = async () => {
      const [table] = await keyServer.query(
        `SELECT to_regclass('${address.schema}.encryption_keys') AS name`,
      );
      return table?.['name'] === null
        ? []
        : keyServer.query(`SELECT name FROM ${address.schema}.encryption_keys ORDER BY name`);
    };
    try {
      // The key is wrapped, seen to unwrap, stored, and opened as every start opens it.
      const made = ['epochs/0000001.json', 'marks'].map((name) => ({ name }));
      for (const [call, rows] of [
        [1, []],
        [2, []],
        [3, made],
      ] as const) {
        const program = path.join(directory, `kms-${call}`);
        const script = `#!/bin/sh\necho >> "$0.asked"\n[ "$(wc -l < "$0.asked")" -ne ${call} ] || exit 1\nexec rev\n`;
        fs.writeFileSync(program, script, { mode: 0o700 });
        kek = `command:${program}`;
        await expect(open(address)).rejects.toThrow(KekFault);
        expect(await keyRows()).toEqual(rows);
      }
      // The keys are durable, and the log does not say so yet.
      const makeKeys = openKeys(address);
      const cutOff = openSequencedStore(address, {
        openKeys: async (log) => {
          await (await makeKeys(log))?.vault.close();
          throw new Error('killed');
        },
      });
      await expect(cutOff).rejects.toThrow('killed');
      expect((await keyRows()).length).toBeGreaterThan(0);
      const store = await open(address);
      expect(await store.append([candidate()])).toEqual(['accepted']);
      await store.close();
    } finally {
      kek = before;
    }
  });

  test('[R-1323] whether a key can be written is checked before there is an event, and reported as keys_unwritable', async () => {
    await (await open(address)).close();
    const { schema } = address;
    await keyServer.query(`
      CREATE FUNCTION ${schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no writes'; END $$;
      CREATE TRIGGER refuse BEFORE UPDATE ON ${schema}.encryption_keys
        FOR EACH STATEMENT EXECUTE FUNCTION ${schema}.refuse()`);
    const store = await open(address);
    await expect(store.proveKeys()).rejects.toMatchObject({
      name: 'NotCommitted',
      reason: 'keys_unwritable',
    });
    await expect(store.prove()).rejects.toMatchObject({ reason: 'keys_unwritable' });
    await keyServer.query(`DROP TRIGGER refuse ON ${schema}.encryption_keys`);
    await store.proveKeys();
    expect(await store.append([candidate()])).toEqual(['accepted']);
    await store.close();
  });

  test('[R-1323] two collectors that begin a log at the same time have one set of keys', async () => {
    const stores: Store[] = await Promise.all([open(address), open(address), open(address)]);
    for (const [i, store] of stores.entries())
      expect(await store.append([candidate({ body: { i } })])).toEqual(['accepted']);
    const names = await keyServer.query(
      `SELECT name FROM ${address.schema}.encryption_keys WHERE name LIKE 'epochs/%'`,
    );
    expect(names).toHaveLength(1);
    const log = await read(address);
    expect(await bodies(log)).toEqual([0, 1, 2].map((i) => JSON.stringify({ i })));
    await Promise.all([log, ...stores].map((each) => each.close()));
  });

  test('[R-1324] keys on the cluster of the log, keys of another log and missing keys are refused', async () => {
    const here = { ...address, schema: 'keys' };
    const onLog = openSequencedStore(address, {
      openKeys: async ({ ledgerId, cluster }) => ({
        ...(await openWrittenKeys(
          {
            ...{ ledgerId, onTrouble: () => undefined, onOpened: () => Promise.resolve() },
            places: { directories: [`${server.url()}?schema=${here.schema}`], kek },
          },
          cluster,
        )),
        address: '',
      }),
    });
    await expect(onLog).rejects.toThrow(KeysUnfit);
    await (await open(address)).close();
    const other = await newLog();
    await expect(openSequencedStore(other, { openKeys: openKeys(address) })).rejects.toThrow(
      'belong to another log',
    );
    await keyServer.query(`TRUNCATE ${address.schema}.encryption_keys`);
    await expect(open(address)).rejects.toThrow('are incomplete');
    // A store without keys stores nothing in the clear.
    const plain = await openSequencedStore(address);
    await expect(plain.append([candidate()])).rejects.toThrow('the database cannot be reached');
    await plain.close();
  });

  test('[R-1430] store check says where keys can be lost, or found again after they were destroyed', async () => {
    const found = async () => {
      const findings = await examineLog(address);
      return findings.flatMap(({ subject, severity, message }) =>
        subject === 'keys' ? [`${severity}: ${message}`] : [],
      );
    };
    expect(await found()).toEqual([expect.stringContaining('not encrypted')]);
    await (await open(address)).close();
    expect(await found()).toEqual([expect.stringMatching(/^ok: .* has the payload keys/)]);
    await server.query(`UPDATE ${address.schema}.log SET durability = 'replicated'`);
    const restarted = async (sql: string) => {
      await keyServer.query(sql);
      await keyServer.stop();
      await keyServer.run();
    };
    await restarted("ALTER SYSTEM SET archive_mode = 'on'");
    expect(await found()).toEqual([
      expect.stringMatching(/^warning: .* waits for a standby/),
      expect.stringMatching(/^warning: .* is archived/),
    ]);
    await restarted('ALTER SYSTEM RESET archive_mode');
    await keyServer.stop();
    expect(await found()).toEqual([expect.stringMatching(/^warning: .* could not be examined/)]);
    await keyServer.run();
  });

  test('[R-1323] changes of another process to the keys of a bucket apply to its writer', async () => {
    const store = await open(address);
    const event = (i: number) => candidate({ organisation: `ward-${i}`, body: { i } });
    expect(await store.append([event(0), event(1)])).toEqual(['accepted', 'accepted']);
    const connection = new ReadingConnection(address, 'test');
    const { ledgerId, systemId: cluster, encryptionKeys: noted } = await readLog(connection);
    await connection.close();
    const opened = await openKeys(address)({ ledgerId, cluster, noted, isNew: false, isEncrypted: false });
    await opened?.keys.rotate();
    await opened?.vault.close();
    // A tree of the old epoch would be lost with the key of that.
    expect(await store.append([event(2)])).toEqual(['accepted']);
    await store.close();
    const log = await read(address);
    expect(await bodies(log)).toEqual([0, 1, 2].map((i) => JSON.stringify({ i })));
    await log.close();
  });
});

describe('keys that two collectors write', () => {
  let x: PayloadKeys;
  let y: PayloadKeys;
  let vaults: WrittenKeys['vault'][] = [];
  let address: Address;

  const opened = async () => {
    const connection = new ReadingConnection(address, 'test');
    const { ledgerId, systemId: cluster, encryptionKeys: noted } = await readLog(connection);
    await connection.close();
    const found = await openKeys(address)({ ledgerId, cluster, noted, isNew: false, isEncrypted: false });
    if (found === undefined) throw new Error('there are no keys');
    vaults.push(found.vault);
    return found.keys;
  };
  /** As a new reader finds it. */
  const stored = async (tag: number, organisation: string, place: number) => {
    const reader = await opened();
    return reader.stored.keyOf(tag, organisation, place);
  };
  const taken = (tag: number, ...places: number[]) => {
    const set = SequenceSet.of(places);
    return [{ tag, organisation: 'a', sequences: set, places: set }];
  };

  beforeEach(async () => {
    address = await newLog();
    await (await open(address)).close();
    x = await opened();
    y = await opened();
  });
  afterEach(async () => {
    await Promise.all(vaults.map((each) => each.close()));
    vaults = [];
  });

  test('[R-1323] a bucket that is begun while another ends the epoch is under the new one', async () => {
    await y.flush();
    await x.rotate();
    const { tag, key } = y.keyFor('a', 1);
    await y.flush();
    expect(await stored(tag, 'a', 1)).toBe(key);
    const next = y.keyFor('a', 70_000);
    await Promise.all([x.rotate(), y.flush()]);
    await x.finishRotation();
    expect(await stored(tag, 'a', 1)).toBe(key);
    expect(await stored(next.tag, 'a', 70_000)).toBe(next.key);
  });

  test('[R-1335] destroyed keys remain so, whatever another had not saved, and whenever it looks', async () => {
    for (const looks of [true, false]) {
      const from = looks ? 1 : 100_000;
      const { tag } = y.keyFor('a', from);
      const kept = y.keyFor('a', from + 1);
      await y.flush();
      const added = y.keyFor('b', from + 2);
      expect(await x.destroy(taken(tag, from))).toEqual([]);
      if (looks) await y.refresh();
      await Promise.all([y.flush(), y.flush()]);
      expect(await stored(tag, 'a', from)).toBeUndefined();
      expect(await stored(tag, 'a', from + 1)).toBe(kept.key);
      expect(await stored(tag, 'b', from + 2)).toBe(added.key);
    }
  });

  test('[R-1323] a tree that one adds while another destroys keys in its bucket is kept', async () => {
    const { tag } = y.keyFor('a', 1);
    await y.flush();
    await x.refresh();
    const added = y.keyFor('b', 2);
    const [unreached] = await Promise.all([x.destroy(taken(tag, 1)), y.flush()]);
    expect(unreached).toEqual([]);
    expect(await stored(tag, 'a', 1)).toBeUndefined();
    expect(await stored(tag, 'b', 2)).toBe(added.key);
  });

  test('[R-1323] a tree of a finished bucket is kept, although another has changed that bucket', async () => {
    const { tag } = y.keyFor('a', 1);
    await y.flush();
    const added = y.keyFor('b', 2);
    const next = y.keyFor('a', 70_000);
    expect(await x.destroy(taken(tag, 1))).toEqual([]);
    await y.flush();
    expect(await stored(tag, 'a', 1)).toBeUndefined();
    expect(await stored(tag, 'b', 2)).toBe(added.key);
    expect(await stored(next.tag, 'a', 70_000)).toBe(next.key);
  });

  test('[R-1335] the keys of a bucket that was unknown until then are destroyed, and not skipped', async () => {
    const { tag } = y.keyFor('a', 1);
    await y.flush();
    expect(await x.destroy(taken(tag, 1))).toEqual([]);
    expect(await stored(tag, 'a', 1)).toBeUndefined();
  });

  test('[R-1335] while the KEK of a new epoch is unavailable nothing is stored, and destroyed keys remain so', async () => {
    const directory = path.dirname(kek.slice('file:'.length));
    const [program, away] = [path.join(directory, 'kms'), path.join(directory, 'away')];
    fs.writeFileSync(program, `#!/bin/sh\n[ -e ${away} ] && exit 1\nexec rev\n`, { mode: 0o700 });
    const before = kek;
    kek = `command:${program}`;
    try {
      address = await newLog();
      await (await open(address)).close();
      x = await opened();
      y = await opened();
      const { tag } = y.keyFor('a', 1);
      const kept = y.keyFor('a', 2);
      await y.flush();
      const added = y.keyFor('b', 3);
      expect(await x.destroy(taken(tag, 1))).toEqual([]);
      await x.rotate();
      fs.writeFileSync(away, '');
      for (let i = 0; i < 2; i++) {
        // One more root each time: without a key of the newest epoch none of them is durable, so no event is.
        y.keyFor(`d${i}`, 4 + i);
        await expect(y.flush()).rejects.toThrow(KekFault);
        await expect(y.prove()).rejects.toThrow(KekFault);
      }
      fs.rmSync(away);
      await y.flush();
      const late = y.keyFor('c', 6);
      await y.flush();
      expect(await stored(tag, 'a', 1)).toBeUndefined();
      expect(await stored(tag, 'a', 2)).toBe(kept.key);
      expect(await stored(tag, 'b', 3)).toBe(added.key);
      expect(await stored(tag, 'c', 6)).toBe(late.key);
    } finally {
      kek = before;
    }
  });

  test('[R-1335] at random, no key of an event is lost, and no destroyed one is there', async () => {
    const kept = new Map<string, readonly [number, string, number, string]>();
    const gone: (readonly [number, string, number])[] = [];
    const places = [0, 0];
    for (let step = 0; step < runs(300, 80); step++) {
      const i = random.below(2);
      const [one, other] = i === 0 ? [x, y] : [y, x];
      const organisation = ['a', 'b', `c${step}`][random.below(3)] ?? '';
      const place = (places[i] = (places[i] ?? 0) + (random.below(20) === 0 ? 65_536 : 1));
      const { tag, key } = one.keyFor(organisation, place);
      const work: Promise<unknown>[] = [one.flush()];
      if (random.below(4) === 0) work.push(other.flush());
      if (random.below(4) === 0) work.push(other.refresh());
      const [victim] = [...kept].filter(() => random.below(8) === 0);
      if (victim !== undefined) {
        const [name, [of, whose, at]] = victim;
        kept.delete(name);
        gone.push([of, whose, at]);
        const set = SequenceSet.of([at]);
        work.push(other.destroy([{ tag: of, organisation: whose, sequences: set, places: set }]));
      }
      if (random.below(15) === 0) work.push(other.rotate());
      await Promise.all(work);
      kept.set(`${step}`, [tag, organisation, place, key]);
    }
    const reader = await opened();
    for (const [tag, organisation, place, key] of kept.values())
      expect(reader.stored.keyOf(tag, organisation, place)).toBe(key);
    for (const [tag, organisation, place] of gone)
      expect(reader.stored.keyOf(tag, organisation, place)).toBeUndefined();
  });
});
