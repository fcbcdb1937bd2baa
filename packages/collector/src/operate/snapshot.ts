/**
 * The facts that the management listener has about the collector: counts, instants, states and names. Plain
 * data, because it passes from the main thread to the listener's thread. Instants are milliseconds since 1970
 * UTC.
 */
import type { KeyState } from '../access/key-ring.js';
import type { ClockStep } from '../clock.js';
import type { StorageState } from '../ingest/ingest.js';
import type { IngestCounts, QueueState } from '../ingest/ingest-counters.js';
import type { LedgerCounts } from '../ledger/ledger-counters.js';
import type { PrivacyState } from '../ledger/privacy-numbers.js';
import type { OtlpCounts } from '../otlp/otlp-counters.js';
import type { SinkView } from '../tree/publisher.js';

/** `starting`: the ledger is being opened. `stopping`: new events are refused. */
export type Phase = 'starting' | 'running' | 'stopping';

/** The newest checkpoint. */
export interface CheckpointState {
  /** The number of entries that it covers, the log's own included. */
  readonly entries: number;
  /** When it was signed. */
  readonly at: number;
}

/** The state of the id index, as its driver reports it. */
export interface IndexState {
  readonly entries: number;
  readonly runs: number;
  /** Full tables in memory that wait to be written. */
  readonly frozenTables: number;
  readonly diskBytes: number;
  readonly memoryBytes: number;
}

export interface DiskSpace {
  /** Bytes that the collector's user may still write. */
  readonly freeBytes: number;
  readonly totalBytes: number;
}

/** A certificate that the collector presents. */
interface CertificateState {
  /** The collector's own name for the certificate, never a path or a text from the certificate. */
  readonly name: string;
  /** The last instant of its validity. */
  readonly notAfter: number;
}

/** The result of the last `collector verify` on this data directory. */
export interface VerifyState {
  readonly at: number;
  readonly intact: boolean;
  readonly events: number;
}

/** The last run of `collector backup` on this data directory. */
export interface BackupState {
  /** When it began. */
  readonly at: number;
  /** Number of events that it holds. */
  readonly events: number;
  /** Whether it was a round of `--follow`. */
  readonly follows?: boolean;
}

/** The completeness of runs that began since an instant, and their orphaned events (catalogue/). */
export interface RunState {
  readonly since: number;
  readonly full: number;
  readonly minimum: number;
  readonly incomplete: number;
  readonly erased: number;
  /** Number of these runs without an outcome, whatever their completeness. */
  readonly withoutOutcome: number;
  readonly orphanEvents: number;
  /** Events of the log that the catalogue has read, of any age. */
  readonly events: number;
}

/**
 * The access log differs from its heads in the log; the log in the database is behind the signed one; or
 * acknowledged events are missing from it.
 */
export type Alarm = 'access-log' | 'fork' | 'lost';

export interface Snapshot {
  readonly now: number;
  /** The same instant on the monotonic clock of the main thread, in milliseconds. */
  readonly monotonic: number;
  readonly version: string;
  /** The commit of the sources, or "unknown". */
  readonly commit: string;
  /** The command `collector` as typed on its host, without a path. */
  readonly command: string;
  /** When the collector started. */
  readonly startedAt: number;
  readonly phase: Phase;
  readonly ingest: IngestCounts;
  readonly queue: QueueState;
  readonly storage: StorageState;
  /** Undefined when OTLP is off. */
  readonly otlp: OtlpCounts | undefined;
  readonly ledger: LedgerCounts;
  /** When its thread last reported, on the same monotonic clock; undefined while it is being opened. */
  readonly ledgerLivedAt: number | undefined;
  /** How long the main thread was busy since its start, in milliseconds. */
  readonly busyMs: number;
  /** Whether there is an event listener, and its open connections, including OTLP's. */
  readonly listens: boolean;
  readonly connections: number;
  readonly index: IndexState | undefined;
  /** Undefined when payloads are not encrypted. */
  readonly privacy: PrivacyState | undefined;
  /** Undefined before the first count. */
  readonly runs: RunState | undefined;
  /** Since when the catalogue cannot be updated. */
  readonly catalogueTroubleSince: number | undefined;
  /** At most 1,000 keys, the usable ones first (`shownKeys`). */
  readonly keys: readonly KeyState[];
  readonly keysNotListed: number;
  /** Whether the last read of the keys succeeded. */
  readonly keysCurrent: boolean;
  readonly sinks: readonly SinkView[];
  readonly checkpoint: CheckpointState | undefined;
  /** Since when no checkpoint can be made. */
  readonly checkpointTroubleSince: number | undefined;
  readonly alarms: ReadonlySet<Alarm>;
  readonly certificates: readonly CertificateState[];
  readonly lastVerify: VerifyState | undefined;
  readonly lastBackup: BackupState | undefined;
  /** The age of the last back-up from which a warning is shown, in milliseconds; 0: never. */
  readonly backupMaxAgeMs: number;
  /** When the log began or was restored here; undefined if unknown. */
  readonly logBeganAt: number | undefined;
  /** Whether the operator token comes unencrypted from other machines. */
  readonly tokenInClear: boolean;
  /** Whether other users of the host may enter the data directory. */
  readonly exposed: boolean;
  /** How often the clock was set since the start, and the last step. */
  readonly clockSteps: { readonly count: number; readonly last: ClockStep | undefined };
  /** Log lines that could not be written to standard error, and when the last one was dropped. */
  readonly droppedLines: { readonly lines: number; readonly at: number | undefined };
  /** Looks with break-glass in the viewer since the start, and the time of the last one. */
  readonly breakGlass: { readonly looks: number; readonly at: number | undefined };
  /** Whether a file of the signing key in the data directory is missing. */
  readonly keyGone: boolean;
  /** Undefined until the data directory's file system has answered once. */
  readonly disk: DiskSpace | undefined;
}

/** The input of warnings, health and numbers: a snapshot, and what the listener itself knows. */
export interface Facts extends Snapshot {
  readonly daysUntilFull: number | undefined;
  /** How long the main thread has not answered a request for a snapshot, in milliseconds. */
  readonly silentMs: number;
}
