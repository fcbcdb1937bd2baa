import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { runs } from '../../../../../test/property-runs.js';
import { published } from './fake-id-index.js';
import { OPERATIONS, type Manner, type Operation } from './memory-disk.js';
import { SEGMENT_BYTES, StoreModel, wished, type IndexFate, type Restart, type Wish } from './store-model.js';

vi.mock('../../../src/store/embedded/id-index/id-index.js', () => import('./fake-id-index.js'));
vi.mock('../../../src/store/embedded/id-index/sorted-runs.js', () => import('./fake-id-index.js'));

const DIRECTORY = '/data';
const INDEX = '/data/index';

function model(): StoreModel {
  published.clear();
  return new StoreModel(DIRECTORY, {
    save: () => {
      const saved = published.get(INDEX);
      return () => {
        if (saved) published.set(INDEX, saved);
        else published.clear();
      };
    },
    lose: () => published.clear(),
  });
}

const wish = (id: number, content: 0 | 1 | 2 = 0, size = 100): Wish => ({
  ...{ id, content, size },
  organisation: id % 3 === 0 ? 'two' : 'one',
});

/** New events, repeats in the same and in other spelling, conflicts, and enough bytes to roll four times. */
const SCRIPT: readonly (readonly Wish[])[] = [
  [wish(1), wish(2), wish(3)],
  [wish(4), wish(1), wish(2, 1), wish(3, 2)],
  [wish(1), wish(2)],
  [wish(5, 0, 2000), wish(6), wish(5, 2, 2000), wish(5, 1, 2000)],
  [wish(7, 0, 1500), wish(8, 0, 1500), wish(9, 0, 900)],
  [wish(5, 1, 2000), wish(10)],
  [wish(11, 0, 3 * SEGMENT_BYTES), wish(12)],
  [wish(13), wish(11, 1, 3 * SEGMENT_BYTES)],
  [wish(14, 0, 3000)],
  [wish(15), wish(16), wish(1), wish(14, 1, 3000)],
];

async function play(world: StoreModel, from: number, to: number): Promise<void> {
  for (const batch of SCRIPT.slice(from, to)) {
    await world.append(batch.map(wished));
    // After a commit with an unknown outcome, the collector ends and is started again.
    if (!world.store) await world.restart('kill', 'current');
  }
}

/** Some events, and a part of a batch after them. */
async function leaveTornTail(world: StoreModel): Promise<void> {
  await world.open();
  await play(world, 0, 4);
  await world.store?.close();
  world.store = undefined;
  world.disk = world.disk.afterKill();
  const [last = ''] = world.disk.fileNames('/data/ledger').slice(-1);
  const bytes = world.disk.bytesOf(`/data/ledger/${last}`);
  let end = bytes.length;
  while (bytes[end - 1] === 0) end--;
  bytes.fill(0xff, end, end + 40);
}

const MANNERS: readonly Manner[] = ['partly', 'before', 'after'];
/** What can be done by half. */
const PARTIAL: ReadonlySet<Operation> = new Set(['write', 'datasync', 'createZeroed']);

describe('an embedded store', () => {
  test.each(OPERATIONS)('survives that any one call to %s fails, done or not', async (operation) => {
    let faults = 0;
    let refusals = 0;
    for (const manner of PARTIAL.has(operation) ? MANNERS : MANNERS.slice(1)) {
      for (const first of ['start', 'start after a crash']) {
        // Every call of the first twenty, then every third.
        for (let nth = 1; ; nth += nth < 20 ? 1 : 3) {
          const world = model();
          if (first !== 'start') await leaveTornTail(world);
          const { disk } = world;
          disk.fail(operation, nth, manner);
          await world.open();
          await play(world, 0, 10);
          await world.restart(nth % 2 === 0 ? 'kill' : 'power', nth % 5 === 0 ? 'lost' : 'stale');
          await play(world, 0, 10);
          expect(world.stored.length).toBe(16);
          await world.checkRepeats();
          await world.end();
          refusals += world.refusals;
          if (!disk.hasEverFailed) break;
          faults++;
        }
      }
    }
    expect(faults).toBeGreaterThan(1);
    if (['write', 'datasync', 'rename', 'syncDirectory', 'createZeroed'].includes(operation)) {
      expect(refusals).toBeGreaterThan(5);
    }
  });

  test('[R-604] refuses events that do not fit on a full disk, keeps all others, and continues when there is space', async () => {
    let total = 0;
    for (let capacity = SEGMENT_BYTES; capacity < 8 * SEGMENT_BYTES; capacity += 1361) {
      const world = model();
      world.disk.capacity = capacity;
      await world.open();
      await play(world, 0, 10);
      const { refusals } = world;
      total += refusals;
      await world.restart('kill', 'current');
      world.disk.capacity = Infinity;
      await play(world, 0, 10);
      expect(world.refusals).toBe(refusals);
      expect(world.stored.length).toBe(16);
      await world.checkRepeats();
      await world.end();
    }
    expect(total).toBeGreaterThan(20);
  });

  test('reports one event that it cannot read, and continues with the others', async () => {
    const world = model();
    await world.open();
    await play(world, 0, 5);
    const { store } = world;
    world.disk.fail('read', 1, 'before');
    expect(await store?.append([wished(wish(1)), wished(wish(200))])).toEqual(['unreadable', 'accepted']);
    world.disk.heal();
    expect(await store?.append([wished(wish(1)), wished(wish(200))])).toEqual(['duplicate', 'duplicate']);
    await world.end();
  });

  test('[R-303] agrees with its model through any sequence of batches, faults, full disks and crashes', async () => {
    interface Step {
      check(): boolean;
      run(nothing: object, world: StoreModel): Promise<void>;
      toString(): string;
    }
    const step = (name: string, run: (world: StoreModel) => Promise<void> | void): Step => ({
      check: () => true,
      run: async (_, world) => run(world),
      toString: () => name,
    });
    const wishes = fc.array(
      fc.record<Wish>({
        id: fc.nat(20),
        content: fc.constantFrom(0, 1, 2),
        organisation: fc.constantFrom('one', 'two'),
        size: fc.constantFrom(0, 100, 100, 1000, SEGMENT_BYTES),
      }),
      { maxLength: 8 },
    );
    const steps = [
      wishes.map((batch) =>
        step(`append ${JSON.stringify(batch)}`, async (world) => {
          // One size an id, so that repeats are frequent.
          await world.append(batch.map((each) => wished({ ...each, size: each.size * (each.id % 2) })));
        }),
      ),
      fc
        .tuple(
          fc.constantFrom<Restart>('close', 'kill', 'power'),
          fc.constantFrom<IndexFate>('current', 'stale', 'lost'),
          fc.nat(),
        )
        .map(([how, index, seed]) =>
          step(`restart ${how} ${index} ${seed}`, (world) =>
            world.restart(how, index, (_, sector) => ((seed >> ((sector + 1) % 31)) & 1) === 1),
          ),
        ),
      fc
        .tuple(
          fc.constantFrom(...OPERATIONS),
          fc.integer({ min: 1, max: 4 }),
          fc.constantFrom<Manner>('before', 'partly', 'after'),
          fc.boolean(),
        )
        .map(([operation, nth, manner, lasting]) =>
          step(`fail ${operation} ${nth} ${manner} ${lasting}`, (world) =>
            world.disk.fail(operation, nth, manner, lasting),
          ),
        ),
      fc.constant(step('heal', (world) => void world.disk.heal())),
      fc.nat(12).map((segments) =>
        step(`capacity ${segments}`, (world) => {
          world.disk.capacity = segments === 12 ? Infinity : segments * SEGMENT_BYTES;
        }),
      ),
    ];
    await fc.assert(
      fc.asyncProperty(fc.commands(steps, { maxCommands: 30, size: 'max' }), async (commands) => {
        const world = model();
        await world.open();
        await fc.asyncModelRun(() => ({ model: {}, real: world }), commands);
        world.disk.capacity = Infinity;
        world.disk.heal();
        if (!world.store) await world.restart('kill', 'current');
        await world.append([wished(wish(250))]);
        await world.restart('power', 'lost');
        await world.checkRepeats();
        await world.end();
      }),
      { numRuns: runs(2000, 80) },
    );
  });
});
