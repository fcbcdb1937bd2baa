/**
 * `GET /console/state.json`: all that the console shows, in one piece. Counts, instants and states only; the names of
 * kinds and codes are those of the protocol, keys are told by their ids, and no event and nobody's name is in it.
 *
 * Instants are RFC 3339 in UTC; times in milliseconds unless the name says otherwise; null is what is not known.
 */
import { EVENT_KINDS } from '@clinical-events/protocol';
import type { AnswerCount } from '../ingest/ingest-counters.js';
import { daysUntilFull } from './growth.js';
import { healthOf, isLive, isReady } from './health.js';
import { isUsable, shownKeys } from './shown-keys.js';
import type { Vitals } from './vitals.js';
import { warningsOf, type Facts, type Warning } from './warnings.js';
import type { Watch } from './watch.js';

export interface ConsoleState {
  readonly at: string;
  readonly version: string;
  readonly node: string;
  readonly started_at: string;
  readonly health: {
    readonly live: boolean;
    readonly ready: boolean;
    readonly checks: readonly {
      readonly name: string;
      readonly ok: boolean;
      readonly reason: string | null;
    }[];
  };
  readonly traffic: {
    /** Over the last ten seconds. */
    readonly accepted_per_second: number;
    readonly refused_per_second: number;
    /** At most 300, oldest first, about a second each: `ms` says how long. */
    readonly seconds: readonly {
      readonly at: string;
      readonly ms: number;
      readonly accepted: number;
      readonly refused: number;
      readonly p50_ms: number | null;
      readonly p99_ms: number | null;
    }[];
  };
  /** Since the start. */
  readonly totals: {
    /** By kind: answered with 201, new events and repeats alike. */
    readonly accepted: Readonly<Record<string, number>>;
    /** By code; only those that were ever given. */
    readonly refused: Readonly<Record<string, number>>;
    /** Of those accepted, the ones that were stored before. */
    readonly repeats: number;
    readonly conflicts: number;
  };
  readonly queue: {
    readonly events: number;
    readonly bytes: number;
    readonly max_events: number;
    readonly max_bytes: number;
  };
  readonly keys: readonly {
    readonly key_id: string;
    readonly organisation: string;
    readonly note: string;
    readonly state: 'usable' | 'expired' | 'revoked';
    readonly created_at: string;
    readonly expires_at: string | null;
    /** The three below: since the start. */
    readonly last_used_at: string | null;
    readonly requests: number;
    readonly over_rate: number;
  }[];
  readonly keys_not_listed: number;
  readonly ledger: {
    readonly state: 'open' | 'refusing' | 'failed';
    readonly events: number;
    readonly bytes: number;
    /** Over the time that was watched, at most a day; null until that is ten minutes. */
    readonly events_per_hour: number | null;
    readonly bytes_per_hour: number | null;
    readonly watched_seconds: number;
  };
  readonly disk: {
    readonly free_bytes: number | null;
    readonly total_bytes: number | null;
    /**
     * Free bytes by what the ledger has grown a day over the time that was watched, its index and tree included. Null
     * while that is not known, and when nothing grows. Other things on the disk are not foreseen.
     */
    readonly days_until_full: number | null;
  };
  readonly index: { readonly entries: number; readonly unwritten_tables: number } | null;
  readonly checkpoint: {
    readonly events: number;
    readonly at: string;
    /** In the log and not under it. */
    readonly events_behind: number;
  } | null;
  /** Since when none can be made. */
  readonly checkpoints_fail_since: string | null;
  readonly sinks: readonly {
    readonly number: number;
    readonly kind: 'directory' | 'file' | 'witness';
    readonly state: 'ok' | 'failing' | 'forked' | 'untried';
    /** Of the last checkpoint that it took. */
    readonly events: number | null;
    readonly at: string | null;
    readonly failing_since: string | null;
    readonly waiting: number;
    readonly dropped: number;
  }[];
  readonly last_verify: { readonly at: string; readonly intact: boolean; readonly events: number } | null;
  readonly certificates: readonly { readonly name: string; readonly not_after: string }[];
  readonly warnings: readonly Warning[];
}

const RATE_OVER_MS = 10_000;

export function stateOf(vitals: Vitals, watch: Watch): ConsoleState {
  const now = Date.now();
  const facts = factsOf(vitals, watch, now);
  const checks = healthOf(vitals, performance.now());
  const answers = vitals.ingest.counters.answers();
  const { fates, events, bytes } = vitals.ledger();
  const { growth } = watch;
  const rates = watch.samples.rates(RATE_OVER_MS);
  const { checkpoint, disk, queue } = facts;
  const index = vitals.index();
  const keys = shownKeys(facts.keys, now);
  return {
    at: instant(now),
    version: vitals.version,
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
    queue: {
      events: queue.events,
      bytes: queue.bytes,
      max_events: queue.maxEvents,
      max_bytes: queue.maxBytes,
    },
    keys: keys.map(({ key, lastUsedAt, uses, overRate }) => ({
      key_id: key.keyId,
      organisation: key.organisation,
      note: key.note,
      state: key.revokedAt !== undefined ? 'revoked' : isUsable(key, now) ? 'usable' : 'expired',
      created_at: instant(key.createdAt),
      expires_at: known(key.expiresAt),
      last_used_at: known(lastUsedAt),
      requests: uses,
      over_rate: overRate,
    })),
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
            events: checkpoint.events,
            at: instant(checkpoint.at),
            events_behind: Math.max(0, events - checkpoint.events),
          },
    checkpoints_fail_since: known(facts.checkpointTroubleSince),
    sinks: facts.sinks.map(({ kind, state, waiting }, i) => ({
      number: i + 1,
      kind,
      state: state?.state ?? 'untried',
      events: state?.size ?? null,
      at: state?.at ?? null,
      failing_since: state?.failing_since ?? null,
      waiting,
      dropped: state?.dropped ?? 0,
    })),
    last_verify:
      facts.lastVerify === undefined ? null : { ...facts.lastVerify, at: instant(facts.lastVerify.at) },
    certificates: facts.certificates.map(({ name, notAfter }) => ({ name, not_after: instant(notAfter) })),
    warnings: warningsOf(facts),
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
    checkpoint: vitals.checkpoint(),
    checkpointTroubleSince: trouble === undefined ? undefined : Date.parse(trouble.since),
    sinks: vitals.sinks(),
    lastVerify: vitals.lastVerify(),
    keys: [...vitals.keys()],
    keysCurrent: vitals.keysCurrent(),
    certificates: vitals.certificates(),
    clockStep: watch.clockStep,
    exposed: vitals.exposed(),
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
