import type { Logger } from 'pino';
import type { LedgerState } from '../../ledger/ledger.js';
import type { PrivacyState } from '../../ledger/lifecycle.js';
import type { CheckpointTroubleState } from '../../transparency/state-files.js';
import type { StorageReason } from '../../store/contract/events.js';
import type { IdIndexStats } from '../../store/open-to-write.js';
import type { OpenedLog } from './open-ledger.js';
import type { Alarm } from '../../operate/status.js';
import type { LedgerThreadData } from './ledger-thread.js';
export interface LedgerWorkerOptions {
    readonly log: Logger;
    /** Told how the ledger fares: senders are answered accordingly. */
    readonly onState: (state: LedgerState, because: StorageReason | undefined) => void;
    /** The ledger has failed, and the process has to end. */
    readonly onFailure: () => void;
    /** A checkpoint was signed and stands on the disk. */
    readonly onCheckpoint: (note: string) => void;
    /** No checkpoint can be made since then, or none is owed any more. */
    readonly onCheckpointTrouble: (trouble: CheckpointTroubleState | undefined) => void;
    /** Someone has to look after it, until the process ends. */
    readonly onAlarm: (about: Alarm) => void;
}
export declare class LedgerWorker {
    #private;
    readonly opened: Promise<OpenedLog>;
    /** When the thread last said that it lives, on the monotonic clock in milliseconds; undefined until it is open. */
    livedAt: number | undefined;
    /** How the id index fared then. */
    index: IdIndexStats | undefined;
    /** How keys and erasures did. */
    privacy: PrivacyState | undefined;
    constructor(data: LedgerThreadData, options: LedgerWorkerOptions);
    /** Asks the thread to say that it lives. Once it has ended this does nothing. */
    ask(): void;
    /** Has everything answered that was sent to it, and the store closed. */
    stop(): Promise<void>;
    terminate(): Promise<void>;
}
