/** The cases that every vault of keys must pass, by name; those of disks are in vault-disk-cases.ts. */
import { expect } from 'vitest';
import { VaultAway, type KeyVault, type RecordName } from '../../src/privacy/key-vault.js';
import type { VaultCase, VaultPlace, VaultSubject } from './vault-conformance.js';
import { bucket, epochKey, epochName, namesKeys, storedGeneration, the } from './vault-records.js';

export const hasMirrors = ({ copies }: VaultSubject) => copies > 2;
const hasBackups = (subject: VaultSubject) => subject.hasBackups;

/** The first places of two buckets. */
export const A = 1;
export const B = 1000;

/** A vault with an epoch. */
export async function begun(place: VaultPlace): Promise<KeyVault> {
  const vault = await place.open();
  expect(await put(vault, epochKey(1), 0)).toBe('written');
  return vault;
}

export function put(vault: KeyVault, { name, bytes }: { name: string; bytes: Buffer }, after: number) {
  return vault.write(name, bytes, after);
}

/** On return the record has gone through these generations. @returns them. */
export async function generations(vault: KeyVault, first: number, count: number): Promise<Buffer[]> {
  const made: Buffer[] = [];
  for (let generation = 1; generation <= count; generation++) {
    const record = bucket(first, { generation });
    expect(await put(vault, record, generation - 1)).toBe('written');
    made.push(record.bytes);
  }
  return made;
}

/** What every copy has. */
async function held(place: VaultPlace, name: RecordName): Promise<(Buffer | undefined)[]> {
  return Promise.all(place.copies.map((copy) => copy.get(name)));
}

export async function expectEverywhere(
  place: VaultPlace,
  name: RecordName,
  bytes: Buffer | undefined,
): Promise<void> {
  expect(await held(place, name)).toEqual(place.copies.map(() => bytes));
}

function orStale(error: unknown): 'stale' {
  if (error instanceof VaultAway) return 'stale';
  throw error;
}

export const RECORD_CASES: Readonly<Record<string, VaultCase>> = {
  'a missing record has generation 0': {
    async run(place) {
      const vault = await begun(place);
      const first = bucket(A, { generation: 1 });
      expect(await put(vault, bucket(A, { generation: 2 }), 1)).toBe('stale');
      expect(vault.read(first.name)).toEqual([]);
      expect(await put(vault, first, 0)).toBe('written');
      expect(await put(vault, bucket(A, { generation: 1 }), 0)).toBe('stale');
      expect(vault.read(first.name)).toEqual([first.bytes]);
    },
  },
  'of two writers that replace one generation exactly one has written': {
    async run(place) {
      const [one, other] = [await begun(place), await place.open()];
      const [old] = await generations(one, A, 1);
      await other.refresh();
      const { name } = bucket(A, { generation: 1 });
      expect(other.read(name)).toEqual([old]);
      const records = [one, other].map(() => bucket(A, { generation: 2 }).bytes);
      const outcomes = await Promise.all(
        [one, other].map((vault, i) => vault.write(name, the(records[i]), 1)),
      );
      expect(outcomes.toSorted()).toEqual(['stale', 'written']);
      const winner = the(records[outcomes.indexOf('written')]);
      await expectEverywhere(place, name, winner);
      for (const vault of [one, other]) {
        await vault.refresh();
        expect(vault.read(name)).toEqual([winner]);
      }
      const loser = outcomes[0] === 'stale' ? one : other;
      expect(await put(loser, bucket(A, { generation: 3 }), 2)).toBe('written');
    },
  },
  'a writer that has not refreshed since a write by another is stale': {
    async run(place) {
      const [one, other] = [await begun(place), await place.open()];
      const [old, next] = [bucket(A, { generation: 1 }), bucket(A, { generation: 2 })];
      expect(await put(one, old, 0)).toBe('written');
      await other.refresh();
      expect(await put(one, next, 1)).toBe('written');
      expect(await put(other, bucket(A, { generation: 2 }), 1)).toBe('stale');
      expect(await other.erase(old.name, bucket(A, { generation: 2 }).bytes, 1)).toBe('stale');
      expect(await other.erase(old.name, undefined, 1)).toBe('stale');
      await expectEverywhere(place, old.name, next.bytes);
    },
  },
  'a repeated write is written': {
    async run(place) {
      const vault = await begun(place);
      const record = bucket(A, { generation: 1 });
      for (let i = 0; i < 2; i++) expect(await put(vault, record, 0)).toBe('written');
      await expectEverywhere(place, record.name, record.bytes);
      const next = bucket(A, { generation: 2 });
      for (let i = 0; i < 2; i++) expect(await put(vault, next, 1)).toBe('written');
      await expectEverywhere(place, record.name, next.bytes);
    },
  },
  'a list has the names within a directory, sorted': {
    async run(place) {
      const vault = await begun(place);
      for (const record of [
        bucket(B, { generation: 1 }),
        bucket(A, { generation: 1 }),
        namesKeys({ generation: 1 }),
      ])
        expect(await put(vault, record, 0)).toBe('written');
      const names = [A, B].map((first) => bucket(first, { generation: 1 }).name);
      expect(vault.list('buckets')).toEqual(names);
      expect(vault.list('epochs')).toEqual([epochName(1)]);
      expect(vault.list('holds')).toEqual([]);
    },
  },
  'an erased record is gone for every process': {
    async run(place) {
      const [vault, other] = [await begun(place), await place.open()];
      const record = bucket(A, { generation: 1 });
      expect(await put(vault, record, 0)).toBe('written');
      await other.refresh();
      for (let i = 0; i < 2; i++) expect(await vault.erase(record.name, undefined, 1)).toEqual([]);
      await other.refresh();
      for (const each of [vault, other]) {
        expect(each.read(record.name)).toEqual([]);
        expect(each.list('buckets')).toEqual([]);
      }
      await expectEverywhere(place, record.name, undefined);
      expect(await put(other, record, 0)).toBe('written');
      expect(other.list('buckets')).toEqual([record.name]);
    },
  },
  'an erasure that leaves a part replaces the record, and may be repeated': {
    async run(place) {
      const vault = await begun(place);
      await generations(vault, A, 1);
      const left = bucket(A, { generation: 2, size: 300 });
      for (let i = 0; i < 2; i++) expect(await vault.erase(left.name, left.bytes, 1)).toEqual([]);
      expect(vault.read(left.name)).toEqual([left.bytes]);
      await expectEverywhere(place, left.name, left.bytes);
    },
  },
  'a write of a state under an erased epoch is stale': {
    async run(place) {
      const [vault, other] = [await begun(place), await place.open()];
      expect(await put(vault, epochKey(2), 0)).toBe('written');
      expect(await vault.erase(epochName(1), undefined, 1)).toEqual([]);
      const [late, none] = [bucket(A, { generation: 1, epoch: 1 }), namesKeys({ generation: 1, epoch: 3 })];
      for (const each of [vault, other]) {
        expect(await put(each, late, 0)).toBe('stale');
        expect(await put(each, none, 0)).toBe('stale');
      }
      await expectEverywhere(place, late.name, undefined);
      await expectEverywhere(place, none.name, undefined);
      const under2 = bucket(A, { generation: 1, epoch: 2 });
      expect(await put(vault, under2, 0)).toBe('written');
      expect(await vault.erase(late.name, bucket(A, { generation: 2, epoch: 1 }).bytes, 1)).toBe('stale');
      await expectEverywhere(place, late.name, under2.bytes);
    },
  },
  'an epoch is not erased while a state is under it': {
    async run(place) {
      const [vault, other] = [await begun(place), await place.open()];
      const [states, names] = [bucket(A, { generation: 1 }), namesKeys({ generation: 1 })];
      for (const record of [states, names]) expect(await put(vault, record, 0)).toBe('written');
      expect(await put(vault, epochKey(2), 0)).toBe('written');
      await other.refresh();
      for (const record of [bucket(A, { generation: 2, epoch: 2 }), namesKeys({ generation: 2, epoch: 2 })]) {
        expect(await other.erase(epochName(1), undefined, 1)).toBe('stale');
        expect(await vault.erase(epochName(1), undefined, 1)).toBe('stale');
        expect(await vault.erase(record.name, record.bytes, 1)).toEqual([]);
      }
      await other.refresh();
      expect(await other.erase(epochName(1), undefined, 1)).toEqual([]);
      await expectEverywhere(place, epochName(1), undefined);
    },
  },
  'an epoch that ends while another writes under it leaves no state without its key': {
    async run(place) {
      const [one, other] = [await begun(place), await place.open()];
      expect(await put(one, epochKey(2), 0)).toBe('written');
      await other.refresh();
      for (let i = 0; i < 4; i++) {
        const state = bucket(A + i, { generation: 1, epoch: 1 });
        // Of several copies one may still have the epoch, and the next one not.
        const [ended, written] = await Promise.all([
          one.erase(epochName(1), undefined, 1),
          put(other, state, 0).catch(orStale),
        ]);
        const last = await place.open();
        const isUnderIt = last.read(state.name).length > 0;
        const isThere = last.read(epochName(1)).length > 0;
        expect([isUnderIt && !isThere, written === 'written' && !isUnderIt]).toEqual([false, false]);
        expect(ended.length === 0 && isThere).toBe(false);
        if (isUnderIt) expect(await last.erase(state.name, undefined, 1)).toEqual([]);
        if (!isThere) expect(await put(last, epochKey(1), 0)).toBe('written');
        for (const each of [one, other]) await each.refresh();
      }
    },
  },
  "a key state under another record's name is not sound": {
    async run(place) {
      const vault = await begun(place);
      const [a, b] = [bucket(A, { generation: 1 }), bucket(B, { generation: 1 })];
      for (const record of [a, b]) expect(await put(vault, record, 0)).toBe('written');
      for (const copy of place.copies) {
        await copy.put(a.name, b.bytes);
        await copy.put(b.name, a.bytes);
      }
      await vault.refresh();
      for (const each of [vault, await place.open()])
        for (const { name } of [a, b]) expect(each.read(name)).toEqual([]);
    },
  },
  'a state that is damaged or cut is not sound': {
    async run(place) {
      const vault = await begun(place);
      const { name, bytes } = bucket(A, { generation: 1 });
      expect(await put(vault, { name, bytes }, 0)).toBe('written');
      const spoilt = Buffer.from(bytes);
      spoilt.writeUInt8(spoilt.readUInt8(90) ^ 1, 90);
      for (const bad of [
        spoilt,
        bytes.subarray(0, bytes.length - 1),
        bytes.subarray(0, 60),
        Buffer.alloc(0),
      ]) {
        for (const copy of place.copies) await copy.put(name, bad);
        expect((await place.open()).read(name)).toEqual([]);
      }
    },
  },
  'a refresh brings what others have written and erased': {
    async run(place) {
      const [one, other] = [await begun(place), await place.open()];
      const [first] = await generations(one, A, 1);
      await generations(one, B, 1);
      expect((await other.refresh()).size).toBe(0);
      const [a, b] = [bucket(A, { generation: 2 }), bucket(B, { generation: 1 })];
      expect(other.read(a.name)).toEqual([first]);
      expect(await put(one, a, 1)).toBe('written');
      expect(await one.erase(b.name, undefined, 1)).toEqual([]);
      expect((await other.refresh()).size).toBe(0);
      expect([other.read(a.name), other.read(b.name)]).toEqual([[a.bytes], []]);
    },
  },
  'without a reachable copy nothing is written, and with the copies back all works again': {
    async run(place) {
      const vault = await begun(place);
      await generations(vault, A, 1);
      const back = await Promise.all(place.copies.map((copy) => copy.leave()));
      const next = bucket(A, { generation: 2 });
      await expect(put(vault, next, 1)).rejects.toThrow(VaultAway);
      await expect(vault.prove()).rejects.toThrow(VaultAway);
      expect(await vault.erase(next.name, next.bytes, 1)).toEqual(vault.copies);
      const read = async () => {
        await vault.refresh();
        return vault.read(next.name);
      };
      await expect(read()).rejects.toThrow(VaultAway);
      for (const each of back) await each();
      await vault.refresh();
      await vault.prove();
      expect(await vault.erase(next.name, next.bytes, 1)).toEqual([]);
      await expectEverywhere(place, next.name, next.bytes);
    },
  },
  'a write needs the first copy and another one': {
    applies: hasMirrors,
    async run(place) {
      const vault = await begun(place);
      const [first, second, third] = place.copies;
      const { name } = bucket(A, { generation: 1 });
      const backs = [await the(second).leave()];
      const one = bucket(A, { generation: 1 });
      expect(await put(vault, one, 0)).toBe('written');
      expect(await the(first).get(name)).toEqual(one.bytes);
      expect(await the(third).get(name)).toEqual(one.bytes);
      backs.push(await the(third).leave());
      await expect(put(vault, bucket(A, { generation: 2 }), 1)).rejects.toThrow(VaultAway);
      for (const back of backs) await back();
      const firstBack = await the(first).leave();
      await expect(put(vault, bucket(B, { generation: 1 }), 0)).rejects.toThrow(VaultAway);
      await firstBack();
    },
  },
  'a write that reached too few copies is repeated': {
    applies: hasMirrors,
    async run(place) {
      const vault = await begun(place);
      await generations(vault, A, 1);
      const next = bucket(A, { generation: 2 });
      for (const away of [[1, 2], [0]]) {
        const backs = await Promise.all(away.map((i) => the(place.copies[i]).leave()));
        await expect(put(vault, next, 1)).rejects.toThrow(VaultAway);
        for (const back of backs) await back();
      }
      expect(await put(vault, next, 1)).toBe('written');
      await expectEverywhere(place, next.name, next.bytes);
    },
  },
  'a mirror two generations behind is returned with the others, and gets the next write': {
    applies: hasMirrors,
    async run(place) {
      const vault = await begun(place);
      const [old, , newest] = await generations(vault, A, 3);
      const next = bucket(A, { generation: 4 });
      await the(place.copies[2]).put(next.name, old);
      const again = await place.open();
      expect(again.read(next.name)).toEqual([newest, old]);
      expect(await put(again, bucket(A, { generation: 2 }), 1)).toBe('stale');
      expect(await put(again, next, 3)).toBe('written');
      await expectEverywhere(place, next.name, next.bytes);
    },
  },
  'a mirror that is behind gets what the others have': {
    applies: hasMirrors,
    async run(place) {
      const vault = await begun(place);
      const [old, newest] = await generations(vault, A, 2);
      const { name } = bucket(A, { generation: 2 });
      for (const bytes of [old, undefined]) {
        await the(place.copies[1]).put(name, bytes);
        expect(await vault.write(name, the(newest), 2)).toBe('written');
        await expectEverywhere(place, name, newest);
        await the(place.copies[2]).put(name, bytes);
        expect(await vault.erase(name, newest, 2)).toEqual([]);
        await expectEverywhere(place, name, newest);
      }
    },
  },
  'a mirror one generation ahead is not overwritten by a write that does not know it': {
    applies: hasMirrors,
    async run(place) {
      const vault = await begun(place);
      const [old] = await generations(vault, A, 1);
      const ahead = bucket(A, { generation: 2 });
      await the(place.copies[1]).put(ahead.name, ahead.bytes);
      expect(vault.read(ahead.name)).toEqual([old, ahead.bytes]);
      expect(await put(vault, bucket(A, { generation: 2 }), 1)).toBe('stale');
      expect(await vault.erase(ahead.name, bucket(A, { generation: 2 }).bytes, 1)).toBe('stale');
      expect(await held(place, ahead.name)).toEqual([old, ahead.bytes, old]);
      const merged = bucket(A, { generation: 3 });
      expect(await vault.erase(ahead.name, merged.bytes, 2)).toEqual([]);
      await expectEverywhere(place, ahead.name, merged.bytes);
    },
  },
  'an erasure names an unreachable copy, whose old bytes are later returned with the others': {
    applies: hasMirrors,
    async run(place) {
      for (const away of [0, 1, 2]) {
        const vault = away === 0 ? await begun(place) : await place.open();
        const first = B * (away + 1);
        const [old] = await generations(vault, first, 1);
        const back = await the(place.copies[away]).leave();
        const left = bucket(first, { generation: 2, size: 300 });
        expect(await vault.erase(left.name, left.bytes, 1)).toEqual([vault.copies[away]]);
        await back();
        // A reader sees both, and merges them: from one alone the key would be restored.
        const found = (await place.open()).read(left.name);
        expect(found).toHaveLength(2);
        expect(found).toEqual(expect.arrayContaining([old, left.bytes]));
        expect(await vault.erase(left.name, left.bytes, 2)).toEqual([]);
        await expectEverywhere(place, left.name, left.bytes);
      }
    },
  },
  'a record removed while a copy was unreachable is later removed there': {
    applies: hasMirrors,
    async run(place) {
      const vault = await begun(place);
      for (const away of [0, 2]) {
        const [old] = await generations(vault, A, 1);
        const { name } = bucket(A, { generation: 1 });
        const back = await the(place.copies[away]).leave();
        expect(await vault.erase(name, undefined, 1)).toEqual([vault.copies[away]]);
        await back();
        expect(vault.list('buckets')).toEqual([name]);
        expect(vault.read(name)).toEqual([old]);
        expect(await vault.erase(name, undefined, storedGeneration(vault, name))).toEqual([]);
        await expectEverywhere(place, name, undefined);
      }
    },
  },
  'a copy that is damaged, or has another record in its place, is skipped and gets the next write': {
    applies: hasMirrors,
    async run(place) {
      const vault = await begun(place);
      const [bytes] = await generations(vault, A, 1);
      const next = bucket(A, { generation: 2 });
      await the(place.copies[0]).put(next.name, Buffer.from(the(bytes)).fill(0, 100, 200));
      await the(place.copies[2]).put(next.name, bucket(B, { generation: 9 }).bytes);
      expect(vault.read(next.name)).toEqual([bytes]);
      expect(await put(vault, next, 1)).toBe('written');
      await expectEverywhere(place, next.name, next.bytes);
    },
  },
  'a database restored to an older state gets back what a process knows, and nothing erased': {
    applies: hasBackups,
    async run(place) {
      const [one, other] = [await begun(place), await place.open()];
      const [first] = await generations(one, A, 1);
      const { name } = bucket(A, { generation: 1 });
      const back = await the(place.backUp)();
      const next = bucket(A, { generation: 2 });
      expect(await put(one, next, 1)).toBe('written');
      const late = bucket(B, { generation: 1 });
      expect(await put(one, late, 0)).toBe('written');
      await back();
      const lost = await one.refresh();
      expect(lost).toEqual(
        new Map([
          [next.name, next.bytes],
          [late.name, late.bytes],
        ]),
      );
      expect(one.read(name)).toEqual([first]);
      expect(one.read(late.name)).toEqual([]);
      expect(await put(one, next, 1)).toBe('written');
      expect(await put(one, late, 0)).toBe('written');
      expect((await one.refresh()).size).toBe(0);
      // A process that knows fewer records has lost nothing.
      expect((await other.refresh()).size).toBe(0);
      expect(other.read(name)).toEqual([next.bytes]);
    },
  },
  'an older state of the database is noticed also after a write by another process': {
    applies: hasBackups,
    async run(place) {
      const [one, other] = [await begun(place), await place.open()];
      const back = await the(place.backUp)();
      const [bytes] = await generations(one, A, 1);
      await back();
      await generations(other, B, 30);
      const lost = await one.refresh();
      expect([...lost.values()]).toEqual([bytes]);
      const { name } = bucket(B, { generation: 30 });
      expect(storedGeneration(one, name)).toBe(30);
    },
  },
  'a database that lost everything gets it back': {
    applies: hasBackups,
    async run(place) {
      await place.open();
      const back = await the(place.backUp)();
      const vault = await begun(place);
      await generations(vault, A, 1);
      const { name, bytes } = bucket(B, { generation: 1 });
      await back();
      expect(await vault.write(name, bytes, 0)).toBe('stale');
      const lost = await vault.refresh();
      expect([...lost.keys()].toSorted()).toEqual([bucket(A, { generation: 1 }).name, epochName(1)]);
      expect((await vault.refresh()).size).toBe(0);
      expect(await vault.write(epochName(1), the(lost.get(epochName(1))), 0)).toBe('written');
      expect(await vault.write(name, bytes, 0)).toBe('written');
    },
  },
  'a write to a database restored to an older state is stale until a refresh': {
    applies: hasBackups,
    async run(place) {
      const vault = await begun(place);
      await generations(vault, A, 1);
      const back = await the(place.backUp)();
      await generations(vault, B, 2);
      await back();
      const next = bucket(A, { generation: 2 });
      expect(await put(vault, next, 1)).toBe('stale');
      const lost = await vault.refresh();
      expect([...lost.keys()]).toEqual([bucket(B, { generation: 1 }).name]);
      expect(await put(vault, next, 1)).toBe('written');
    },
  },
};
