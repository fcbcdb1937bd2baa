/**
 * Every number that the collector shows: those that rooms declare with their counters, and those of the main
 * thread. A new number is one declaration, in the list of its room or here.
 *
 * No label can come from a request: kinds, codes, states and outcomes are closed tables, sinks are identified
 * by number and kind, and keys are made by the operator, at most MOST_KEYS.
 */
import { INGEST_NUMBERS, QUEUE_NUMBERS } from '../ingest/ingest-counters.js';
import { LEDGER_NUMBERS } from '../ledger/ledger-counters.js';
import { PRIVACY_NUMBERS } from '../ledger/privacy-numbers.js';
import {
  type Cell,
  counter,
  type Declared,
  gauge,
  type Labels,
  seconds,
  type Value,
  within,
} from '../numbers.js';
import { OTLP_NUMBERS } from '../otlp/otlp-counters.js';
import { healthOf, isReady } from './health.js';
import type { KeyState } from '../access/key-ring.js';
import type {
  BackupState,
  CheckpointState,
  DiskSpace,
  Facts,
  IndexState,
  RunState,
  VerifyState,
} from './snapshot.js';
import { WARNINGS, warningsOf } from './warnings.js';

const SINK_STATES = ['ok', 'failing', 'forked', 'untried'] as const;
const LEDGER_STATES = ['open', 'refusing', 'failed'] as const;

const RUN_NUMBERS: readonly Declared<RunState>[] = [
  gauge({
    name: 'collector_runs',
    help: 'Runs that began since collector_runs_since_timestamp_seconds, by completeness.',
    each: (runs) =>
      (['full', 'minimum', 'incomplete', 'erased'] as const).map((completeness) => [
        { completeness },
        runs[completeness],
      ]),
  }),
  gauge({
    name: 'collector_runs_without_outcome',
    help: 'Of these runs, those without an outcome.',
    read: ({ withoutOutcome }) => withoutOutcome,
  }),
  gauge({
    name: 'collector_orphan_events',
    help: 'Events since then whose run has no start or whose parent is missing.',
    read: ({ orphanEvents }) => orphanEvents,
    cell: {
      card: 'runs',
      label: 'Orphan events',
      format: 'count',
      more: 'start or parent is missing',
    },
  }),
  gauge({
    name: 'collector_runs_since_timestamp_seconds',
    help: 'Since when runs are counted: 30 days ago, to the hour.',
    read: ({ since }) => seconds(since),
  }),
];

const INDEX_NUMBERS: readonly Declared<IndexState>[] = [
  gauge({
    name: 'collector_index_entries',
    help: 'Entries of the id index.',
    read: ({ entries }) => entries,
    cell: { card: 'storage', label: 'Id index', format: 'count', noun: ['entry', 'entries'] },
  }),
  gauge({ name: 'collector_index_runs', help: 'Files of the id index.', read: ({ runs }) => runs }),
  gauge({
    name: 'collector_index_unwritten_tables',
    help: 'Full tables of the id index that wait in memory; at 2, a full third one causes refusals.',
    read: ({ frozenTables }) => frozenTables,
    cell: {
      card: 'storage',
      label: 'Not yet written',
      format: 'count',
      noun: ['table', 'tables'],
      warns: true,
    },
  }),
  gauge({
    name: 'collector_index_disk_bytes',
    help: 'Bytes of the id index on the disk.',
    read: ({ diskBytes }) => diskBytes,
  }),
  gauge({
    name: 'collector_index_memory_bytes',
    help: 'Bytes of the id index in memory.',
    read: ({ memoryBytes }) => memoryBytes,
  }),
];

const DISK_NUMBERS: readonly Declared<DiskSpace>[] = [
  gauge({
    name: 'collector_disk_free_bytes',
    help: "Bytes that the collector may still write to the data directory's file system.",
    read: ({ freeBytes }) => freeBytes,
  }),
  gauge({
    name: 'collector_disk_size_bytes',
    help: "Size of the data directory's file system.",
    read: ({ totalBytes }) => totalBytes,
  }),
];

const CHECKPOINT_NUMBERS: readonly Declared<CheckpointState>[] = [
  gauge({
    name: 'collector_checkpoint_entries',
    help: 'Entries under the newest checkpoint.',
    read: ({ entries }) => entries,
  }),
  gauge({
    name: 'collector_checkpoint_timestamp_seconds',
    help: 'When the newest checkpoint was signed.',
    read: ({ at }) => seconds(at),
  }),
];

const VERIFY_NUMBERS: readonly Declared<VerifyState>[] = [
  gauge({
    name: 'collector_verify_timestamp_seconds',
    help: 'When collector verify last ran on this data directory.',
    read: ({ at }) => seconds(at),
  }),
  gauge({
    name: 'collector_verify_intact',
    help: 'Whether it found the log intact.',
    read: ({ intact }) => intact,
  }),
];

const BACKUP_NUMBERS: readonly Declared<BackupState>[] = [
  gauge({
    name: 'collector_backup_timestamp_seconds',
    help: 'When the last run of collector backup on this data directory began.',
    read: ({ at }) => seconds(at),
  }),
  gauge({
    name: 'collector_backup_events',
    help: 'Events in that back-up.',
    read: ({ events }) => events,
  }),
];

const SINK_NUMBERS: readonly Declared<Facts>[] = [
  gauge({
    name: 'collector_sink_state',
    help: 'State of a checkpoint sink: 1 for its state, 0 for the others.',
    each: ({ sinks }) =>
      sinks.flatMap((sink, i) =>
        SINK_STATES.map((name): readonly [Labels, Value] => [
          { ...sinkLabels(sink, i), state: name },
          (sink.state?.state ?? 'untried') === name,
        ]),
      ),
  }),
  gauge({
    name: 'collector_sink_entries',
    help: 'Entries under the last checkpoint that a sink accepted.',
    each: ({ sinks }) => sinks.map((sink, i) => [sinkLabels(sink, i), sink.state?.size]),
  }),
  gauge({
    name: 'collector_sink_delivery_timestamp_seconds',
    help: 'When a sink accepted its last checkpoint.',
    each: ({ sinks }) =>
      sinks.map((sink, i) => {
        const at = sink.state?.at;
        return [sinkLabels(sink, i), at === undefined ? undefined : seconds(Date.parse(at))];
      }),
  }),
  gauge({
    name: 'collector_sink_waiting_checkpoints',
    help: 'Checkpoints that wait for a sink.',
    each: ({ sinks }) => sinks.map((sink, i) => [sinkLabels(sink, i), sink.waiting]),
  }),
];

function sinkLabels({ kind }: Facts['sinks'][number], i: number): Labels {
  return { sink: String(i + 1), kind };
}

const KEY_NUMBERS: readonly Declared<Facts>[] = [
  counter({
    name: 'collector_key_requests_total',
    help: 'Accepted requests of a key.',
    each: keyLines(({ uses }) => uses),
  }),
  counter({
    name: 'collector_key_rate_limited_total',
    help: 'Requests of a key over its rate limit.',
    each: keyLines(({ overRate }) => overRate),
  }),
  gauge({
    name: 'collector_key_last_used_timestamp_seconds',
    help: 'When a key was last accepted since the start.',
    each: keyLines(({ lastUsedAt }) => seconds(lastUsedAt)),
  }),
  gauge({
    name: 'collector_key_expiry_timestamp_seconds',
    help: 'When a key expires; absent when it does not.',
    each: keyLines(({ expiresAt }) => seconds(expiresAt)),
  }),
];

function keyLines(value: (key: KeyState) => Value): (facts: Facts) => (readonly [Labels, Value])[] {
  return ({ keys }) =>
    keys
      .filter(({ revokedAt }) => revokedAt === undefined)
      .map((key) => [{ key_id: key.keyId, organisation: key.organisation }, value(key)]);
}

const PROCESS_NUMBERS: readonly Declared<Facts>[] = [
  gauge({
    name: 'collector_build_info',
    help: 'Version and commit of the collector, as labels. Always 1.',
    each: ({ version, commit }) => [[{ version, commit, node_version: process.version }, 1]],
  }),
  gauge({
    name: 'collector_ready',
    help: 'Whether an event sent now would most likely be stored (1), as /readyz says.',
    read: (facts) => isReady(healthOf(facts)),
  }),
  counter({
    name: 'collector_http_thread_busy_seconds_total',
    help: 'Busy time of the HTTP thread; near one second per second, it is saturated.',
    read: ({ busyMs }) => seconds(busyMs),
  }),
  gauge({
    name: 'collector_http_thread_connections',
    help: 'Open connections to the event listener.',
    read: ({ connections }) => connections,
  }),
];

/** States that exclude each other. */
const OTHER_NUMBERS: readonly Declared<Facts>[] = [
  gauge({
    name: 'collector_ledger_state',
    help: 'State of the ledger: 1 for its state, 0 for the others.',
    each: ({ storage }) => LEDGER_STATES.map((state) => [{ state }, storage.state === state]),
  }),
  gauge({
    name: 'collector_catalogue_events_behind',
    help: 'Events of the log that the catalogue has not read.',
    read: ({ runs, ledger }) => runs && Math.max(0, ledger.events - runs.events),
  }),
  gauge({
    name: 'collector_checkpoint_failing',
    help: 'Whether checkpoints are owed and cannot be made.',
    read: ({ checkpointTroubleSince }) => checkpointTroubleSince !== undefined,
  }),
  gauge({
    name: 'collector_log_forked',
    help: 'Whether the log in the database is behind the signed one (1), so that signing has stopped.',
    read: ({ ledger, alarms }) => ledger.shared && alarms.has('fork'),
  }),
  gauge({
    name: 'collector_acked_lost',
    help: 'Whether acknowledged events were found missing from the database since the start.',
    read: ({ ledger, alarms }) => ledger.shared && alarms.has('lost'),
  }),
  gauge({
    name: 'collector_certificate_expiry_timestamp_seconds',
    help: 'When a certificate expires.',
    each: ({ certificates }) =>
      certificates.map(({ name, notAfter }) => [{ certificate: name }, seconds(notAfter)]),
  }),
  counter({
    name: 'collector_break_glass_total',
    help: 'Looks with break-glass in collector-viewer since the start.',
    read: ({ breakGlass }) => breakGlass.looks,
  }),
  counter({
    name: 'collector_clock_steps_total',
    help: 'How often the wall clock was set by more than a second.',
    read: ({ clockSteps }) => clockSteps.count,
  }),
  counter({
    name: 'collector_log_lines_dropped_total',
    help: 'Log lines that were dropped because standard error did not accept them.',
    read: ({ droppedLines }) => droppedLines.lines,
  }),
  gauge({
    name: 'collector_warnings',
    help: 'Warnings on the console, by id.',
    each(facts) {
      const warnings = warningsOf(facts);
      return Object.keys(WARNINGS).map((id) => [{ id }, warnings.filter((each) => each.id === id).length]);
    },
  }),
];

export const NUMBERS: readonly Declared<Facts>[] = [
  ...PROCESS_NUMBERS,
  ...within(({ ingest }: Facts) => ingest, INGEST_NUMBERS),
  ...within(({ otlp }: Facts) => otlp, OTLP_NUMBERS),
  ...within(({ queue }: Facts) => queue, QUEUE_NUMBERS),
  ...within(({ ledger }: Facts) => ledger, LEDGER_NUMBERS),
  ...within(({ runs }: Facts) => runs, RUN_NUMBERS),
  ...within(({ index }: Facts) => index, INDEX_NUMBERS),
  ...within(({ disk }: Facts) => disk, DISK_NUMBERS),
  ...within(({ checkpoint }: Facts) => checkpoint, CHECKPOINT_NUMBERS),
  ...SINK_NUMBERS,
  ...KEY_NUMBERS,
  ...within(({ lastVerify }: Facts) => lastVerify, VERIFY_NUMBERS),
  ...within(({ lastBackup }: Facts) => lastBackup, BACKUP_NUMBERS),
  ...within(({ privacy }: Facts) => privacy, PRIVACY_NUMBERS),
  ...OTHER_NUMBERS,
];

/** A console cell with its number. */
export interface FilledCell extends Cell {
  readonly value: number;
}

/** The cells of all known numbers, in the order of their declarations. */
export function cellsOf(facts: Facts): FilledCell[] {
  return NUMBERS.flatMap(({ cell, lines }) => {
    const [line] = cell === undefined ? [] : lines(facts);
    if (cell === undefined || line === undefined || (cell.warns && line.value === 0)) return [];
    return [{ ...cell, value: line.value }];
  });
}
