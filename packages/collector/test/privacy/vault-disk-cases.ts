/** Cases of a vault of directories whose disk is full, whose process is killed or whose machine loses power. */
import { expect } from 'vitest';
import { VaultAway, type KeyVault, type RecordName } from '../../src/privacy/key-vault.js';
import { random, runs } from '../../../../test/property-runs.js';
import type { MemoryDisk } from '../store/embedded/memory-disk.js';
import { A, B, begun, expectEverywhere, generations, hasMirrors, put } from './vault-cases.js';
import type { VaultCase, VaultPlace, VaultSubject } from './vault-conformance.js';
import { bucket, epochKey, epochName, piecesOf, storedGeneration, the } from './vault-records.js';

const hasDisks = (subject: VaultSubject) => subject.hasDisks;

function expectGone(disks: readonly MemoryDisk[], bytes: Buffer): void {
  const found = disks.flatMap((disk) => piecesOf(bytes).filter((piece) => disk.holds(piece)));
  expect(found.length, 'pieces of the old bytes').toBe(0);
}

function disksOf(place: VaultPlace): MemoryDisk[] {
  return place.copies.flatMap(({ disk }) => disk ?? []);
}

/** The disks as they are found after a crash before each call of some work, and after the last one. */
async function crashes(
  disks: readonly MemoryDisk[],
  work: () => Promise<unknown>,
): Promise<(readonly MemoryDisk[])[]> {
  const found: (readonly MemoryDisk[])[] = [];
  const look = () => found.push(disks.map((disk) => disk.afterKill()));
  for (const disk of disks) disk.onCall = look;
  await work();
  for (const disk of disks) disk.onCall = () => undefined;
  look();
  return found;
}

/** What a loss of power may leave: no unflushed sector and name, all of them, or any. */
function powerLosses(disks: readonly MemoryDisk[]): (readonly MemoryDisk[])[] {
  const picks = [
    () => false,
    () => true,
    ...Array.from({ length: runs(40, 6) }, () => () => random.below(2) === 0),
  ];
  return picks.map((pick) => disks.map((disk) => disk.afterPowerLoss(pick)));
}

/** The one content that a vault on these disks has of a record. */
async function contentOn(
  place: VaultPlace,
  disks: readonly MemoryDisk[],
  name: RecordName,
): Promise<Buffer[]> {
  const after = place.onDisks?.(disks);
  if (after === undefined) throw new Error('the place has no disks');
  const vault = await after.open();
  await vault.refresh();
  const found = vault.read(name);
  await after.close();
  return found;
}

/** After a crash at any call there are the old bytes or the new ones. */
async function expectOldOrNew(
  place: VaultPlace,
  name: RecordName,
  [old, next]: readonly [Buffer | undefined, Buffer | undefined],
  images: readonly (readonly MemoryDisk[])[],
): Promise<void> {
  const allowed = [old, next].map((bytes) => bytes?.toString('hex'));
  for (const disks of images) {
    const contents = await contentOn(place, disks, name);
    const found = contents.length === 0 ? [undefined] : contents.map((bytes) => bytes.toString('hex'));
    for (const each of found) expect(allowed.includes(each), 'the old bytes or the new ones').toBe(true);
  }
}

/** A copy gets neither a write nor an erasure, and both report it. */
async function expectLeftOut(place: VaultPlace, vault: KeyVault, i: number): Promise<void> {
  const copy = the(vault.copies[i]);
  const [state, left] = [bucket(A, { generation: 1 }), bucket(A, { generation: 2 })];
  expect(await put(vault, state, 0)).toBe('written');
  expect([...vault.unwritten.keys()]).toEqual([copy]);
  expect(await vault.erase(left.name, left.bytes, 1)).toEqual([copy]);
  expect(await the(place.copies[i]).get(state.name)).toBeUndefined();
}

export const DISK_CASES: Readonly<Record<string, VaultCase>> = {
  'a mirror with the keys of another log is not overwritten, and is named': {
    applies: (subject) => hasMirrors(subject) && hasDisks(subject),
    async run(place) {
      const vault = await begun(place);
      const foreign = epochKey(1, 1, 'b2'.repeat(16));
      await the(place.copies[1]).put(foreign.name, foreign.bytes);
      await expectLeftOut(place, vault, 1);
      expect(await the(place.copies[1]).get(foreign.name)).toEqual(foreign.bytes);
    },
  },
  'a mirror that had keys and has none is not filled, and is named': {
    applies: (subject) => hasMirrors(subject) && hasDisks(subject),
    async run(place) {
      const vault = await begun(place);
      await generations(vault, B, 1);
      for (const name of [epochName(1), bucket(B, { generation: 1 }).name])
        await the(place.copies[1]).put(name, undefined);
      await expectLeftOut(place, vault, 1);
    },
  },
  'a full disk of a mirror is named by an erasure; one of the first copy ends a write': {
    applies: (subject) => hasMirrors(subject) && hasDisks(subject),
    async run(place) {
      const vault = await begun(place);
      await generations(vault, A, 1);
      const [first, mirror] = disksOf(place);
      the(mirror).capacity = 0;
      const next = bucket(A, { generation: 2 });
      expect(await put(vault, next, 1)).toBe('written');
      const left = bucket(A, { generation: 3 });
      expect(await vault.erase(left.name, left.bytes, 2)).toEqual([vault.copies[1]]);
      the(mirror).capacity = Infinity;
      the(first).capacity = 0;
      await expect(put(vault, bucket(B, { generation: 1 }), 0)).rejects.toThrow(VaultAway);
      the(first).capacity = Infinity;
      expect(await vault.erase(left.name, left.bytes, 3)).toEqual([]);
      await expectEverywhere(place, left.name, left.bytes);
    },
  },
  'on a full disk a write fails and an erasure names the copy; both leave what was there': {
    applies: (subject) => hasDisks(subject) && subject.copies === 1,
    async run(place) {
      const vault = await begun(place);
      const [old] = await generations(vault, A, 1);
      const next = bucket(A, { generation: 2 });
      const [disk] = disksOf(place);
      the(disk).capacity = 0;
      await expect(put(vault, next, 1)).rejects.toThrow(VaultAway);
      await expect(vault.prove()).rejects.toThrow(VaultAway);
      await expect(put(vault, bucket(B, { generation: 1 }), 0)).rejects.toThrow(VaultAway);
      expect(await vault.erase(next.name, next.bytes, 1)).toEqual(vault.copies);
      expect(vault.read(next.name)).toEqual([old]);
      the(disk).capacity = Infinity;
      expect(await put(vault, next, 1)).toBe('written');
    },
  },
  'a kill or a loss of power at any call of an erasure leaves the old bytes or the new ones': {
    applies: hasDisks,
    async run(place) {
      const vault = await begun(place);
      const [old] = await generations(vault, A, 1);
      const left = bucket(A, { generation: 2, size: 700 });
      const images = await crashes(disksOf(place), async () =>
        expect(await vault.erase(left.name, left.bytes, 1)).toEqual([]),
      );
      expect(images.length).toBeGreaterThan(5);
      await expectOldOrNew(place, left.name, [old, left.bytes], images);
      for (const disks of images)
        await expectOldOrNew(place, left.name, [old, left.bytes], powerLosses(disks));
      for (const disks of powerLosses(images.at(-1) ?? []))
        expect(await contentOn(place, disks, left.name)).toEqual([left.bytes]);
    },
  },
  'a kill or a loss of power at any call of a write leaves the old bytes or the new ones': {
    applies: hasDisks,
    async run(place) {
      const vault = await begun(place);
      let old: Buffer | undefined;
      for (const generation of [1, 2]) {
        const { name, bytes } = bucket(A, { generation });
        const images = await crashes(disksOf(place), async () =>
          expect(await vault.write(name, bytes, generation - 1)).toBe('written'),
        );
        for (const disks of images)
          await expectOldOrNew(place, name, [old, bytes], [disks, ...powerLosses(disks)]);
        for (const disks of powerLosses(images.at(-1) ?? []))
          expect(await contentOn(place, disks, name)).toEqual([bytes]);
        old = bytes;
      }
    },
  },
  'an erasure that returned leaves none of the old bytes in any file, with a name or without': {
    applies: hasDisks,
    async run(place) {
      const vault = await begun(place);
      const olds = await generations(vault, A, 2);
      const left = bucket(A, { generation: 3, size: 300 });
      expect(await vault.erase(left.name, left.bytes, 2)).toEqual([]);
      for (const old of olds) expectGone(disksOf(place), old);
      expect(await vault.erase(left.name, undefined, 3)).toEqual([]);
      expectGone(disksOf(place), left.bytes);
    },
  },
  'an erasure that was killed at any call and done again leaves none of the old bytes under any name': {
    applies: hasDisks,
    async run(place) {
      const vault = await begun(place);
      const [old] = await generations(vault, A, 1);
      for (const left of [
        bucket(A, { generation: 2, size: 300 }),
        { ...bucket(A, { generation: 1 }), bytes: undefined },
      ]) {
        const work = () => vault.erase(left.name, left.bytes, 1);
        for (const disks of await crashes(disksOf(place), work)) {
          // A killed process has no unnamed files any more: the key of their epoch ends.
          const after = the(place.onDisks)(disks.map((disk) => disk.afterPowerLoss(() => true)));
          const next = await after.open();
          expect(await next.erase(left.name, left.bytes, storedGeneration(next, left.name))).toEqual([]);
          expectGone(disksOf(after), the(old));
          await after.close();
        }
        if (left.bytes === undefined) continue;
        expect(await vault.erase(left.name, undefined, 2)).toEqual([]);
        expect(await vault.write(left.name, the(old), 0)).toBe('written');
      }
    },
  },
  'a write that was killed at any call leaves no file that an erasure does not reach': {
    applies: hasDisks,
    async run(place) {
      const vault = await begun(place);
      const [old] = await generations(vault, A, 1);
      const { name, bytes } = bucket(A, { generation: 2 });
      for (const disks of await crashes(disksOf(place), () => vault.write(name, bytes, 1))) {
        const after = the(place.onDisks)(disks.map((disk) => disk.afterPowerLoss(() => true)));
        const next = await after.open();
        const left = bucket(A, { generation: 3, size: 300 });
        expect(await next.erase(name, left.bytes, storedGeneration(next, name))).toEqual([]);
        for (const each of [the(old), bytes]) expectGone(disksOf(after), each);
        await after.close();
      }
    },
  },
};
