/** Full disks of servers: refused events are not lost, acknowledged ones are stored, and it continues. */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import {
  type Candidate,
  CommitUnknown,
  NotCommitted,
} from '@clinical-events/collector/store/contract/events';
import { parseAddress } from '../src/address.js';
import { migrateLog } from '../src/administration.js';
import type { LogRow } from '../src/schema.js';
import { PostgresStore } from '../src/postgres-store.js';
import { PostgresServer, SEAL_KEY } from './running/postgres-server.js';
import { SmallDisk, whyNoSmallDisk } from './running/small-disk.js';
import { candidate, idOf } from '../../collector/test/store/candidate.js';

const MEGABYTES = 96;
const WHY_NOT = whyNoSmallDisk();

if (WHY_NOT !== undefined) console.warn(`\n*** DISKS OF SERVERS ARE NOT FILLED HERE: ${WHY_NOT}\n`);
beforeEach(({ skip }) => skip(WHY_NOT !== undefined, WHY_NOT));

async function open(server: PostgresServer, durability: LogRow['durability']): Promise<PostgresStore> {
  const address = parseAddress(server.url());
  await migrateLog(address, durability);
  const store = await PostgresStore.open({
    sealKey: () => Promise.resolve(SEAL_KEY),
    ...{ address, lanes: 1, version: 'test', onTrouble: () => undefined, onLost: () => undefined },
  });
  onTestFinished(() => store.close());
  return store;
}

async function onSmallDisk(server: PostgresServer, directory: 'base' | 'pg_wal'): Promise<SmallDisk> {
  await server.stop();
  const disk = await SmallDisk.under(server, directory, MEGABYTES);
  onTestFinished(() => disk.remove());
  await server.run();
  return disk;
}

/** About a megabyte that nothing compresses. */
function large(): Candidate[] {
  return Array.from({ length: 8 }, () =>
    candidate({ body: { text: randomBytes(96 << 10).toString('base64') } }),
  );
}

/** Like a sender: again until the outcome is known. `between` is what people do meanwhile. */
async function stored(
  store: PostgresStore,
  batch: readonly Candidate[],
  between: () => Promise<void>,
): Promise<void> {
  for (;;) {
    const outcomes = await store.append(batch).catch(failed);
    if (outcomes instanceof Error) await sleep(50).then(between);
    else {
      expect(outcomes.filter((outcome) => outcome !== 'accepted' && outcome !== 'duplicate')).toEqual([]);
      return;
    }
  }
}

function failed(error: unknown): Error {
  if (error instanceof NotCommitted || error instanceof CommitUnknown) return error;
  throw error;
}

/** Fills the disk of one server until a batch is refused, and makes room again. */
async function fillAndRelieve(
  primary: PostgresServer,
  store: PostgresStore,
  full: { readonly disk: SmallDisk; readonly server: PostgresServer },
): Promise<void> {
  const acknowledged: Candidate[] = [candidate()];
  expect(await store.append(acknowledged)).toEqual(['accepted']);
  full.disk.fill();
  const refused = large();
  for (let batch: Candidate[] = refused; ; batch = large()) {
    const outcomes = await store.append(batch).catch(failed);
    if (outcomes instanceof Error) {
      refused.splice(0, refused.length, ...batch);
      break;
    }
    expect(outcomes).toEqual(batch.map(() => 'accepted'));
    acknowledged.push(...batch);
  }
  for (let i = 0; i < 3; i++) expect(await store.append(refused).catch(failed)).toBeInstanceOf(Error);
  expect(full.server.log).toContain('No space left on device');
  full.disk.relieve();
  await stored(store, refused, async () => {
    if (!full.server.isRunning) await full.server.run();
  });
  acknowledged.push(...refused);
  const rows = await primary.query(
    `SELECT encode(substring(envelope FROM 15 FOR 16), 'hex')::uuid::text AS id FROM collector.events`,
  );
  expect(rows.map(({ id }) => id).toSorted()).toEqual(acknowledged.map(idOf).toSorted());
}

test('[R-1251] a full disk of tables: refused, nothing is lost, and it continues when there is room', async () => {
  const server = await PostgresServer.start();
  onTestFinished(() => server.remove());
  const disk = await onSmallDisk(server, 'base');
  await fillAndRelieve(server, await open(server, 'local'), { disk, server });
  expect(server.log).not.toContain('PANIC');
});

test('[R-1251] a full disk of the WAL, which ends the server: refused, nothing is lost, and it continues when there is room', async () => {
  const server = await PostgresServer.start();
  onTestFinished(() => server.remove());
  const disk = await onSmallDisk(server, 'pg_wal');
  await fillAndRelieve(server, await open(server, 'local'), { disk, server });
  expect(server.log).toContain('PANIC');
});

test('[R-1251] a full disk of the standby: nothing is acknowledged until it follows again', async () => {
  const { primary, standby } = await PostgresServer.pair();
  onTestFinished(async () => {
    await primary.remove();
    await standby.remove();
  });
  const disk = await onSmallDisk(standby, 'pg_wal');
  await primary.hasStandby();
  await fillAndRelieve(primary, await open(primary, 'replicated'), { disk, server: standby });
});
