/**
 * The state that the console shows, as `GET /console/state.json` returns it. It has counts, instants and
 * states only; kinds and codes have the protocol's names, keys are identified by their ids, and no event or
 * person appears.
 *
 * Instants are RFC 3339 in UTC; durations are in milliseconds unless the name says otherwise; null means
 * unknown.
 */

export interface ConsoleState {
  readonly at: string;
  readonly version: string;
  /** The commit of the sources, or "unknown". */
  readonly commit: string;
  /** The command `collector` as typed on its host, without a path. */
  readonly command: string;
  readonly node: string;
  readonly started_at: string;
  readonly health: {
    readonly live: boolean;
    readonly ready: boolean;
    readonly checks: readonly HealthCheck[];
  };
  readonly traffic: {
    /** Average of the last ten seconds. */
    readonly accepted_per_second: number;
    readonly refused_per_second: number;
    /** At most 300 samples, oldest first, of about a second each; `ms` is the length. */
    readonly seconds: readonly Second[];
  };
  /** Counted since the start. */
  readonly totals: {
    /** Requests answered with 201 by kind, repeats included. */
    readonly accepted: Readonly<Record<string, number>>;
    /** Requests by the code of their refusal; only codes that occurred. */
    readonly refused: Readonly<Record<string, number>>;
    /** Accepted events that were stored before. */
    readonly repeats: number;
    readonly conflicts: number;
  };
  /** Counted since the start; null when OTLP is off. */
  readonly otlp: {
    readonly items: readonly OtlpItems[];
    /** Events that were stored without their longest contents. */
    readonly shortened: number;
  } | null;
  /** The completeness of runs that began since then, 30 days ago. Null before the first count. */
  readonly runs: {
    readonly since: string;
    readonly full: number;
    readonly minimum: number;
    readonly incomplete: number;
    readonly erased: number;
    /** Number of these runs without an outcome, whatever their completeness. */
    readonly without_outcome: number;
    /** Events since then whose run has no start or whose parent is missing. */
    readonly orphan_events: number;
    /** Events that the catalogue has not read. */
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
    /** Over the observed time, at most a day; null until it is ten minutes. */
    readonly events_per_hour: number | null;
    readonly bytes_per_hour: number | null;
    readonly watched_seconds: number;
  };
  readonly disk: {
    readonly free_bytes: number | null;
    readonly total_bytes: number | null;
    /**
     * Free bytes divided by the daily growth of the ledger, index and tree included, if it grew in each of
     * the last twelve hours or on most of the last three to seven days. Null when unknown, and without
     * growth. Other files on the disk are not considered.
     */
    readonly days_until_full: number | null;
    /** When the forecast will be known; null when it is known or nothing grows steadily. */
    readonly forecast_in_seconds: number | null;
  };
  readonly index: { readonly entries: number; readonly unwritten_tables: number } | null;
  readonly checkpoint: {
    /** Events and the log's own entries. */
    readonly entries: number;
    readonly at: string;
    /** Entries of the log that no checkpoint covers. */
    readonly entries_behind: number;
  } | null;
  /**
   * Null for a log in a data directory. The delay within which a checkpoint covers 99 of 100 batches that
   * this collector sequenced; null before the first.
   */
  readonly database: { readonly merge_delay_p99_ms: number | null } | null;
  /** Since when no checkpoint can be made. */
  readonly checkpoints_fail_since: string | null;
  readonly sinks: readonly Sink[];
  readonly last_verify: { readonly at: string; readonly intact: boolean; readonly events: number } | null;
  /** The last run of `collector backup` on this data directory. */
  readonly last_backup: {
    readonly at: string;
    readonly events: number;
    readonly events_since: number;
  } | null;
  /** Null when payloads are not encrypted. */
  readonly privacy: {
    readonly directories: number;
    /** Directories that cannot be written. */
    readonly unreached: number;
    readonly epoch_begun: string;
    /** Erased events. */
    readonly erased: number;
    /** Erasures that have begun and are not complete. */
    readonly pending: number;
    readonly holds: number;
  } | null;
  readonly certificates: readonly { readonly name: string; readonly not_after: string }[];
  /** The declared numbers of each card, in its order. */
  readonly cells: readonly Cell[];
  /** The most severe first. */
  readonly warnings: readonly Warning[];
  /** Hints about missing settings that most logs should have. */
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
  /** The noun after a count, in singular and plural. */
  readonly noun?: readonly [string, string];
  readonly more?: string;
  /** A non-zero value is a problem; 0 is not listed. */
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
  /** The key that replaced it at its rotation. */
  readonly replaced_by: string | null;
  /** Whether it was used within the last hour. */
  readonly in_use: boolean;
  readonly created_at: string;
  readonly expires_at: string | null;
  /** This member and the next two count since the start. */
  readonly last_used_at: string | null;
  readonly requests: number;
  readonly over_rate: number;
}

export interface Sink {
  readonly number: number;
  readonly kind: 'directory' | 'file' | 'program' | 'witness';
  readonly state: 'ok' | 'failing' | 'forked' | 'untried';
  /** The time of the last checkpoint that it accepted. */
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

/** Spans (traces) or log records (logs) received by OTLP. */
interface OtlpItems {
  readonly signal: 'traces' | 'logs';
  readonly stored: number;
  /** Items that belong to no run, by reason. */
  readonly ignored: Readonly<Record<string, number>>;
  /** Items that cannot be stored, by code. */
  readonly rejected: Readonly<Record<string, number>>;
}
