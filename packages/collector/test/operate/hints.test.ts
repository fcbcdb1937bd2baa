import { expect, test } from 'vitest';
import { hintsOf } from '../../src/operate/state.js';
import { warningsOf } from '../../src/operate/warnings.js';
import { DAY, NOW, PRIVACY, WELL } from './well.js';

test('[R-834] what is not set up is a hint that says what to do, and no warning', () => {
  const nothing = {
    ...{ ...WELL, sinks: [] },
    ...{ lastBackup: undefined, lastVerify: undefined, logBeganAt: NOW },
    privacy: { ...PRIVACY, directories: 1 },
  };
  const hints = hintsOf(nothing);
  expect(hints.map(({ id }) => id)).toEqual([
    ...['no_checkpoint_sink', 'keys_without_mirror'],
    ...['no_backup_yet', 'not_verified_yet'],
  ]);
  expect(
    hints.map(({ what_to_do }) => /--checkpoint-sink|--encryption-keys|collector \w+/.exec(what_to_do)?.[0]),
  ).toEqual([...['--checkpoint-sink', '--encryption-keys', 'collector backup', 'collector verify']]);
  expect(warningsOf(nothing)).toEqual([]);
  expect(hintsOf({ ...nothing, events: 0 })).toHaveLength(4);
  expect(hintsOf(WELL)).toEqual([]);
});

test('no hint of a back-up where it is warned of already, or where back-ups are made otherwise', () => {
  const late = { ...WELL, lastBackup: undefined, logBeganAt: NOW - 2 * DAY };
  expect(warningsOf(late).map(({ id }) => id)).toEqual(['backup_old']);
  expect(hintsOf(late)).toEqual([]);
  expect(hintsOf({ ...late, backupMaxAgeMs: 0 })).toEqual([]);
});
