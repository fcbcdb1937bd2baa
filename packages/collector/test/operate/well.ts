/** The input of the warnings and the hints, without a fault. */
import { IngestCounters } from '../../src/ingest/ingest-counters.js';
import { createCounterMemory, LedgerCounters, type SharedCounts } from '../../src/ledger/ledger-counters.js';
import type { KeyState } from '../../src/access/key-ring.js';
import type { Facts } from '../../src/operate/snapshot.js';
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
  ...{ directories: 2, unreached: 0, epochBegun: NOW - DAY, erased: 0 },
  ...{ pending: 0, pendingSince: undefined, uncompacted: 0, holds: 0 },
};

const LEDGER = { ...new LedgerCounters(createCounterMemory()).read(), events: 10, entries: 10 };

export const WELL: Facts = {
  now: NOW,
  monotonic: 1e6,
  ...{ version: '1.2.3', commit: 'c0ffee0', command: 'collector', startedAt: NOW - DAY, busyMs: 1 },
  ...{ phase: 'running', listens: true, connections: 0, ledgerLivedAt: 1e6 - 100, silentMs: 0 },
  ingest: new IngestCounters().read(),
  otlp: undefined,
  ...{ index: undefined, runs: undefined, keysNotListed: 0 },
  ledger: LEDGER,
  storage: { state: 'open' },
  queue: { events: 0, bytes: 0, maxEvents: 100, maxBytes: 1000 },
  disk: { freeBytes: 500e9, totalBytes: 1000e9 },
  daysUntilFull: 400,
  checkpoint: { entries: 10, at: NOW - 3 * DAY },
  checkpointTroubleSince: undefined,
  sinks: [WELL_SINK],
  alarms: new Set(),
  privacy: PRIVACY,
  lastVerify: { at: NOW - DAY, intact: true, events: 10 },
  lastBackup: { at: NOW - DAY + 1000, events: 9 },
  backupMaxAgeMs: DAY,
  logBeganAt: NOW - 30 * DAY,
  keys: [use({}), use({ expiresAt: NOW + 15 * DAY })],
  keysCurrent: true,
  certificates: [{ name: 'ingest', notAfter: NOW + 15 * DAY }],
  breakGlass: { looks: 0, at: undefined },
  clockSteps: { count: 0, last: undefined },
  catalogueTroubleSince: undefined,
  exposed: false,
  droppedLines: { lines: 0, at: undefined },
  keyGone: false,
  tokenInClear: false,
};

/** A ledger with these facts. */
export function holding(more: Partial<Facts['ledger']>): Pick<Facts, 'ledger'> {
  return { ledger: { ...LEDGER, ...more } };
}

/** Of a log in a database. */
export const SHARED: SharedCounts = {
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

export function use(key: Partial<KeyState>): KeyState {
  return {
    keyId: 'abcdefghijkl',
    organisation: 'default',
    note: 'the note of an operator',
    createdAt: 0,
    expiresAt: undefined,
    revokedAt: undefined,
    replacedBy: undefined,
    lastUsedAt: undefined,
    uses: 0,
    overRate: 0,
    ...key,
  };
}
