import { expect, test } from 'vitest';
import { hintsOf } from '../../src/operate/hints.js';
import type { Facts } from '../../src/operate/snapshot.js';
import { warningsOf, WARNINGS } from '../../src/operate/warnings.js';
import { DAY, holding, NOW, PRIVACY, SHARED, sink, use, WELL, WELL_SINK } from './well.js';

function ids(facts: Partial<Facts>): string[] {
  return warningsOf({ ...WELL, ...facts }).map(({ id, severity }) => `${severity} ${id}`);
}

test('[R-833] where all is well there is no warning', () => {
  expect(warningsOf(WELL)).toEqual([]);
  // Unknown values cause no warning either.
  expect(
    ids({
      disk: undefined,
      daysUntilFull: undefined,
      checkpoint: undefined,
      lastVerify: undefined,
      lastBackup: undefined,
      logBeganAt: NOW - DAY + 1000,
      sinks: [],
    }),
  ).toEqual([]);
  expect(ids({ sinks: [{ kind: 'witness', shown: '', state: undefined, waiting: 1 }] })).toEqual([]);
});

const open = { entries: 10, at: NOW - 61_000 };
const down = (state: 'failing' | 'forked', since?: number) => [
  { kind: 'witness', shown: 'https://witness.test/secret', state: sink(state, since), waiting: 3 } as const,
];

test.each<[string, Partial<Facts>, string[]]>([
  ['refusing', { storage: { state: 'refusing' } }, ['critical storage_unavailable']],
  ['failed', { storage: { state: 'failed' } }, ['critical storage_unavailable']],
  ['9 % left', { disk: { freeBytes: 9, totalBytes: 100 } }, ['warning disk_full_soon']],
  ['4 % left', { disk: { freeBytes: 4, totalBytes: 100 } }, ['critical disk_full_soon']],
  ['13 days left', { daysUntilFull: 13 }, ['warning disk_full_soon']],
  ['half a day left', { daysUntilFull: 0.5 }, ['critical disk_full_soon']],
  ['no growth of the data', { daysUntilFull: Infinity }, []],
  [
    'many events queued',
    { queue: { events: 80, bytes: 0, maxEvents: 100, maxBytes: 1000 } },
    ['warning queue_nearly_full'],
  ],
  [
    'many bytes queued',
    { queue: { events: 1, bytes: 900, maxEvents: 100, maxBytes: 1000 } },
    ['warning queue_nearly_full'],
  ],
  ['behind', { ...holding({ entries: 11 }), checkpoint: open }, ['warning checkpoint_old']],
  ['just behind', { ...holding({ entries: 11 }), checkpoint: { entries: 10, at: NOW - 59_000 } }, []],
  [
    'no signer',
    { ...holding({ entries: 11 }), checkpoint: open, checkpointTroubleSince: NOW - DAY },
    ['warning checkpoints_fail'],
  ],
  ['sink down', { sinks: down('failing', NOW - DAY) }, ['warning sink_down']],
  ['sink forked', { sinks: down('forked') }, ['critical sink_forked']],
  [
    'sink down since an unknown time',
    { sinks: [{ ...WELL_SINK, state: sink('failing') }] },
    ['warning sink_down'],
  ],
  ['signing key missing', { keyGone: true }, ['critical signing_key_gone']],
  ['access log altered', { alarms: new Set(['access-log']) }, ['critical access_log_altered']],
  ['a log in a database', holding({ shared: SHARED }), []],
  [
    'a database out of reach',
    { ...holding({ shared: SHARED }), storage: { state: 'refusing' } },
    ['critical storage_unavailable'],
  ],
  ['log forked', { ...holding({ shared: SHARED }), alarms: new Set(['fork']) }, ['critical log_forked']],
  [
    'acknowledged events lost',
    { ...holding({ shared: SHARED }), alarms: new Set(['lost']) },
    ['critical acked_lost'],
  ],
  ['no standby configured', holding({ shared: { ...SHARED, replicated: undefined } }), []],
  ['not replicated', holding({ shared: { ...SHARED, replicated: false } }), ['critical replication_off']],
  ['a minute late', holding({ shared: { ...SHARED, waiting: { batches: 3, oldestMs: 60_000 } } }), []],
  [
    'later',
    holding({ shared: { ...SHARED, waiting: { batches: 3, oldestMs: 60_001 } } }),
    ['warning merge_delay'],
  ],
  ['a batch waits for less than 5 seconds', holding({ shared: { ...SHARED, stalledMs: 4999 } }), []],
  [
    'a batch waits for 5 seconds',
    holding({ shared: { ...SHARED, stalledMs: 5000 } }),
    ['critical signing_stalled'],
  ],
  ['three months ahead', holding({ shared: { ...SHARED, months: 3 } }), []],
  ['two months ahead', holding({ shared: { ...SHARED, months: 2 } }), ['warning partitions_low']],
  [
    'an erasure that waits',
    { privacy: { ...PRIVACY, pending: 1, pendingSince: NOW - DAY } },
    ['warning erasure_incomplete'],
  ],
  ['a key mirror out of reach', { privacy: { ...PRIVACY, unreached: 1 } }, ['warning key_mirror_behind']],
  ['payloads not encrypted', { privacy: undefined }, []],
  ['damage', { lastVerify: { at: NOW, intact: false, events: 1 } }, ['critical verify_found_damage']],
  ['old back-up', { lastBackup: { at: NOW - DAY - 1, events: 9 } }, ['warning backup_old']],
  ['a follower', { lastBackup: { at: NOW - 300_000, events: 9, follows: true } }, []],
  [
    'a follower that has stopped',
    { lastBackup: { at: NOW - 300_001, events: 9, follows: true } },
    ['warning backup_old'],
  ],
  [
    'a stopped follower, and no back-up wanted',
    { lastBackup: { at: NOW - 300_001, events: 9, follows: true }, backupMaxAgeMs: 0 },
    [],
  ],
  ['no back-up', { lastBackup: undefined }, ['warning backup_old']],
  [
    'no back-up of a log of unknown age',
    { lastBackup: undefined, logBeganAt: undefined },
    ['warning backup_old'],
  ],
  ['no back-up of an empty log', { lastBackup: undefined, ...holding({ events: 0 }) }, []],
  ['no back-up is wanted', { lastBackup: undefined, backupMaxAgeMs: 0 }, []],
  ['key ends', { keys: [use({ expiresAt: NOW + 13 * DAY })] }, ['warning key_expires_soon']],
  ['rotated key ends', { keys: [use({ expiresAt: NOW + DAY, replacedBy: 'x' })] }, []],
  [
    'rotated key ends, and is in use',
    {
      keys: [use({ expiresAt: NOW + DAY, replacedBy: 'x', lastUsedAt: NOW - 59 * 60_000 })],
    },
    ['warning key_expires_soon'],
  ],
  [
    'rotated key ends, and is no longer in use',
    {
      keys: [use({ expiresAt: NOW + DAY, replacedBy: 'x', lastUsedAt: NOW - 61 * 60_000 })],
    },
    [],
  ],
  ['revoked key ends', { keys: [use({ expiresAt: NOW + DAY, revokedAt: 1 })] }, []],
  ['key of a day', { keys: [use({ createdAt: NOW - DAY / 3, expiresAt: NOW + (2 * DAY) / 3 })] }, []],
  ['ended key', { keys: [use({ expiresAt: NOW - 1 })] }, []],
  ['keys unreadable', { keysCurrent: false }, ['warning keys_unreadable']],
  [
    'certificate ends',
    { certificates: [{ name: 'ingest', notAfter: NOW + 13 * DAY }] },
    ['warning certificate_expires_soon'],
  ],
  [
    'certificate expired',
    { certificates: [{ name: 'ingest', notAfter: NOW - 1 }] },
    ['critical certificate_expires_soon'],
  ],
  [
    'clock',
    { clockSteps: { count: 1, last: { at: NOW - 1000, by: -7_200_000 } } },
    ['warning clock_stepped'],
  ],
  ['clock long ago', { clockSteps: { count: 1, last: { at: NOW - 2 * DAY, by: -7_200_000 } } }, []],
  ['log lines dropped', { droppedLines: { lines: 2, at: NOW - 1000 } }, ['warning log_lines_dropped']],
  ['log lines dropped long ago', { droppedLines: { lines: 2, at: NOW - DAY } }, []],
  ['token in plain text', { tokenInClear: true }, ['warning operator_token_in_clear']],
  ['catalogue', { catalogueTroubleSince: NOW - DAY }, ['warning catalogue_fails']],
  ['exposed', { exposed: true }, ['warning data_directory_exposed']],
  ['break-glass', { breakGlass: { looks: 1, at: NOW - DAY } }, ['warning break_glass']],
  ['break-glass long ago', { breakGlass: { looks: 1, at: NOW - DAY - 1 } }, []],
])('[R-833] %s', (_name, facts, expected) => {
  expect(ids(facts)).toEqual(expected);
  for (const { title, what_to_do } of warningsOf({ ...WELL, ...facts })) {
    expect(what_to_do.length).toBeGreaterThan(20);
    expect(title).toMatch(/^[A-Z0-9]/);
    // No path, no message of a sink, no text from outside.
    expect(title + what_to_do).not.toMatch(/\/mnt|witness\.test|note of an operator|undefined|NaN|Infinity/);
  }
});

test('[R-833] the most severe come first, and all are reported at once', () => {
  const found = warningsOf({
    ...WELL,
    storage: { state: 'refusing' },
    disk: { freeBytes: 0, totalBytes: 100 },
    queue: { events: 100, bytes: 1000, maxEvents: 100, maxBytes: 1000 },
    checkpoint: open,
    sinks: [...down('failing'), ...down('forked')],
    keyGone: true,
    alarms: new Set(['access-log', 'fork', 'lost'] as const),
    ...holding({
      entries: 12,
      shared: {
        ...{ ...SHARED, replicated: false, waiting: { batches: 1, oldestMs: DAY } },
        ...{ stalledMs: DAY, months: 0 },
      },
    }),
    privacy: { ...PRIVACY, pending: 2, pendingSince: NOW - DAY, unreached: 1 },
    lastVerify: { at: NOW, intact: false, events: 1 },
    lastBackup: undefined,
    keys: [use({ expiresAt: NOW + DAY })],
    keysCurrent: false,
    certificates: [{ name: 'ingest', notAfter: NOW + 2 * DAY }],
    clockSteps: { count: 1, last: { at: NOW, by: 5000 } },
    breakGlass: { looks: 2, at: NOW },
    droppedLines: { lines: 1, at: NOW },
    catalogueTroubleSince: NOW - DAY,
    exposed: true,
    tokenInClear: true,
  });
  const firstMild = found.findIndex(({ severity }) => severity === 'warning');
  expect(found.slice(firstMild).every(({ severity }) => severity === 'warning')).toBe(true);
  const missing = Object.keys(WARNINGS).filter((id) => !found.some((warning) => warning.id === id));
  expect(missing).toEqual(['checkpoints_fail']);
});

test('[R-811] a follower that stops is reported within minutes, by name', () => {
  const stopped = (ago: number, most: number) =>
    warningsOf({
      ...WELL,
      lastBackup: { at: NOW - ago, events: 9, follows: true },
      backupMaxAgeMs: most,
    }).map(({ title }) => title);
  expect(stopped(6 * 60_000, DAY)).toEqual([
    expect.stringMatching(/^The back-up no longer follows the log\. The last back-up was made 6 minutes ago/),
  ]);
  expect(stopped(4 * 60_000, DAY)).toEqual([]);
  expect(stopped(2 * 60_000, 60_000)).toHaveLength(1);
});

test('[R-833] a missing set-up is a hint with an instruction, and no warning', () => {
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
  expect(hintsOf({ ...nothing, ...holding({ events: 0 }) })).toHaveLength(4);
  expect(hintsOf(WELL)).toEqual([]);
});

test('no hint about a back-up where there is a warning, or where back-ups are made otherwise', () => {
  const late = { ...WELL, lastBackup: undefined, logBeganAt: NOW - 2 * DAY };
  expect(warningsOf(late).map(({ id }) => id)).toEqual(['backup_old']);
  expect(hintsOf(late)).toEqual([]);
  expect(hintsOf({ ...late, backupMaxAgeMs: 0 })).toEqual([]);
});
