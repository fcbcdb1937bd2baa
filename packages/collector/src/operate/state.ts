/** `GET /console/state.json`: all that the console shows, in one piece (console/console-state.ts). */
import type { ErrorCode } from '@clinical-events/protocol';
import type { KeyUse } from '../access/key-ring.js';
import type { StorageReason } from '../ledger/ledger.js';
import type { AnswerCount } from '../ingest/ingest-counters.js';
import type { Signal } from '../otlp/decoded.js';
import type { OtlpCounters } from '../otlp/otlp-counters.js';
import { quantile, TIME_BOUNDS_MS } from '../ledger/buckets.js';
import type { ConsoleState, Key } from './console/console-state.js';
import { type CollectorStatus, type Watch, daysUntilFull } from './status.js';
import {
  type Facts,
  isBackupOld,
  isInUse,
  isSigningStalled,
  isUsable,
  shownKeys,
  warningsOf,
} from './warnings.js';

/*
 * Whether the collector lives, and whether it should be sent events.
 *
 * It lives as long as its threads answer: a start again helps against nothing else, least of all a full disk. It is
 * ready when an event sent now would most likely be stored.
 */

export interface HealthCheck {
  readonly name: 'startup' | 'shutdown' | 'listener' | 'ledger_thread' | 'storage' | 'signing';
  /** Why it fails; undefined when it does not. */
  readonly failure:
    | {
        readonly reason: string;
        /** The reason in a word that stays the same. */
        readonly cause: HealthCause;
        readonly code: ErrorCode;
      }
    | undefined;
  /** Whether a start again would be the remedy. */
  readonly fatal: boolean;
}

type HealthCause =
  | ('starting' | 'stopping' | 'not_listening' | 'silent_thread' | 'signing_stalled' | 'ledger_failed')
  | StorageReason;

const STORAGE_REASONS: Readonly<Record<StorageReason, string>> = {
  keys_unwritable: 'the keys of payloads cannot be written',
  index_unwritable: 'the index of ids cannot be written',
  disk_full: 'the disk is full',
  read_only: 'the file system is read-only',
  permission_denied: 'the collector may not write there',
  database_unavailable: 'the database does not take them',
  write_failed: 'a write failed',
};

const DEAD_AFTER_MS = 60_000;
const STALLED_AFTER_MS = 10_000;

/** @param now the monotonic clock, milliseconds. */
export function healthOf(
  collectorStatus: Pick<CollectorStatus, 'phase' | 'ingest' | 'ledgerLivedAt'> &
    Partial<Pick<CollectorStatus, 'ledger' | 'listens'>>,
  now: number,
): HealthCheck[] {
  const phase = collectorStatus.phase();
  const { state, reason: refused = 'write_failed' } = collectorStatus.ingest.storage;
  const silentFor = (livedAt: number | undefined) =>
    livedAt === undefined || phase !== 'running' ? 0 : now - livedAt;
  const check = (
    name: HealthCheck['name'],
    fails: boolean,
    code: ErrorCode,
    cause: HealthCause,
    reason: string,
    fatal = false,
  ): HealthCheck => ({ name, failure: fails ? { reason, cause, code } : undefined, fatal: fails && fatal });
  /** A thread that waits for a slow disk is no reason to start again; one that says nothing for long is. */
  const checkThread = (name: HealthCheck['name'], whose: string, silent: number) =>
    check(
      name,
      silent > STALLED_AFTER_MS,
      'storage_unavailable',
      'silent_thread',
      `${whose} said nothing for ${Math.floor(silent / 1000)} seconds`,
      silent > DEAD_AFTER_MS,
    );
  const shared = collectorStatus.ledger?.().shared;
  return [
    check('startup', phase === 'starting', 'storage_unavailable', 'starting', 'the ledger is being opened'),
    check('shutdown', phase === 'stopping', 'shutting_down', 'stopping', 'the collector is stopping'),
    ...(collectorStatus.listens?.() === false
      ? [
          check(
            'listener',
            true,
            'storage_unavailable',
            'not_listening',
            'it was started with --no-listen and takes no events',
          ),
        ]
      : []),
    checkThread('ledger_thread', "the ledger's thread has", silentFor(collectorStatus.ledgerLivedAt())),
    check(
      'storage',
      // The ledger tries by itself whether it can store again: a load balancer lets no event through to show it.
      state !== 'open',
      'storage_unavailable',
      state === 'failed' ? 'ledger_failed' : refused,
      state === 'failed' ? 'the ledger has failed' : `events cannot be stored: ${STORAGE_REASONS[refused]}`,
    ),
    ...(shared === undefined
      ? []
      : [
          check(
            'signing',
            isSigningStalled(shared),
            'storage_unavailable',
            'signing_stalled',
            `nothing is signed: the oldest batch has waited for its place for ${Math.floor(shared.stalledMs / 1000)} seconds`,
          ),
        ]),
  ];
}

export function isLive(checks: readonly HealthCheck[]): boolean {
  return !checks.some(({ fatal }) => fatal);
}

export function isReady(checks: readonly HealthCheck[]): boolean {
  return checks.every(({ failure }) => failure === undefined);
}

/** One line a check and a verdict, in the form that Kubernetes gives its own health endpoints. */
export function healthText(endpoint: 'livez' | 'readyz', checks: readonly HealthCheck[]): string {
  const failed = (check: HealthCheck) => (endpoint === 'livez' ? check.fatal : check.failure !== undefined);
  const lines = checks.map((check) =>
    failed(check) ? `[-]${check.name} failed: ${check.failure?.reason ?? ''}` : `[+]${check.name} ok`,
  );
  return [...lines, `${endpoint} check ${checks.some(failed) ? 'failed' : 'passed'}`, ''].join('\n');
}

/*
 * What is not set up and most logs should have: no trouble, so no alarm, no metric and no place in the tab's title. Pure
 * functions of what is known, like the warnings; the ids are a promise too.
 */

export interface Hint {
  readonly id: 'no_checkpoint_sink' | 'keys_without_mirror' | 'no_backup_yet' | 'not_verified_yet';
  readonly title: string;
  readonly what_to_do: string;
}

/** In the order in which they are best done. Each goes away by itself, within a second of being done. */
export function hintsOf(facts: Facts): Hint[] {
  return [...sink(facts), ...mirrorless(facts), ...missingBackup(facts), ...verification(facts)];
}

function* sink({ sinks }: Facts): Generator<Hint> {
  if (sinks.length > 0) return;
  yield {
    id: 'no_checkpoint_sink',
    title: 'Checkpoints stay on this host',
    what_to_do:
      'Anyone who owns it can rewrite the log and them together. Send them to someone else: --checkpoint-sink.',
  };
}

function* mirrorless({ privacy, shared }: Facts): Generator<Hint> {
  if (privacy === undefined || privacy.directories > 1 || shared !== undefined) return;
  yield {
    id: 'keys_without_mirror',
    title: 'The keys of payloads are in one directory alone',
    what_to_do:
      'Without them no payload can be read again. Keep them on another disk than the data, and a mirror on a third: --encryption-keys DIR,MIRROR (docs/guide/encryption.md).',
  };
}

/** Until a warning takes its place, or someone has said that back-ups are made otherwise. */
function* missingBackup(facts: Facts): Generator<Hint> {
  if (facts.lastBackup !== undefined || facts.backupMaxAgeMs === 0 || isBackupOld(facts)) return;
  yield {
    id: 'no_backup_yet',
    title: 'No back-up yet',
    what_to_do: 'Keep collector backup DIRECTORY --follow running, best to another machine.',
  };
}

/** A log in a database is verified where its mirror is. */
function* verification({ lastVerify, shared }: Facts): Generator<Hint> {
  if (lastVerify !== undefined || shared !== undefined) return;
  yield {
    id: 'not_verified_yet',
    title: 'Never verified',
    what_to_do:
      'Have a timer run collector verify --note every day: it checks the whole log and tells of it here.',
  };
}

const RATE_OVER_MS = 10_000;

export function stateOf(collectorStatus: CollectorStatus, watch: Watch): ConsoleState {
  const now = Date.now();
  const facts = factsOf(collectorStatus, watch, now);
  const checks = healthOf(collectorStatus, performance.now());
  const { counters } = collectorStatus.ingest;
  const otlp = collectorStatus.otlp();
  const { outcomes, events, entries, bytes, shared } = collectorStatus.ledger();
  const { growth } = watch;
  const rates = watch.samples.rates(RATE_OVER_MS);
  const { checkpoint, disk, queue } = facts;
  const index = collectorStatus.index();
  const runs = collectorStatus.runs();
  const keys = shownKeys(facts.keys, now);
  const asTyped = <Item extends { what_to_do: string }>(item: Item) => ({
    ...item,
    what_to_do: collectorStatus.typed(item.what_to_do),
  });
  return {
    at: instant(now),
    version: collectorStatus.version,
    command: collectorStatus.command,
    node: process.version,
    started_at: instant(collectorStatus.startedAt),
    health: {
      live: isLive(checks),
      ready: isReady(checks),
      checks: checks.map(({ name, failure }) => ({
        name,
        ok: failure === undefined,
        reason: failure?.reason ?? null,
      })),
    },
    traffic: {
      accepted_per_second: rates.accepted,
      refused_per_second: rates.refused,
      seconds: watch.samples
        .list()
        .map(({ at, p50, p99, ...sample }) => ({ at: instant(at), ...sample, p50_ms: p50, p99_ms: p99 })),
    },
    totals: {
      accepted: counters.acceptedEvents(),
      refused: refusals(counters.answers()),
      repeats: outcomes.duplicate,
      conflicts: outcomes.conflict,
    },
    otlp: otlp === undefined ? null : otlpState(otlp),
    runs:
      runs === undefined
        ? null
        : {
            since: instant(runs.since),
            full: runs.full,
            minimum: runs.minimum,
            incomplete: runs.incomplete,
            retired: runs.retired,
            without_outcome: runs.withoutOutcome,
            orphan_events: runs.orphanEvents,
            events_behind: Math.max(0, events - runs.events),
          },
    queue: {
      events: queue.events,
      bytes: queue.bytes,
      max_events: queue.maxEvents,
      max_bytes: queue.maxBytes,
    },
    keys: keys.map((use) => stateOfKey(use, now)),
    keys_not_listed: facts.keys.length - keys.length,
    ledger: {
      state: facts.storage.state,
      events,
      bytes,
      events_per_hour: growth.eventsPerHour ?? null,
      bytes_per_hour: growth.bytesPerHour ?? null,
      watched_seconds: Math.floor(growth.watchedMs / 1000),
    },
    disk: {
      free_bytes: disk?.freeBytes ?? null,
      total_bytes: disk?.totalBytes ?? null,
      days_until_full: finite(facts.daysUntilFull),
      forecast_in_seconds:
        growth.steadyKnownInMs === undefined ? null : Math.ceil(growth.steadyKnownInMs / 1000),
    },
    index: index === undefined ? null : { entries: index.entries, unwritten_tables: index.frozenTables },
    checkpoint:
      checkpoint === undefined
        ? null
        : {
            entries: checkpoint.entries,
            at: instant(checkpoint.at),
            entries_behind: Math.max(0, entries - checkpoint.entries),
          },
    database:
      shared === undefined
        ? null
        : { merge_delay_p99_ms: quantile(TIME_BOUNDS_MS, shared.merges.counts, 0.99) ?? null },
    checkpoints_fail_since: known(facts.checkpointTroubleSince),
    sinks: facts.sinks.map(({ kind, state, waiting }, i) => ({
      number: i + 1,
      kind,
      state: state?.state ?? 'untried',
      entries: state?.size ?? null,
      at: state?.at ?? null,
      failing_since: state?.failing_since ?? null,
      waiting,
      dropped: state?.dropped ?? 0,
    })),
    last_verify:
      facts.lastVerify === undefined ? null : { ...facts.lastVerify, at: instant(facts.lastVerify.at) },
    last_backup:
      facts.lastBackup === undefined
        ? null
        : {
            at: instant(facts.lastBackup.at),
            events: facts.lastBackup.events,
            events_since: Math.max(0, events - facts.lastBackup.events),
          },
    privacy:
      facts.privacy === undefined
        ? null
        : {
            directories: facts.privacy.directories,
            unreached: facts.privacy.unreached,
            epoch_begun: instant(facts.privacy.epochBegun),
            retired: facts.privacy.retired,
            pending: facts.privacy.pending,
            holds: facts.privacy.holds,
          },
    certificates: facts.certificates.map(({ name, notAfter }) => ({ name, not_after: instant(notAfter) })),
    warnings: warningsOf(facts).map(asTyped),
    hints: hintsOf(facts).map(asTyped),
  };
}

export function factsOf(collectorStatus: CollectorStatus, watch: Watch, now: number): Facts {
  const trouble = collectorStatus.checkpointTrouble();
  const { disk } = watch;
  return {
    now,
    storage: collectorStatus.ingest.storage,
    queue: collectorStatus.ingest.queue,
    disk,
    daysUntilFull: disk === undefined ? undefined : daysUntilFull(watch.growth, disk.freeBytes),
    events: collectorStatus.ledger().events,
    entries: collectorStatus.ledger().entries,
    checkpoint: collectorStatus.checkpoint(),
    checkpointTroubleSince: trouble === undefined ? undefined : Date.parse(trouble.since),
    sinks: collectorStatus.sinks(),
    privacy: collectorStatus.privacy(),
    lastVerify: collectorStatus.lastVerify(),
    lastBackup: collectorStatus.lastBackup(),
    backupMaxAgeMs: collectorStatus.backupMaxAgeMs(),
    logBeganAt: collectorStatus.logBeganAt(),
    keys: [...collectorStatus.keys()],
    keysCurrent: collectorStatus.keysCurrent(),
    alarms: collectorStatus.alarms(),
    shared: collectorStatus.ledger().shared,
    catalogueTroubleSince: collectorStatus.catalogueTroubleSince(),
    certificates: collectorStatus.certificates(),
    clockStep: collectorStatus.clockSteps().last,
    tokenInClear: collectorStatus.tokenInClear(),
    exposed: collectorStatus.exposed(),
    droppedLines: collectorStatus.droppedLines(),
    keyGone: collectorStatus.keyGone(),
  };
}

function stateOfKey(use: KeyUse, now: number): Key {
  const { key, lastUsedAt, uses, overRate } = use;
  const { keyId, organisation, note, createdAt, expiresAt, revokedAt, replacedBy } = key;
  return {
    key_id: keyId,
    organisation,
    note,
    state: revokedAt !== undefined ? 'revoked' : isUsable(key, now) ? 'usable' : 'expired',
    replaced_by: replacedBy ?? null,
    in_use: isInUse(use, now),
    created_at: instant(createdAt),
    expires_at: known(expiresAt),
    last_used_at: known(lastUsedAt),
    requests: uses,
    over_rate: overRate,
  };
}

/** Requests by the code of their refusal, those that were ever given. */
function refusals(answers: readonly AnswerCount[]): Readonly<Record<string, number>> {
  const refused: Record<string, number> = {};
  for (const { code, count } of answers)
    if (count > 0 && code !== 'accepted') refused[code] = (refused[code] ?? 0) + count;
  return refused;
}

function otlpState({ signals, shortened }: OtlpCounters): ConsoleState['otlp'] {
  const items = (Object.keys(signals) as Signal[]).map((signal) => {
    const { stored, ignored, rejected } = signals[signal];
    return { signal, stored, ignored: Object.fromEntries(ignored), rejected: Object.fromEntries(rejected) };
  });
  return { items, shortened };
}

function instant(ms: number): string {
  return new Date(ms).toISOString();
}

function known(ms: number | undefined): string | null {
  return ms === undefined ? null : instant(ms);
}

function finite(number: number | undefined): number | null {
  return number === undefined || !Number.isFinite(number) ? null : number;
}
