/** The promises of payload keys over every vault (privacy/payload-keys.ts), after any change of its copies. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { KekFault, type KeyEncryptionKey } from '../../src/privacy/key-encryption-key.js';
import { PayloadKeys } from '../../src/privacy/payload-keys.js';
import { SequenceSet } from '../../src/privacy/sequence-set.js';
import { KeyReader } from '../../src/privacy/stored-keys.js';
import { random, type runs as countedRuns } from '../../../../test/property-runs.js';
import type { MemoryDisk } from '../store/embedded/memory-disk.js';
import type { VaultPlace, VaultSubject } from './vault-conformance.js';
import { LEDGER, the } from './vault-records.js';

/** Of a test, which needs no secret. */
const KEK: KeyEncryptionKey = {
  wrap: (key) => Promise.resolve(Buffer.from(key).reverse().toString('base64')),
  unwrap: (wrapped) => Buffer.from(wrapped, 'base64').reverse(),
};
const BUCKET_PLACES = 65_536;

interface Place {
  readonly tag: number;
  readonly organisation: string;
  readonly sequence: number;
}
interface Given extends Place {
  readonly key: string;
}

async function openKeys(place: VaultPlace, kek = KEK): Promise<PayloadKeys> {
  const vault = await place.open();
  return PayloadKeys.open({ vault, kek, ledgerId: LEDGER, onTrouble: () => undefined });
}

function give(keys: PayloadKeys, organisation: string, sequence: number): Given {
  return { organisation, sequence, ...keys.keyFor(organisation, sequence) };
}

function destroy(keys: PayloadKeys, { tag, organisation, sequence }: Place): Promise<string[]> {
  return keys.destroy([{ tag, organisation, sequences: SequenceSet.of([sequence]) }]);
}

/** As a process that opens the vault now finds the keys. */
async function readerOf(place: VaultPlace): Promise<KeyReader> {
  return the(KeyReader.open(await place.open(), KEK));
}

function expectKept(keys: KeyReader, given: Iterable<Given>): void {
  for (const { tag, organisation, sequence, key } of given)
    expect(keys.keyOf(tag, organisation, sequence)).toBe(key);
}

function expectDestroyed(keys: KeyReader, places: Iterable<Place>): void {
  for (const { tag, organisation, sequence } of places)
    expect(keys.keyOf(tag, organisation, sequence)).toBeUndefined();
}

/** The promises so far. */
class Promises {
  kept: readonly Given[] = [];
  destroyed: readonly Given[] = [];
  hold: { readonly action: string; readonly key: string } | undefined;
  releasedHold: string | undefined;

  copy(): Promises {
    return Object.assign(new Promises(), this);
  }

  expectOf(keys: KeyReader): void {
    expectKept(keys, this.kept);
    expectDestroyed(keys, this.destroyed);
    if (this.hold !== undefined)
      expect(keys.holdKey(this.hold.action)?.export().toString('hex')).toBe(this.hold.key);
    if (this.releasedHold !== undefined) expect(keys.holdKey(this.releasedHold)).toBeUndefined();
  }
}

/** A first start, and all later operations on keys. */
async function live(place: VaultPlace, promises: Promises): Promise<void> {
  const keys = await openKeys(place);
  const given = [1, 2, 3].map((sequence) => give(keys, 'a', sequence));
  given.push(give(keys, 'b', 4));
  await keys.flush();
  promises.kept = given;
  const [first, second, ...others] = given;
  promises.kept = [the(second), ...others];
  expect(await destroy(keys, the(first))).toEqual([]);
  promises.destroyed = [the(first)];
  const action = randomUUID();
  const hold = await keys.newHoldKey(action);
  promises.hold = { action, key: hold.export().toString('hex') };
  expect(await keys.rotate()).toEqual([]);
  const late = give(keys, 'a', BUCKET_PLACES + 10);
  await keys.flush();
  promises.kept = [...others, late];
  expect(await destroy(keys, the(second))).toEqual([]);
  promises.destroyed = [the(first), the(second)];
  promises.hold = undefined;
  expect(await keys.destroyHold(action)).toEqual([]);
  promises.releasedHold = action;
  expect(await keys.renewNames()).toEqual([]);
  expect(await keys.endOldNames()).toEqual([]);
}

/** On each of these disks the promises are kept, and all operations on keys work. */
async function expectContinued(
  place: VaultPlace,
  disks: readonly MemoryDisk[],
  promises: Promises,
): Promise<void> {
  const after = the(place.onDisks)(disks);
  const keys = await openKeys(after);
  const late = give(keys, 'c', 3 * BUCKET_PLACES);
  await keys.flush();
  expect(await (keys.isRotating ? keys.finishRotation() : keys.rotate())).toEqual([]);
  const reader = await readerOf(after);
  promises.expectOf(reader);
  expectKept(reader, [late]);
  // Each copy alone, too.
  for (const one of after.copies) {
    const away = after.copies.filter((copy) => copy !== one);
    const backs = await Promise.all(away.map((copy) => copy.leave()));
    promises.expectOf(await readerOf(after));
    for (const back of backs) await back();
  }
  await after.close();
}

/** @param runs of property-runs.js: a campaign has the files that import it. */
export function keysConformance(subject: VaultSubject, runs: typeof countedRuns): void {
  const using = (name: string, run: (place: VaultPlace) => Promise<void>, timeout?: number) =>
    test(name, { ...(timeout && { timeout }) }, async () => {
      const place = await subject.makePlace();
      try {
        await run(place);
      } finally {
        await place.close();
      }
    });

  describe(`keys of payloads in ${subject.name}`, () => {
    using('[R-1325] flushed keys open for every process, destroyed ones for none', async (place) => {
      const promises = new Promises();
      await live(place, promises);
      promises.expectOf(await readerOf(place));
    });

    using('[R-1325] two writers neither lose a key of the other, nor restore one', async (place) => {
      const writers = [await openKeys(place), await openKeys(place)] as const;
      const kept = new Map<string, Given>();
      const destroyed: Given[] = [];
      const sequences = [0, 10 * BUCKET_PLACES];
      for (let step = 0; step < runs(300, 40); step++) {
        const i = random.below(2);
        const [one, other] = i === 0 ? writers : [writers[1], writers[0]];
        const sequence = (sequences[i] = the(sequences[i]) + (random.chance(20) ? BUCKET_PLACES : 1));
        const given = give(one, random.of(['a', 'b', `c${step}`]), sequence);
        const work: Promise<unknown>[] = [one.flush()];
        if (random.chance(4)) work.push(other.flush());
        if (random.chance(4)) work.push(other.refresh());
        const victim = [...kept].find(() => random.chance(8));
        if (victim !== undefined) {
          kept.delete(victim[0]);
          destroyed.push(victim[1]);
          work.push(destroy(other, victim[1]));
        }
        if (random.chance(15)) work.push(other.rotate());
        await Promise.all(work);
        kept.set(String(step), given);
      }
      const reader = await readerOf(place);
      expectKept(reader, kept.values());
      expectDestroyed(reader, destroyed);
    });

    using('[R-1325] a state from before a rotation opens no destroyed payload', async (place) => {
      const keys = await openKeys(place);
      const [victim, other] = [give(keys, 'a', 1), give(keys, 'a', 2)];
      await keys.flush();
      const [name] = (await place.open()).list('buckets');
      const olds = await Promise.all(place.copies.map((copy) => copy.get(the(name))));
      expect(await destroy(keys, victim)).toEqual([]);
      expect(await keys.rotate()).toEqual([]);
      for (const [i, copy] of place.copies.entries()) await copy.put(the(name), olds[i]);
      const reader = await readerOf(place);
      expect(() => reader.keyOf(victim.tag, 'a', 1)).toThrow('epoch');
      expect(() => reader.keyOf(other.tag, 'a', 2)).toThrow('epoch');
    });

    using('[R-1325] buckets in each other’s place give no key, and none of another event', async (place) => {
      const keys = await openKeys(place);
      const given = [give(keys, 'a', 1), give(keys, 'a', BUCKET_PLACES + 1)];
      await keys.flush();
      const names = (await place.open()).list('buckets');
      const [a, b] = await Promise.all(names.map((name) => the(place.copies[0]).get(name)));
      for (const copy of place.copies) {
        await copy.put(the(names[0]), b);
        await copy.put(the(names[1]), a);
      }
      expectDestroyed(await readerOf(place), given);
    });

    if (subject.copies > 2)
      using('[R-1325] a copy that was missing during an erasure restores no key', async (place) => {
        const keys = await openKeys(place);
        const given = Array.from({ length: 9 }, (_, i) => give(keys, 'a', i + 1));
        await keys.flush();
        const promises = new Promises();
        for (const [i, copy] of place.copies.entries()) {
          const back = await copy.leave();
          const victim = the(given[i]);
          expect(await destroy(keys, victim)).toHaveLength(1);
          await back();
          // Before anything is repaired, and after an organisation has come to the bucket.
          promises.destroyed = given.slice(0, i + 1);
          promises.kept = given.slice(3);
          promises.expectOf(await readerOf(place));
          give(keys, `c${i}`, 20 + i);
          await keys.flush();
          promises.expectOf(await readerOf(place));
          expect(await destroy(keys, victim)).toEqual([]);
        }
        for (const one of place.copies) {
          const away = place.copies.filter((copy) => copy !== one);
          const backs = await Promise.all(away.map((copy) => copy.leave()));
          promises.expectOf(await readerOf(place));
          for (const back of backs) await back();
        }
      });

    if (subject.hasBackups)
      using(
        '[R-1335] keys that a restored database lost are back, also after the KEK was missing',
        async (place) => {
          let isAway = false;
          const unwrap = (wrapped: string) => {
            if (isAway) throw new KekFault('the program is away');
            return KEK.unwrap(wrapped);
          };
          const [one, other] = [await openKeys(place), await openKeys(place, { ...KEK, unwrap })];
          const given = [give(one, 'a', 1), give(one, 'a', 2), give(one, 'a', 3)];
          await one.flush();
          const [victim, ...kept] = given;
          const back = await the(place.backUp)();
          expect(await destroy(one, the(victim))).toEqual([]);
          expect(await one.rotate()).toEqual([]);
          const late = give(one, 'b', 4);
          await one.flush();
          // The other has read all of it and opened nothing; then only it has it.
          await other.refresh();
          await back();
          isAway = true;
          for (let i = 0; i < 2; i++) await expect(other.refresh()).rejects.toThrow(KekFault);
          isAway = false;
          await other.refresh();
          expect(await other.finishRotation()).toEqual([]);
          const reader = await readerOf(place);
          expectDestroyed(reader, [the(victim)]);
          expectKept(reader, [...kept, late]);
        },
      );

    if (subject.hasDisks)
      using(
        '[R-1325] a kill or a loss of power at any call of a first start, a flush, an erasure or a rotation keeps every promise',
        async (place) => {
          const promises = new Promises();
          const found: (readonly [readonly MemoryDisk[], Promises])[] = [];
          const disks = place.copies.map(({ disk }) => the(disk));
          for (const disk of disks)
            disk.onCall = (call) => {
              if (call === 'look' || call === 'read' || call === 'size' || call === 'list') return;
              found.push([disks.map((each) => each.afterKill()), promises.copy()]);
            };
          await live(place, promises);
          for (const disk of disks) disk.onCall = () => undefined;
          found.push([disks.map((each) => each.afterKill()), promises.copy()]);
          // Of several copies some of them; a campaign has all.
          const every = subject.copies === 1 ? 1 : runs(1, 10);
          const first = random.below(every);
          for (const [image, promised] of found.filter((_, i) => i % every === first)) {
            await expectContinued(
              place,
              image.map((disk) => disk.afterKill()),
              promised,
            );
            for (let i = 0; i < runs(10, 1); i++) {
              const pick = () => random.below(2) === 0;
              await expectContinued(
                place,
                image.map((disk) => disk.afterPowerLoss(pick)),
                promised,
              );
            }
            await expectContinued(
              place,
              image.map((disk) => disk.afterPowerLoss()),
              promised,
            );
          }
        },
        runs(24 * 3_600_000, 60_000),
      );
  });
}
