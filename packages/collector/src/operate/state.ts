/** `GET /console/state.json`: everything that the console shows (console/console-state.ts). */
import { acceptedEvents, refusedRequests } from '../ingest/ingest-counters.js';
import { DELAY_BOUNDS_MS, quantile } from '../numbers.js';
import type { ConsoleState } from './console/console-state.js';
import { healthOf, isLive, isReady } from './health.js';
import { hintsOf } from './hints.js';
import { cellsOf } from './numbers.js';
import { isInUse, isUsable, type KeyState } from '../access/key-ring.js';
import type { Facts } from './snapshot.js';
import type { Watch } from './watch.js';
import { warningsOf } from './warnings.js';
import { instant } from '../quantity.js';

/** @param typed replaces each `collector COMMAND` in a text by the command as it is typed on the host. */
export function stateOf(facts: Facts, watch: Watch, typed: (text: string) => string): ConsoleState {
  const asTyped = <Item extends { what_to_do: string }>(item: Item) => ({
    ...item,
    what_to_do: typed(item.what_to_do),
  });
  const checks = healthOf(facts);
  return {
    at: instant(facts.now),
    version: facts.version,
    commit: facts.commit,
    command: facts.command,
    node: process.version,
    started_at: instant(facts.startedAt),
    health: {
      live: isLive(checks),
      ready: isReady(checks),
      checks: checks.map(({ name, failure }) => ({
        name,
        ok: failure === undefined,
        reason: failure?.reason ?? null,
      })),
    },
    ...traffic(facts, watch),
    runs: runs(facts),
    queue: {
      events: facts.queue.events,
      bytes: facts.queue.bytes,
      max_events: facts.queue.maxEvents,
      max_bytes: facts.queue.maxBytes,
    },
    keys: facts.keys.map((key) => stateOfKey(key, facts.now)),
    keys_not_listed: facts.keysNotListed,
    ...ledger(facts, watch),
    ...proof(facts),
    certificates: facts.certificates.map(({ name, notAfter }) => ({ name, not_after: instant(notAfter) })),
    cells: cellsOf(facts),
    warnings: warningsOf(facts).map(asTyped),
    hints: hintsOf(facts).map(asTyped),
  };
}

const RATE_OVER_MS = 10_000;

function traffic(
  { ingest, ledger: { outcomes }, otlp }: Facts,
  { samples }: Watch,
): Pick<ConsoleState, 'traffic' | 'totals' | 'otlp'> {
  const rates = samples.rates(RATE_OVER_MS);
  return {
    traffic: {
      accepted_per_second: rates.accepted,
      refused_per_second: rates.refused,
      seconds: samples
        .list()
        .map(({ at, p50, p99, ...sample }) => ({ at: instant(at), ...sample, p50_ms: p50, p99_ms: p99 })),
    },
    totals: {
      accepted: acceptedEvents(ingest),
      refused: refusedRequests(ingest),
      repeats: outcomes.duplicate,
      conflicts: outcomes.conflict,
    },
    otlp:
      otlp === undefined
        ? null
        : {
            items: (['traces', 'logs'] as const).map((signal) => ({
              signal,
              stored: otlp.signals[signal].stored,
              ignored: Object.fromEntries(otlp.signals[signal].ignored),
              rejected: Object.fromEntries(otlp.signals[signal].rejected),
            })),
            shortened: otlp.shortened,
          },
  };
}

function runs({ runs: found, ledger: { events } }: Facts): ConsoleState['runs'] {
  if (found === undefined) return null;
  return {
    since: instant(found.since),
    full: found.full,
    minimum: found.minimum,
    incomplete: found.incomplete,
    erased: found.erased,
    without_outcome: found.withoutOutcome,
    orphan_events: found.orphanEvents,
    events_behind: Math.max(0, events - found.events),
  };
}

function ledger(facts: Facts, watch: Watch): Pick<ConsoleState, 'ledger' | 'disk' | 'index'> {
  const { disk, index, daysUntilFull } = facts;
  const { eventsPerHour, bytesPerHour, watchedMs, steadyKnownInMs } = watch.growth(facts);
  return {
    ledger: {
      state: facts.storage.state,
      events: facts.ledger.events,
      bytes: facts.ledger.bytes,
      events_per_hour: eventsPerHour ?? null,
      bytes_per_hour: bytesPerHour ?? null,
      watched_seconds: Math.floor(watchedMs / 1000),
    },
    disk: {
      free_bytes: disk?.freeBytes ?? null,
      total_bytes: disk?.totalBytes ?? null,
      days_until_full: daysUntilFull !== undefined && Number.isFinite(daysUntilFull) ? daysUntilFull : null,
      forecast_in_seconds: steadyKnownInMs === undefined ? null : Math.ceil(steadyKnownInMs / 1000),
    },
    index: index === undefined ? null : { entries: index.entries, unwritten_tables: index.frozenTables },
  };
}

/** The evidence that the log is intact: checkpoints, sinks, the last verification and back-up, keys. */
function proof(
  facts: Facts,
): Pick<
  ConsoleState,
  'checkpoint' | 'database' | 'checkpoints_fail_since' | 'sinks' | 'last_verify' | 'last_backup' | 'privacy'
> {
  const { checkpoint, sinks, lastVerify, lastBackup, privacy } = facts;
  const { events, entries, shared } = facts.ledger;
  return {
    checkpoint: checkpoint
      ? {
          entries: checkpoint.entries,
          at: instant(checkpoint.at),
          entries_behind: Math.max(0, entries - checkpoint.entries),
        }
      : null,
    database: shared
      ? { merge_delay_p99_ms: quantile(DELAY_BOUNDS_MS, shared.merges.counts, 0.99) ?? null }
      : null,
    checkpoints_fail_since: instant(facts.checkpointTroubleSince),
    sinks: sinks.map(({ kind, state, waiting }, i) => ({
      number: i + 1,
      kind,
      state: state?.state ?? 'untried',
      entries: state?.size ?? null,
      at: state?.at ?? null,
      failing_since: state?.failing_since ?? null,
      waiting,
      dropped: state?.dropped ?? 0,
    })),
    last_verify: lastVerify ? { ...lastVerify, at: instant(lastVerify.at) } : null,
    last_backup: lastBackup
      ? {
          at: instant(lastBackup.at),
          events: lastBackup.events,
          events_since: Math.max(0, events - lastBackup.events),
        }
      : null,
    privacy: privacy
      ? {
          directories: privacy.directories,
          unreached: privacy.unreached,
          epoch_begun: instant(privacy.epochBegun),
          erased: privacy.erased,
          pending: privacy.pending,
          holds: privacy.holds,
        }
      : null,
  };
}

function stateOfKey(key: KeyState, now: number): ConsoleState['keys'][number] {
  return {
    key_id: key.keyId,
    organisation: key.organisation,
    note: key.note,
    state: key.revokedAt !== undefined ? 'revoked' : isUsable(key, now) ? 'usable' : 'expired',
    replaced_by: key.replacedBy ?? null,
    in_use: isInUse(key, now),
    created_at: instant(key.createdAt),
    expires_at: instant(key.expiresAt),
    last_used_at: instant(key.lastUsedAt),
    requests: key.uses,
    over_rate: key.overRate,
  };
}
