/** What the warnings and the hints are made of, where all is well. */
import type { KeyUse } from '../../src/access/key-ring.js';
import type { Facts } from '../../src/operate/warnings.js';
import type { SinkState } from '../../src/tree/state-files.js';

export const NOW = Date.parse('2026-03-04T12:00:00Z');
export const DAY = 86_400_000;

export const WELL_SINK = {
  kind: 'directory',
  shown: 'dir:/mnt/worm',
  state: sink('ok'),
  waiting: 0,
} as const;

export const PRIVACY = {
  ...{ directories: 2, unreached: 0, epochBegun: NOW - DAY, retired: 0 },
  ...{ pending: 0, pendingSince: undefined, holds: 0 },
};

export const WELL: Facts = {
  now: NOW,
  storage: { state: 'open' },
  queue: { events: 0, bytes: 0, maxEvents: 100, maxBytes: 1000 },
  disk: { freeBytes: 500e9, totalBytes: 1000e9 },
  daysUntilFull: 400,
  events: 10,
  entries: 10,
  checkpoint: { entries: 10, at: NOW - 3 * DAY },
  checkpointTroubleSince: undefined,
  sinks: [WELL_SINK],
  alarms: new Set(),
  shared: undefined,
  privacy: PRIVACY,
  lastVerify: { at: NOW - DAY, intact: true, events: 10 },
  lastBackup: { at: NOW - DAY + 1000, events: 9 },
  backupMaxAgeMs: DAY,
  logBeganAt: NOW - 30 * DAY,
  keys: [use({}), use({ expiresAt: NOW + 15 * DAY })],
  keysCurrent: true,
  certificates: [{ name: 'ingest', notAfter: NOW + 15 * DAY }],
  clockStep: undefined,
  catalogueTroubleSince: undefined,
  exposed: false,
  droppedLines: { lines: 0, at: undefined },
  keyGone: false,
  tokenInClear: false,
};

/** Of a log in a database. */
export const SHARED = {
  replicated: true,
  waiting: { batches: 2, oldestMs: 900 },
  stalledMs: 0,
  months: 12,
  merges: { counts: [], sum: 0 },
};

export function sink(state: SinkState['state'], failingSince?: number): SinkState {
  const since = failingSince === undefined ? {} : { failing_since: new Date(failingSince).toISOString() };
  return { sink: 'dir:/mnt/worm', state, ...since, message: '/mnt/worm is not there' };
}

export function use(key: Partial<KeyUse['key']>): KeyUse {
  return {
    key: {
      keyId: 'abcdefghijkl',
      hash: new Uint8Array(32),
      organisation: 'default',
      permissions: 'all',
      profile: undefined,
      rateLimit: undefined,
      note: 'the note of an operator',
      createdAt: 0,
      expiresAt: undefined,
      revokedAt: undefined,
      rotatedFrom: undefined,
      replacedBy: undefined,
      ...key,
    } as KeyUse['key'],
    lastUsedAt: undefined,
    uses: 0,
    overRate: 0,
  };
}
