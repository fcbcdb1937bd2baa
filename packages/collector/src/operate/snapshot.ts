/**
 * What the management listener may know of the collector at an instant: counts, instants, states and names. Plain data,
 * because it goes from the main thread to the thread of the listener. Instants are milliseconds since 1970 UTC.
 */
import type { KeyState } from '../access/key-ring.js';
import type { ClockStep } from '../clock.js';
import type { StorageState } from '../ingest/ingest.js';
import type { IngestCounts, QueueState } from '../ingest/ingest-counters.js';
import type { LedgerCounts } from '../ledger/ledger-counters.js';
import type { PrivacyState } from '../ledger/privacy-numbers.js';
import type { OtlpCounts } from '../otlp/otlp-counters.js';
import type { SinkView } from '../tree/publisher.js';

/** `starting`: the ledger is being opened. `stopping`: no new events are taken. */
export type Phase = 'starting' | 'running' | 'stopping';

/** The newest checkpoint. */
export interface CheckpointState {
  /** How many entries it covers, those of the log's own among them. */
  readonly entries: number;
  /** When it was signed. */
  readonly at: number;
}

/** The id index as its driver reports it. */
export interface IndexState {
  readonly entries: number;
  readonly runs: number;
  /** Full tables in memory that wait to be written. */
  readonly frozenTables: number;
  readonly diskBytes: number;
  readonly memoryBytes: number;
}

export interface DiskSpace {
  /** What the collector's user may still write. */
  readonly freeBytes: number;
  readonly totalBytes: number;
}

/** A certificate that the collector presents. */
interface CertificateState {
  /** Which one, in the collector's own words: never a path, never anything out of the certificate. */
  readonly name: string;
  /** The last instant of its validity. */
  readonly notAfter: number;
}

/** What `collector verify` found when it ran last on this data directory. */
export interface VerifyState {
  readonly at: number;
  readonly intact: boolean;
  readonly events: number;
}

/** The last run of `collector backup` on this data directory. */
export interface BackupState {
  /** When it began. */
  readonly at: number;
  /** That it holds. */
  readonly events: number;
  /** Whether it was a round of `--follow`. */
  readonly follows?: boolean;
}

/** How complete the runs are that began since an instant, and which of their events are orphans (catalogue/). */
export interface RunState {
  readonly since: number;
  readonly full: number;
  readonly minimum: number;
  readonly incomplete: number;
  readonly erased: number;
  /** Of all of these. */
  readonly withoutOutcome: number;
  readonly orphanEvents: number;
  /** Events of the log that are taken in, whenever they came. */
  readonly events: number;
}

/**
 * The access log is not the one that the log has heads of; the log in a database is behind what was signed; or
 * acknowledged events are gone from it.
 */
export type Alarm = 'access-log' | 'fork' | 'lost';

export interface Snapshot {
  readonly now: number;
  /** The same instant on the monotonic clock of the main thread, in milliseconds. */
  readonly monotonic: number;
  readonly version: string;
  /** How `collector` is typed on its host, without a path. */
  readonly command: string;
  /** When the collector started. */
  readonly startedAt: number;
  readonly phase: Phase;
  readonly ingest: IngestCounts;
  readonly queue: QueueState;
  readonly storage: StorageState;
  /** Undefined where OTLP is not taken. */
  readonly otlp: OtlpCounts | undefined;
  readonly ledger: LedgerCounts;
  /** When its thread last reported, on the same monotonic clock; undefined while it is being opened. */
  readonly ledgerLivedAt: number | undefined;
  /** For how long the main thread had work since its start, in milliseconds. */
  readonly busyMs: number;
  /** Whether there is a listener for events, and the open connections to it, those for OTLP among them. */
  readonly listens: boolean;
  readonly connections: number;
  readonly index: IndexState | undefined;
  /** Undefined where payloads are not encrypted. */
  readonly privacy: PrivacyState | undefined;
  /** Undefined before the first count. */
  readonly runs: RunState | undefined;
  /** Since when the catalogue cannot be brought up to date. */
  readonly catalogueTroubleSince: number | undefined;
  /** At most 1,000, the usable ones first (`shownKeys`). */
  readonly keys: readonly KeyState[];
  readonly keysNotListed: number;
  /** Whether the keys could be read the last time. */
  readonly keysCurrent: boolean;
  readonly sinks: readonly SinkView[];
  readonly checkpoint: CheckpointState | undefined;
  /** Since when no checkpoint can be made. */
  readonly checkpointTroubleSince: number | undefined;
  readonly alarms: ReadonlySet<Alarm>;
  readonly certificates: readonly CertificateState[];
  readonly lastVerify: VerifyState | undefined;
  readonly lastBackup: BackupState | undefined;
  /** The age from which the last back-up is warned of, in milliseconds; 0: never. */
  readonly backupMaxAgeMs: number;
  /** When the log began or was restored here; undefined while that is not known. */
  readonly logBeganAt: number | undefined;
  /** Whether an operator's token from another machine can be read by everybody on its way. */
  readonly tokenInClear: boolean;
  /** Whether other users of the host may enter the data directory. */
  readonly exposed: boolean;
  /** How often this host's clock was set since the start, and how the last time. */
  readonly clockSteps: { readonly count: number; readonly last: ClockStep | undefined };
  /** Log lines that standard error did not take, and when the last one was dropped. */
  readonly droppedLines: { readonly lines: number; readonly at: number | undefined };
  /** Whether a file of the signing key, on the disk of the data directory, is gone. */
  readonly keyGone: boolean;
  /** Undefined until the file system of the data directory has answered once. */
  readonly disk: DiskSpace | undefined;
}

/** All that warnings, health and numbers are made of: a snapshot, and what the listener knows besides. */
export interface Facts extends Snapshot {
  readonly daysUntilFull: number | undefined;
  /** For how long the main thread has given no snapshot although it was asked, in milliseconds. */
  readonly silentMs: number;
}
