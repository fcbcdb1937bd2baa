/**
 * What the console shows, as `GET /console/state.json` gives it. Counts, instants and states only; the names of kinds
 * and codes are those of the protocol, keys are told by their ids, and no event and nobody's name is in it.
 *
 * Instants are RFC 3339 in UTC; times in milliseconds unless the name says otherwise; null is what is not known.
 */

export interface ConsoleState {
  readonly at: string;
  readonly version: string;
  /** How `collector` is typed on its host, without a path. */
  readonly command: string;
  readonly node: string;
  readonly started_at: string;
  readonly health: {
    readonly live: boolean;
    readonly ready: boolean;
    readonly checks: readonly HealthCheck[];
  };
  readonly traffic: {
    /** Over the last ten seconds. */
    readonly accepted_per_second: number;
    readonly refused_per_second: number;
    /** At most 300, oldest first, about a second each: `ms` says how long. */
    readonly seconds: readonly Second[];
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
  /** Since the start; null where OTLP is not taken. */
  readonly otlp: {
    readonly items: readonly OtlpItems[];
    /** Events that were stored without their longest contents. */
    readonly shortened: number;
  } | null;
  /** How complete the runs are that began since then, 30 days ago. Null before the first count. */
  readonly runs: {
    readonly since: string;
    readonly full: number;
    readonly minimum: number;
    readonly incomplete: number;
    readonly erased: number;
    /** Of all of these. */
    readonly without_outcome: number;
    /** Events of records that began since then, whose run has no start or whose parent is not there. */
    readonly orphan_events: number;
    /** Not taken in yet. */
    readonly events_behind: number;
  } | null;
  readonly queue: {
    readonly events: number;
    readonly bytes: number;
    readonly max_events: number;
    readonly max_bytes: number;
  };
  readonly keys: readonly Key[];
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
     * Free bytes by what the ledger grows a day, its index and tree included: in each of the last twelve hours, or in most
     * of the last three to seven days. Null while that is not known, and when nothing does. Other things on the disk are
     * not foreseen.
     */
    readonly days_until_full: number | null;
    /** When it can be known; null when it is given, or when nothing grows steadily. */
    readonly forecast_in_seconds: number | null;
  };
  readonly index: { readonly entries: number; readonly unwritten_tables: number } | null;
  readonly checkpoint: {
    /** Events, and entries of the log's own. */
    readonly entries: number;
    readonly at: string;
    /** In the log and not under it. */
    readonly entries_behind: number;
  } | null;
  /**
   * Null where the log is in a data directory. Within the delay 99 of 100 batches came under a checkpoint, of those that
   * this collector gave their places; null before the first.
   */
  readonly database: { readonly merge_delay_p99_ms: number | null } | null;
  /** Since when none can be made. */
  readonly checkpoints_fail_since: string | null;
  readonly sinks: readonly Sink[];
  readonly last_verify: { readonly at: string; readonly intact: boolean; readonly events: number } | null;
  /** By collector backup on this data directory. */
  readonly last_backup: {
    readonly at: string;
    readonly events: number;
    readonly events_since: number;
  } | null;
  /** Null where payloads are not encrypted. */
  readonly privacy: {
    readonly directories: number;
    /** Of these, how many cannot be written. */
    readonly unreached: number;
    readonly epoch_begun: string;
    /** Events that were erased. */
    readonly erased: number;
    /** Erasures that have begun and are not at their end. */
    readonly pending: number;
    readonly holds: number;
  } | null;
  readonly certificates: readonly { readonly name: string; readonly not_after: string }[];
  /** Declared numbers that a card lists, in its order. */
  readonly cells: readonly Cell[];
  /** The most severe first. */
  readonly warnings: readonly Warning[];
  /** What is not set up and most logs should have. */
  readonly hints: readonly Hint[];
}

interface HealthCheck {
  readonly name: string;
  readonly ok: boolean;
  readonly reason: string | null;
}

export interface Cell {
  readonly card: 'health' | 'storage' | 'proof' | 'runs';
  readonly label: string;
  readonly value: number;
  /** `instant`: seconds since 1970. */
  readonly format: 'count' | 'bytes' | 'instant';
  /** The noun that follows a count: its singular and its plural. */
  readonly noun?: readonly [string, string];
  readonly more?: string;
  /** It is a trouble: 0 is not listed. */
  readonly warns?: true;
}

export interface Second {
  readonly at: string;
  readonly ms: number;
  readonly accepted: number;
  readonly refused: number;
  readonly p50_ms: number | null;
  readonly p99_ms: number | null;
}

export interface Key {
  readonly key_id: string;
  readonly organisation: string;
  readonly note: string;
  readonly state: 'usable' | 'expired' | 'revoked';
  /** The key that took its place when it was rotated. */
  readonly replaced_by: string | null;
  /** Within the last hour. */
  readonly in_use: boolean;
  readonly created_at: string;
  readonly expires_at: string | null;
  /** The three below: since the start. */
  readonly last_used_at: string | null;
  readonly requests: number;
  readonly over_rate: number;
}

export interface Sink {
  readonly number: number;
  readonly kind: 'directory' | 'file' | 'program' | 'witness';
  readonly state: 'ok' | 'failing' | 'forked' | 'untried';
  /** Of the last checkpoint that it took. */
  readonly entries: number | null;
  readonly at: string | null;
  readonly failing_since: string | null;
  readonly waiting: number;
  readonly dropped: number;
}

export interface Warning {
  readonly id: string;
  readonly severity: 'critical' | 'warning';
  readonly title: string;
  readonly what_to_do: string;
}

export interface Hint {
  readonly id: string;
  readonly title: string;
  readonly what_to_do: string;
}

/** Spans (traces) or log records (logs) that came by OTLP. */
interface OtlpItems {
  readonly signal: 'traces' | 'logs';
  readonly stored: number;
  /** Those that are about no run, by reason. */
  readonly ignored: Readonly<Record<string, number>>;
  /** Those that can never be stored, by code. */
  readonly rejected: Readonly<Record<string, number>>;
}
