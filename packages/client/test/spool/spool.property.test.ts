import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Manner, Operation } from './memory-disk.js';
import { ROOT, SpoolModel } from './spool-model.js';

const OPERATIONS: readonly Operation[] = [
  'open',
  'write',
  'write',
  'datasync',
  'datasync',
  'truncate',
  'read',
  'rename',
  'remove',
  'syncDirectory',
  'close',
];
const manner = fc.constantFrom<Manner>('before', 'partly', 'after');
const who = fc.nat(3);
const sizes = fc.array(fc.integer({ min: 20, max: 900 }), { minLength: 1, maxLength: 8 });

const step = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant('append' as const), who, sizes }) },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant('take' as const), who, count: fc.integer({ min: 1, max: 9 }) }),
  },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('done' as const), who, place: fc.nat(20) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('giveBack' as const), who, place: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('quarantine' as const), who, place: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('close' as const), who }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('kill' as const), who }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('flush' as const), who }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('killAt' as const), who, calls: fc.nat(12), manner }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('open' as const) }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

const fault = fc.record({
  do: fc.constant('fail' as const),
  who,
  operation: fc.constantFrom(...OPERATIONS),
  nth: fc.integer({ min: 1, max: 6 }),
  manner,
  lasting: fc.boolean(),
});
type Fault = typeof fault extends fc.Arbitrary<infer T> ? T : never;
const fullDisk = fc.record({ do: fc.constant('capacity' as const), free: fc.nat(4000) });
type FullDisk = typeof fullDisk extends fc.Arbitrary<infer T> ? T : never;
const powerLoss = fc.record({ do: fc.constant('powerLoss' as const), seed: fc.nat() });
type PowerLoss = typeof powerLoss extends fc.Arbitrary<infer T> ? T : never;

async function play(model: SpoolModel, step: Step | Fault | FullDisk | PowerLoss): Promise<void> {
  if (step.do === 'capacity') {
    model.disk.capacity = model.disk.used + step.free;
    model.wasFull = true;
    return;
  }
  if (step.do === 'powerLoss') {
    while (model.running[0]) await model.kill(model.running[0]);
    model.disk.losePower((what, sector) => (what.length * 31 + sector * 17 + step.seed) % 3 === 0);
    // Marks of done events are not flushed.
    model.gone.clear();
    return;
  }
  const running =
    model.running.length === 0 || (step.do === 'open' && model.running.length < 4)
      ? await model.open()
      : model.running[('who' in step ? step.who : 0) % model.running.length];
  if (!running || step.do === 'open') return;
  if (step.do === 'append') await model.append(running, step.sizes);
  else if (step.do === 'take') await model.take(running, step.count);
  else if (step.do === 'done') model.finish(running, step.place);
  else if (step.do === 'giveBack') model.giveBack(running, step.place);
  else if (step.do === 'quarantine') await model.quarantine(running, step.place);
  else if (step.do === 'close') await model.close(running);
  else if (step.do === 'kill') await model.kill(running);
  else if (step.do === 'flush') await running.spool.flush();
  else if (step.do === 'killAt') running.process.endIn = { calls: step.calls, manner: step.manner };
  else model.fail(running, step.operation, step.nth, step.manner, step.lasting);
  if (running.process.ended && model.running.includes(running)) await model.kill(running);
}

const key = fc.option(fc.constant(Buffer.alloc(32, 5)), { nil: undefined });

test('[R-851] processes that end at any call leave every acknowledged event', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), key, async (steps, key) => {
      const model = new SpoolModel('os', key);
      for (const step of steps) await play(model, step);
      await model.account();
      // A process that ends in mid-write leaves a torn tail, and nothing worse.
      expect(model.troubles.filter((what) => !/are not a frame|was removed/.test(what))).toEqual([]);
    }),
    { numRuns: 200 },
  );
});

test('[R-851] with fsync, every acknowledged event survives a loss of power', async () => {
  const any = fc.oneof({ weight: 8, arbitrary: step }, { weight: 1, arbitrary: powerLoss });
  await fc.assert(
    fc.asyncProperty(fc.array(any, { maxLength: 40 }), key, async (steps, key) => {
      const model = new SpoolModel('fsync', key);
      for (const step of steps) await play(model, step);
      while (model.running[0]) await model.kill(model.running[0]);
      model.disk.losePower((what, sector) => (what.length + sector) % 2 === 0);
      model.gone.clear();
      await model.account();
    }),
    { numRuns: 200 },
  );
});

test('[R-852] a disk that fails and fills up loses no acknowledged event and keeps no refused one', async () => {
  const any = fc.oneof(
    { weight: 5, arbitrary: step },
    { weight: 1, arbitrary: fault },
    { weight: 1, arbitrary: fullDisk },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(any, { maxLength: 40 }),
      fc.constantFrom('os' as const, 'fsync' as const),
      async (steps, durability) => {
        const model = new SpoolModel(durability, undefined);
        for (const step of steps) await play(model, step);
        for (const running of model.running) running.process.fate = () => undefined;
        model.gone.clear();
        await model.account();
      },
    ),
    { numRuns: 200 },
  );
});

test('the files of a spool are all below its directory', async () => {
  const model = new SpoolModel('os', undefined);
  await play(model, { do: 'append', who: 0, sizes: [100] });
  expect(model.disk.files('').every((file) => file.startsWith(`${ROOT}/`))).toBe(true);
  await model.account();
});
