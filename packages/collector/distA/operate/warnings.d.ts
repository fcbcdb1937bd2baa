/**
 * What an operator should look at, and what to do about it: pure functions of what is known. The ids are a promise,
 * because alerts and run books name them.
 *
 * A title may name a key's id, a sink by its number and kind, a count or a time; never a path, and nothing of an event.
 */
import { type ClockStep } from '../clock.js';
import type { KeyUse } from '../access/key-ring.js';
import type { QueueState, StorageState } from '../ingest/ingest.js';
import type { PrivacyState } from '../ledger/lifecycle.js';
import type { SharedCounts } from '../ledger/ledger-counters.js';
import type { SinkView } from '../transparency/publisher.js';
import type { Alarm, BackupState, CertificateState, CheckpointState, DiskSpace, VerifyState } from './status.js';
/** More lines would help no one, and would cost the monitoring system more than all other metrics. */
export declare const MOST_KEYS = 1000;
/** Those that can be used before those that cannot, each in the order of creation; at most {@link MOST_KEYS}. */
export declare function shownKeys(uses: Iterable<KeyUse>, now: number): KeyUse[];
/** Whether someone sent with it within the last hour. */
export declare function isInUse({ lastUsedAt }: KeyUse, now: number): boolean;
export declare function isUsable({ revokedAt, expiresAt }: KeyUse['key'], now: number): boolean;
export declare const WARNING_IDS: readonly ["storage_unavailable", "disk_full_soon", "queue_nearly_full", "checkpoint_old", "checkpoints_fail", "sink_forked", "sink_down", "signing_key_gone", "access_log_altered", "log_forked", "acked_lost", "replication_off", "signing_stalled", "merge_delay", "partitions_low", "verify_found_damage", "erasure_incomplete", "key_mirror_behind", "backup_old", "key_expires_soon", "keys_unreadable", "certificate_expires_soon", "clock_stepped", "log_lines_dropped", "catalogue_fails", "data_directory_exposed", "operator_token_in_clear"];
type WarningId = (typeof WARNING_IDS)[number];
export interface Warning {
    readonly id: WarningId;
    /** `critical`: events are being lost to senders, or will be within a day, or the ledger is contradicted. */
    readonly severity: 'critical' | 'warning';
    readonly title: string;
    readonly what_to_do: string;
}
/** All that the warnings are made of. Instants are milliseconds since 1970 UTC. */
export interface Facts {
    readonly now: number;
    readonly storage: StorageState;
    readonly queue: QueueState;
    readonly disk: DiskSpace | undefined;
    readonly daysUntilFull: number | undefined;
    /** In the log. */
    readonly events: number;
    /** With the log's own. */
    readonly entries: number;
    readonly checkpoint: CheckpointState | undefined;
    readonly checkpointTroubleSince: number | undefined;
    readonly sinks: readonly SinkView[];
    readonly alarms: ReadonlySet<Alarm>;
    /** Undefined where the log is in a data directory. */
    readonly shared: SharedCounts | undefined;
    /** Undefined where payloads are not encrypted. */
    readonly privacy: PrivacyState | undefined;
    readonly lastVerify: VerifyState | undefined;
    readonly lastBackup: BackupState | undefined;
    /** Milliseconds; 0: never too old. */
    readonly backupMaxAgeMs: number;
    readonly logBeganAt: number | undefined;
    readonly keys: readonly KeyUse[];
    readonly keysCurrent: boolean;
    readonly certificates: readonly CertificateState[];
    readonly clockStep: ClockStep | undefined;
    readonly catalogueTroubleSince: number | undefined;
    readonly droppedLines: {
        readonly lines: number;
        readonly at: number | undefined;
    };
    readonly keyGone: boolean;
    readonly exposed: boolean;
    readonly tokenInClear: boolean;
}
/** Critical ones first; within a severity in the order of {@link WARNING_IDS}. */
export declare function warningsOf(facts: Facts): Warning[];
/** Whether batches wait for longer than giving places ever takes, and it fails. */
export declare function isSigningStalled(counts: SharedCounts | undefined): boolean;
/** Whether there is something to back up, and it was not for longer than is configured, or than a follower takes. */
export declare function isBackupOld({ now, events, lastBackup, backupMaxAgeMs, logBeganAt }: Facts): boolean;
export {};
