import type { KeyRing, KeyUse } from '../../access/key-ring.js';
import type { Ingest } from '../../ingest/ingest.js';
import type { Listener } from '../../ingest/listener.js';
import { type LedgerCounts } from '../../ledger/ledger-counters.js';
import type { PrivacyState } from '../../ledger/lifecycle.js';
import type { Alarm, BackupState, CertificateState, CheckpointState, DiskSpace, IndexState, Phase, RunState, VerifyState, CollectorStatus } from '../../operate/status.js';
import { type CheckpointTroubleState } from '../../transparency/state-files.js';
import type { Publisher, SinkView } from '../../transparency/publisher.js';
import type { Follower } from './follower.js';
import type { LedgerWorker } from './ledger-worker.js';
import { type KeyPlace } from '../../transparency/key-files.js';
import { typedByName } from '../typed.js';
export interface CollectorParts {
    readonly dataDir: string;
    readonly keyPlace: KeyPlace;
    readonly keys: KeyRing;
    readonly ingest: Ingest;
    readonly publisher: Publisher;
    readonly tokenInClear: boolean;
    readonly clockSteps: CollectorStatus['clockSteps'];
    readonly droppedLines: CollectorStatus['droppedLines'];
    /** As it is configured now. */
    readonly backupMaxAgeMs: () => number;
    /** What the ledger's thread counts in. */
    readonly counters: SharedArrayBuffer;
    readonly listens: boolean;
}
export declare class RunningStatus implements CollectorStatus {
    #private;
    readonly version: string;
    readonly command: string;
    readonly typed: typeof typedByName;
    readonly startedAt: number;
    readonly ingest: CollectorStatus['ingest'];
    /** Set once there is one. */
    thread: LedgerWorker | undefined;
    listener: Listener | undefined;
    follower: Follower | undefined;
    constructor(parts: CollectorParts);
    phase(): Phase;
    entered(phase: Phase): void;
    /** A checkpoint is the newest one now. The first may have been signed by the collector before. */
    noteCheckpoint(note: string): void;
    /** As {@link checkpointTrouble}, from who makes them: a full disk keeps it out of the file. */
    noteCheckpointTrouble(trouble: CheckpointTroubleState | undefined): void;
    ledger(): LedgerCounts;
    askThread(): void;
    listens(): boolean;
    connections(): number;
    ledgerLivedAt(): number | undefined;
    index(): IndexState | undefined;
    privacy(): PrivacyState | undefined;
    runs(): RunState | undefined;
    catalogueTroubleSince(): number | undefined;
    keys(): Iterable<KeyUse>;
    keysCurrent(): boolean;
    sinks(): readonly SinkView[];
    checkpoint(): CheckpointState | undefined;
    checkpointTrouble(): CheckpointTroubleState | undefined;
    /** As {@link alarms}; it is so until the process ends. */
    noteAlarm(about: Alarm): void;
    alarms(): ReadonlySet<Alarm>;
    certificates(): readonly CertificateState[];
    lastVerify(): VerifyState | undefined;
    lastBackup(): BackupState | undefined;
    backupMaxAgeMs(): number;
    logBeganAt(): number | undefined;
    tokenInClear(): boolean;
    exposed(): boolean;
    clockSteps(): ReturnType<CollectorStatus['clockSteps']>;
    droppedLines(): ReturnType<CollectorStatus['droppedLines']>;
    keyGone(): boolean;
    lookAtDisk(): Promise<DiskSpace>;
}
