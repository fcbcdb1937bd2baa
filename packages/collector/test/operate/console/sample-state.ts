/** States of a collector as the console gets them: a busy one without faults, and one with every fault. */
import { EVENT_KINDS } from '@clinical-events/protocol';
import type { ConsoleState, Key, Second } from '../../../src/operate/console/console-state.js';

/** Saturday, 7 March 2026, 12:00 UTC. */
const AT = Date.UTC(2026, 2, 7, 12);
const DAY_MS = 86_400_000;

function instant(beforeMs: number): string {
  return new Date(AT - beforeMs).toISOString();
}

export function key(i: number, more: Partial<Key> = {}): Key {
  return {
    key_id: `key${String(i).padStart(9, 'a')}`,
    organisation: 'radiology',
    note: `Gateway ${i}`,
    state: 'usable',
    replaced_by: null,
    in_use: true,
    created_at: instant(30 * DAY_MS),
    expires_at: null,
    last_used_at: instant(3000),
    requests: 1000 + i,
    over_rate: 0,
    ...more,
  };
}

/** The last seconds, this many. */
function seconds(number: number, more: (ago: number) => Partial<Second> = () => ({})): Second[] {
  return Array.from({ length: number }, (_, i) => {
    const ago = number - 1 - i;
    const second = {
      at: instant(ago * 1000),
      ms: 1000,
      accepted: 1200,
      refused: 0,
      p50_ms: 1.2,
      p99_ms: 4.5,
    };
    return { ...second, ...more(ago) };
  });
}

export function busy(more: Partial<ConsoleState> = {}): ConsoleState {
  const checks = ['startup', 'shutdown', 'ledger_thread', 'storage'];
  return {
    at: instant(0),
    version: '0.0.1',
    commit: '0123456789abcdef0123456789abcdef01234567',
    command: 'collector',
    node: 'v24.0.0',
    started_at: instant(12 * DAY_MS),
    health: { live: true, ready: true, checks: checks.map((name) => ({ name, ok: true, reason: null })) },
    traffic: { accepted_per_second: 1204.4, refused_per_second: 0, seconds: seconds(300) },
    totals: {
      accepted: Object.fromEntries(EVENT_KINDS.map((kind, i) => [kind, 1000 * (i + 1)])),
      refused: { key_invalid: 2, validation_failed: 17 },
      repeats: 120,
      conflicts: 0,
    },
    otlp: {
      items: [
        { signal: 'traces', stored: 412, ignored: { not_about_models: 9120 }, rejected: {} },
        { signal: 'logs', stored: 0, ignored: {}, rejected: {} },
      ],
      shortened: 0,
    },
    runs: {
      ...{ since: instant(30 * DAY_MS), full: 180_204, minimum: 61_977, incomplete: 312, erased: 7 },
      ...{ without_outcome: 44_120, orphan_events: 1804, events_behind: 0 },
    },
    queue: { events: 12, bytes: 18_220, max_events: 8192, max_bytes: 64 << 20 },
    keys: [key(1), key(2, { state: 'revoked' })],
    keys_not_listed: 0,
    ledger: {
      state: 'open',
      events: 917_436_971,
      bytes: 1.31e12,
      events_per_hour: 4_212_009,
      bytes_per_hour: 5.9e9,
      watched_seconds: 86_400,
    },
    disk: { free_bytes: 2.66e12, total_bytes: 4.4e12, days_until_full: 18.2, forecast_in_seconds: null },
    index: { entries: 917_436_971, unwritten_tables: 0 },
    checkpoint: { entries: 917_436_350, at: instant(700), entries_behind: 621 },
    database: null,
    checkpoints_fail_since: null,
    sinks: [
      {
        ...{ number: 1, kind: 'witness', state: 'ok', entries: 917_436_350, at: instant(700) },
        ...{ failing_since: null, waiting: 0, dropped: 0 },
      },
    ],
    last_verify: { at: instant(2.3 * DAY_MS), intact: true, events: 720_101_220 },
    last_backup: { at: instant(25 * 60_000), events: 915_700_218, events_since: 1_736_753 },
    privacy: {
      ...{ directories: 2, unreached: 0, epoch_begun: instant(9 * DAY_MS), erased: 1137 },
      ...{ pending: 0, holds: 1 },
    },
    certificates: [{ name: 'of the listener for events', not_after: instant(-61 * DAY_MS) }],
    cells: [
      { card: 'runs', label: 'Orphan events', value: 1804, format: 'count', more: 'their start is missing' },
      { card: 'storage', label: 'Id index', value: 917_436_971, format: 'count', noun: ['entry', 'entries'] },
      { card: 'storage', label: 'In memory', value: 48 << 20, format: 'bytes' },
      { card: 'proof', label: 'Key epoch since', value: (AT - 9 * DAY_MS) / 1000, format: 'instant' },
      { card: 'proof', label: 'Erased', value: 1137, format: 'count', noun: ['event', 'events'] },
    ] as ConsoleState['cells'],
    warnings: [],
    hints: [],
    ...more,
  };
}

/** Also long names, and warnings of one kind for more than half of the keys. */
export function wrong(numberOfKeys = 200, more: Partial<ConsoleState> = {}): ConsoleState {
  const state = busy();
  const failing = { at: instant(3 * DAY_MS), entries: 1, failing_since: instant(2 * DAY_MS) };
  const keys = Array.from({ length: numberOfKeys }, (_, i) => key(i));
  return {
    ...state,
    health: {
      live: false,
      ready: false,
      checks: state.health.checks.map(({ name }) => ({
        name,
        ok: false,
        reason: `${name} does not do its work`,
      })),
    },
    traffic: {
      accepted_per_second: 0,
      refused_per_second: 812.4,
      seconds: seconds(300, (ago) =>
        ago < 70 ? { accepted: 0, refused: 800, p50_ms: null, p99_ms: null } : {},
      ),
    },
    queue: { ...state.queue, events: 8192 },
    keys: [
      key(1000, { organisation: 'x'.repeat(64), note: 'W'.repeat(200), over_rate: 12_345_678 }),
      key(1001, { note: 'word '.repeat(40), expires_at: instant(-9.5 * DAY_MS) }),
      key(1002, { replaced_by: 'keyaaaaaa1003', expires_at: instant(-0.5 * DAY_MS) }),
      ...keys,
    ],
    keys_not_listed: 37,
    ledger: { ...state.ledger, state: 'refusing' },
    disk: { free_bytes: 0, total_bytes: 4.4e12, days_until_full: 0, forecast_in_seconds: null },
    index: { entries: 917_436_971, unwritten_tables: 3 },
    checkpoint: { entries: 1, at: instant(1.2 * DAY_MS), entries_behind: 917_436_970 },
    checkpoints_fail_since: instant(1.2 * DAY_MS),
    sinks: [
      { number: 1, kind: 'directory', state: 'forked', waiting: 8, dropped: 0, ...failing },
      { number: 2, kind: 'witness', state: 'failing', waiting: 64, dropped: 12_033, ...failing },
      { number: 3, kind: 'file', state: 'untried', waiting: 0, dropped: 0, ...failing, at: null },
    ],
    last_verify: { at: instant(DAY_MS / 5), intact: false, events: 917_000_000 },
    certificates: [{ name: 'of the listener for events', not_after: instant(DAY_MS) }],
    cells: [
      ...state.cells,
      {
        ...{ card: 'proof', label: 'Not yet erased', value: 2, format: 'count' },
        ...{ noun: ['erasure', 'erasures'], warns: true },
      },
    ],
    warnings: [
      {
        id: 'storage_unavailable',
        severity: 'critical',
        title: 'Events cannot be stored',
        what_to_do: 'Free space on the disk of the data directory.',
      },
      {
        id: 'sink_forked',
        severity: 'critical',
        title: 'Sink 1 (directory) holds a checkpoint that contradicts this ledger',
        what_to_do: 'Keep everything as it is.',
      },
      ...keys.slice(0, numberOfKeys * 0.6).map(({ key_id }) => ({
        id: 'key_expires_soon',
        severity: 'warning' as const,
        title: `The key ${key_id} expires in 9 days`,
        what_to_do: `Rotate it: collector keys rotate ${key_id}`,
      })),
      {
        id: 'data_directory_exposed',
        severity: 'warning',
        title: 'Other users of the host can enter the data directory',
        what_to_do: 'It holds patient data: chmod 700.',
      },
    ],
    ...more,
  };
}

/** A collector that has just started for the first time. */
export function fresh(): ConsoleState {
  const state = busy();
  const none = Object.fromEntries(EVENT_KINDS.map((kind) => [kind, 0]));
  return {
    ...state,
    started_at: instant(1500),
    traffic: { accepted_per_second: 0, refused_per_second: 0, seconds: [] },
    otlp: null,
    totals: { accepted: none, refused: {}, repeats: 0, conflicts: 0 },
    runs: null,
    queue: { ...state.queue, events: 0, bytes: 0 },
    keys: [],
    ledger: {
      ...{ state: 'open', events: 0, bytes: 0, events_per_hour: null, bytes_per_hour: null },
      watched_seconds: 1,
    },
    disk: { free_bytes: null, total_bytes: null, days_until_full: null, forecast_in_seconds: 43_199 },
    index: null,
    checkpoint: null,
    sinks: [],
    last_verify: null,
    last_backup: null,
    certificates: [],
    cells: [],
    hints: ['no_checkpoint_sink', 'no_backup_yet', 'not_verified_yet'].map((id) => ({
      ...{ id, title: 'Something is not set up yet' },
      what_to_do: 'Have a timer run a command that fixes this every hour, best to another machine.',
    })),
  };
}
