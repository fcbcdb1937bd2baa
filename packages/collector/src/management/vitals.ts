/** What the management listener may know of the collector: everything here is a count, an instant, a state or a name. */
import type { KeyUse } from '../access/key-ring.js';
import type { IngestCounters } from '../ingest/ingest-counters.js';
import type { QueueState, StorageState } from '../ingest/ingest.js';
import type { LedgerCounts } from '../ledger/ledger-counters.js';
import type { CheckpointTroubleState } from '../transparency/state-files.js';
import type { SinkView } from '../transparency/publisher.js';

/** `starting`: the ledger is being opened. `running`: events are taken. `stopping`: no new ones are. */
export type Phase = 'starting' | 'running' | 'stopping';

/** The newest checkpoint. */
export interface CheckpointState {
  /** How many entries it covers, those of the log's own among them. */
  readonly entries: number;
  /** When it was signed, in milliseconds since 1970 UTC. */
  readonly at: number;
}

/** The id index as its driver tells of it. */
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
export interface CertificateState {
  /** Which one, in the collector's own words: never a path, never anything out of the certificate. */
  readonly name: string;
  /** The last instant of its validity, in milliseconds since 1970 UTC. */
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
  /** When it began, in milliseconds since 1970 UTC. */
  readonly at: number;
  /** That it holds. */
  readonly events: number;
}

/** How complete the runs are that began in a while, and which of their events are orphans (catalogue/). */
export interface RunState {
  /** Milliseconds since 1970 UTC. */
  readonly since: number;
  readonly full: number;
  readonly minimum: number;
  readonly incomplete: number;
  /** Of all of these. */
  readonly withoutOutcome: number;
  readonly orphanEvents: number;
  /** Events of the log that are taken in, whenever they came. */
  readonly events: number;
}

/** Asked again each time, on the thread that speaks HTTP. No call waits for anything or touches a disk that may hang. */
export interface Vitals {
  readonly version: string;
  /** How `collector` is typed on its host, without a path. */
  readonly command: string;
  /** The text with each `collector COMMAND` so. */
  readonly typed: (text: string) => string;
  /** When the collector started, in milliseconds since 1970 UTC. */
  readonly startedAt: number;
  readonly ingest: {
    readonly counters: IngestCounters;
    readonly queue: QueueState;
    readonly storage: StorageState;
  };
  phase(): Phase;
  ledger(): LedgerCounts;
  /** Asks the ledger's thread to say that it lives. */
  askLedger(): void;
  /** When it last said so, on the monotonic clock in milliseconds; undefined while it is being opened. */
  ledgerLivedAt(): number | undefined;
  index(): IndexState | undefined;
  /** Undefined before the first count. */
  runs(): RunState | undefined;
  /** Since when the catalogue cannot be brought up to date, in milliseconds since 1970 UTC. */
  catalogueTroubleSince(): number | undefined;
  keys(): Iterable<KeyUse>;
  /** Whether the keys could be read the last time. */
  keysCurrent(): boolean;
  sinks(): readonly SinkView[];
  checkpoint(): CheckpointState | undefined;
  checkpointTrouble(): CheckpointTroubleState | undefined;
  /** Whether access.log was found not to be the one that the log has heads of. */
  accessLogAltered(): boolean;
  certificates(): readonly CertificateState[];
  lastVerify(): VerifyState | undefined;
  lastBackup(): BackupState | undefined;
  /** From which age of the last back-up on somebody should know, in milliseconds; 0: never. */
  backupMaxAgeMs(): number;
  /** When the log began or was restored here, in milliseconds since 1970 UTC; undefined while that is not known. */
  logBeganAt(): number | undefined;
  /** Whether the operator's token comes from other machines for everybody on the way to read. */
  tokenInClear(): boolean;
  /** Whether other users of the host may enter the data directory. */
  exposed(): boolean;
  /** Log lines that standard error did not take, and when the last one was, in milliseconds since 1970 UTC. */
  droppedLines(): { readonly lines: number; readonly at: number | undefined };
  /** Whether the signing key is lost with the disk of the data directory, as far as anybody has said. */
  keyDiesWithDisk(): boolean;
  /** Whether a file of the signing key, on the disk of the data directory, is not there any more. */
  keyGone(): boolean;
  /** Looks at the file system of the data directory; may take as long as it likes, or reject. */
  lookAtDisk(): Promise<DiskSpace>;
}
