/** The names key is replaced: the holder of the lock seals with the newest, and writes nothing under an older one. */
import fs from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { type Catalogue, CatalogueFault, resealCatalogue } from '../../src/catalogue/catalogue.js';
import { SyntheticIv } from '../../src/privacy/name-cipher.js';
import type { EventLog } from '../../src/store/contract/events.js';
import { stored } from '../records/odd-log.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { fillDirectory } from '../store/embedded/filled-directory.js';
import { catalogueIn, contentsOf, expectedOf, LEDGER, twinLog, withLog } from './made-catalogue.js';

const EVENTS =
  fc.sample(twinLog(120), { numRuns: 40, seed: 14 }).sort((a, b) => b.length - a.length)[0] ?? [];
const TARGET = 'patient-30977';
const [OLD, NEW, LATER] = [1, 2, 3].map((key) => new SyntheticIv(Buffer.alloc(32, key), key)) as [
  SyntheticIv,
  SyntheticIv,
  SyntheticIv,
];
let dataDir: string;
let directory: string;

beforeEach(async () => {
  const scratch = temporaryDirectory();
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
  dataDir = path.join(scratch, 'data');
  directory = path.join(scratch, 'catalogue');
  await fillDirectory(dataDir, [EVENTS.map(stored)], 8 << 10);
});

/** The names keys at one time: the newest, and those that it replaces. */
function withKeys<Result>(
  [newest, ...older]: readonly SyntheticIv[],
  use: (log: EventLog) => Promise<Result>,
  olderNames = (id: string) => older.find((key) => key.id === id),
): Promise<Result> {
  return withLog(dataDir, (log) =>
    use(
      Object.defineProperties(log, {
        ledgerId: { value: LEDGER },
        names: { value: newest },
        olderNames: { value: olderNames },
      }),
    ),
  );
}

function opened(names?: SyntheticIv): Catalogue {
  const catalogue = catalogueIn(directory, { names });
  onTestFinished(() => catalogue.close());
  return catalogue;
}

async function madeBy(names: SyntheticIv, through = EVENTS.length): Promise<Catalogue> {
  const catalogue = opened(names);
  await withKeys([names], (log) => catalogue.update(log, { through }));
  return catalogue;
}

/** Whether a file of the catalogue has the name, sealed with the key. */
function holds(key: SyntheticIv, name = TARGET): boolean {
  return fs
    .readdirSync(directory)
    .some((file) => fs.readFileSync(path.join(directory, file)).includes(key.seal(name)));
}

describe('[R-1338] a names key that is replaced', () => {
  test('seals all names again while the old one is there, and no byte under that remains', async () => {
    const first = await madeBy(OLD);
    const before = contentsOf(first);
    expect(holds(OLD)).toBe(true);
    await withKeys([NEW, OLD], (log) => resealCatalogue(directory, log, () => expect.unreachable()));
    expect([holds(OLD), holds(NEW)]).toEqual([false, true]);
    const second = opened(NEW);
    expect(contentsOf(second)).toEqual(before);
    expect(second.hold()).toBe(true);
  });

  test('seals them with the next update, by any process', async () => {
    const catalogue = await madeBy(OLD, 20);
    await withKeys([NEW, OLD], (log) => catalogue.update(log));
    expect([holds(OLD), holds(NEW)]).toEqual([false, true]);
    expect(contentsOf(catalogue)).toEqual(await expectedOf(dataDir, EVENTS.length));
  });

  test('is read again by an update that finds it in the file, which adds nothing under the old one', async () => {
    const [slow, other] = [await madeBy(OLD, 20), opened(OLD)];
    await withKeys([NEW, OLD], (log) => other.update(log, { through: 30 }));
    expect(slow.hold()).toBe(false);
    await withKeys([NEW], (log) => slow.update(log));
    expect([holds(OLD), holds(NEW)]).toEqual([false, true]);
    expect(contentsOf(slow)).toEqual(await expectedOf(dataDir, EVENTS.length));
  });

  test('[R-1020] is not used by a writer that has only an older one', async () => {
    const slow = await madeBy(OLD, 20);
    const other = opened(OLD);
    await withKeys([NEW, OLD], (log) => other.update(log, { through: 30 }));
    await expect(withKeys([OLD], (log) => slow.update(log))).rejects.toThrow(CatalogueFault);
    await expect(withLog(dataDir, (log) => opened().update(log))).rejects.toThrow(CatalogueFault);
    expect(holds(OLD)).toBe(false);
    expect(contentsOf(other)).toEqual(await expectedOf(dataDir, 30));
  });

  test('leads to a catalogue made from the log when the old key is missing', async () => {
    const slow = await madeBy(OLD);
    await withKeys([NEW], (log) => resealCatalogue(directory, log, () => expect.unreachable()));
    expect(holds(OLD)).toBe(false);
    await withKeys([NEW], (log) => slow.update(log));
    expect([holds(OLD), holds(NEW)]).toEqual([false, true]);
    expect(contentsOf(slow)).toEqual(await expectedOf(dataDir, EVENTS.length));
  });

  test.for([
    ['a name cannot be decrypted by the old key', NEW, LATER],
    ['the keys are an older copy', OLD, undefined],
  ] as const)('leaves no catalogue where %s, until the next update', async ([, key, older]) => {
    const old = await madeBy(key === OLD ? NEW : OLD);
    let told: unknown;
    await withKeys(
      [key],
      (log) => resealCatalogue(directory, log, (error) => (told = error)),
      () => older,
    );
    expect(told).toBeInstanceOf(CatalogueFault);
    expect(fs.readdirSync(directory)).toEqual([]);
    old.close();
    const made = await madeBy(key);
    expect(contentsOf(made)).toEqual(await expectedOf(dataDir, EVENTS.length));
    expect(holds(key === OLD ? NEW : OLD)).toBe(false);
  });

  test('does not wait for readers: what they read leaves the journal with a later update', async () => {
    const reader = await madeBy(OLD);
    expect(reader.hold()).toBe(true);
    const before = contentsOf(reader);
    const writer = opened(OLD);
    await withKeys([NEW, OLD], (log) => writer.update(log));
    expect(contentsOf(reader)).toEqual(before);
    expect([holds(OLD), writer.hasRemnants]).toEqual([true, true]);
    reader.release();
    await withKeys([NEW], (log) => writer.update(log));
    expect([holds(OLD), writer.hasRemnants]).toEqual([false, false]);
  });
});

test('[R-1020] names in the clear are sealed once encryption has begun', async () => {
  const catalogue = opened();
  await withLog(dataDir, (log) => catalogue.update(log));
  await withKeys([NEW], (log) => catalogue.update(log));
  expect(contentsOf(catalogue)).toEqual(await expectedOf(dataDir, EVENTS.length));
  const files = fs.readdirSync(directory).map((file) => fs.readFileSync(path.join(directory, file)));
  expect(files.some((bytes) => bytes.includes(TARGET))).toBe(false);
});
