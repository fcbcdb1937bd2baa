/** `GET /console/state.json`: all that the console shows, in one piece (console/console-state.ts). */
import { EVENT_KINDS } from '@clinical-events/protocol';
import type { KeyUse } from '../access/key-ring.js';
import type { ConsoleState, Key } from '../console/console-state.js';
import type { AnswerCount } from '../ingest/ingest-counters.js';
import { daysUntilFull } from './growth.js';
import { healthOf, isLive, isReady } from './health.js';
import { hintsOf } from './hints.js';
import { isInUse, isUsable, shownKeys } from './shown-keys.js';
import type { Vitals } from './vitals.js';
import { warningsOf, type Facts } from './warnings.js';
import type { Watch } from './watch.js';

const RATE_OVER_MS = 10_000;

export function stateOf(vitals: Vitals, watch: Watch): ConsoleState {
  const now = Date.now();
  const facts = factsOf(vitals, watch, now);
  const checks = healthOf(vitals, performance.now());
  const answers = vitals.ingest.counters.answers();
  const { fates, events, entries, bytes } = vitals.ledger();
  const { growth } = watch;
  const rates = watch.samples.rates(RATE_OVER_MS);
  const { checkpoint, disk, queue } = facts;
  const index = vitals.index();
  const runs = vitals.runs();
  const keys = shownKeys(facts.keys, now);
  const asTyped = <Item extends { what_to_do: string }>(item: Item) => ({
    ...item,
    what_to_do: vitals.typed(item.what_to_do),
  });
  return {
    at: instant(now),
    version: vitals.version,
    command: vitals.command,
    node: process.version,
    started_at: instant(vitals.startedAt),
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
    totals: { ...totals(answers), repeats: fates.duplicate, conflicts: fates.conflict },
    runs:
      runs === undefined
        ? null
        : {
            since: instant(runs.since),
            full: runs.full,
            minimum: runs.minimum,
            incomplete: runs.incomplete,
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
    certificates: facts.certificates.map(({ name, notAfter }) => ({ name, not_after: instant(notAfter) })),
    warnings: warningsOf(facts).map(asTyped),
    hints: hintsOf(facts).map(asTyped),
  };
}

export function factsOf(vitals: Vitals, watch: Watch, now: number): Facts {
  const trouble = vitals.checkpointTrouble();
  const { disk } = watch;
  return {
    now,
    storage: vitals.ingest.storage,
    queue: vitals.ingest.queue,
    disk,
    daysUntilFull: disk === undefined ? undefined : daysUntilFull(watch.growth, disk.freeBytes),
    events: vitals.ledger().events,
    entries: vitals.ledger().entries,
    checkpoint: vitals.checkpoint(),
    checkpointTroubleSince: trouble === undefined ? undefined : Date.parse(trouble.since),
    sinks: vitals.sinks(),
    lastVerify: vitals.lastVerify(),
    lastBackup: vitals.lastBackup(),
    backupMaxAgeMs: vitals.backupMaxAgeMs(),
    logBeganAt: vitals.logBeganAt(),
    keys: [...vitals.keys()],
    keysCurrent: vitals.keysCurrent(),
    accessLogAltered: vitals.accessLogAltered(),
    catalogueTroubleSince: vitals.catalogueTroubleSince(),
    certificates: vitals.certificates(),
    clockStep: watch.clockStep,
    tokenInClear: vitals.tokenInClear(),
    exposed: vitals.exposed(),
    droppedLines: vitals.droppedLines(),
    keyDiesWithDisk: vitals.keyDiesWithDisk(),
    keyGone: vitals.keyGone(),
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

function totals(answers: readonly AnswerCount[]): Pick<ConsoleState['totals'], 'accepted' | 'refused'> {
  const accepted: Record<string, number> = Object.fromEntries(EVENT_KINDS.map((kind) => [kind, 0]));
  const refused: Record<string, number> = {};
  for (const { kind, code, count } of answers) {
    if (count === 0) continue;
    const [counts, name] = code === 'accepted' ? [accepted, kind] : [refused, code];
    counts[name] = (counts[name] ?? 0) + count;
  }
  return { accepted, refused };
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
