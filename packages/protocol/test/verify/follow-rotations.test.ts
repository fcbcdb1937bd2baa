import { describe, expect, it } from 'vitest';
import { followRotations, RotationRefused } from '../../src/verify/index.js';
import { sampleCheckpoint, sampleEvents, sampleKey, sampleRotation } from './sample-log.js';

const keys = [sampleKey(), sampleKey(), sampleKey(), sampleKey()] as const;
const [first, second, third, fourth] = keys;
const chain = [sampleRotation(first, second), sampleRotation(second, third), sampleRotation(third, fourth)];

describe('followRotations', () => {
  it('[R-905] leads from the first key to the newest', async () => {
    expect(await followRotations([first.vkey], chain)).toEqual(new Set(keys.map(({ vkey }) => vkey)));
  });

  it('[R-905] leads on from a later key, and not back', async () => {
    expect(await followRotations([third.vkey], chain)).toEqual(new Set([third.vkey, fourth.vkey]));
  });

  it('does not skip a missing note', async () => {
    expect(await followRotations([first.vkey], chain.slice(1))).toEqual(new Set([first.vkey]));
  });

  it('returns the given keys if there are no notes', async () => {
    expect(await followRotations([first.vkey, third.vkey], [])).toEqual(new Set([first.vkey, third.vkey]));
  });

  it.each([
    ['only the old key has signed', () => sampleRotation(first, second, first), 'the new key has not signed'],
    [
      'only the new key has signed',
      () => sampleRotation(first, second, second),
      'the old key has not signed',
    ],
    ['strangers have signed', () => sampleRotation(first, second, third), 'none of the known keys'],
    ['the text was changed', () => (chain[0] ?? '').replace('2026-03-09', '2026-03-10'), 'not by the key'],
    ['it is not a note', () => 'note', 'no empty line'],
    ['it is a checkpoint', () => sampleCheckpoint(sampleEvents(1), first), 'does not begin as a rotation'],
  ])('refuses a note when %s, and names it', async (_, note, message) => {
    const followed = followRotations([first.vkey], [sampleRotation(third, fourth), note()]);
    await expect(followed).rejects.toThrow(RotationRefused);
    await expect(followed).rejects.toThrow('rotation note 2: ');
    await expect(followed).rejects.toThrow(message);
  });
});
