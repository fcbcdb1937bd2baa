import { type HeldFile } from '../../files.js';
import { AccessLogHeads, type AccessLogHeadsOptions } from '../../ledger/access-log-heads.js';
import { Lifecycle } from '../../ledger/lifecycle.js';
import { Sequencer } from '../../ledger/sequencer.js';
import type { Alarm } from '../../operate/status.js';
import { type CheckpointTroubleState } from '../../transparency/state-files.js';
import { type DirectoryLock } from '../../store/directory-lock.js';
import { type Encryption, type Held, type IdIndexStats, type Opened } from '../../store/open-to-write.js';
import type { FoundLog } from '../../store/contract/driver.js';
import { type SharedGauges, type Store } from '../../store/contract/events.js';
export interface LedgerSettings {
    readonly dataDir: string;
    /** The address of a database; empty when the data directory holds the log. */
    readonly store: string;
    readonly segmentBytes: number;
    /** What this process holds the directory by. */
    readonly lock: HeldFile;
    /** As the option has it (key-files.ts). */
    readonly signingKeys: string;
    /** Empty: made of the ledger's id. */
    readonly logOrigin: string;
    readonly checkpointIntervalMs: number;
    /** As the options of these names have them. */
    readonly encryption: 'auto' | 'on' | 'off';
    readonly encryptionKeys: string;
    readonly kek: string;
}
/** Called while the ledger is open. `reason` is the text of an error: a place or a system's answer, never an event's content. */
export interface LedgerListeners {
    /** Something is degraded, but nothing is lost and nothing is refused. */
    readonly onTrouble: (what: string, reason: string) => void;
    /** Someone has to look after it: what was signed is not what is there. Events are stored all the same. */
    readonly onAlarm: (about: Alarm, what: string, reason: string) => void;
    readonly onNotice: (message: string) => void;
    /** A checkpoint was signed and stands on the disk. */
    readonly onCheckpoint: (note: string) => void;
    /** Told after each try whether checkpoints cannot be made, since when and why. */
    readonly onCheckpointTrouble?: (trouble: CheckpointTroubleState | undefined) => void;
    /** What the log in a database holds by now, of all collectors. */
    readonly onHeld?: (held: Held) => void;
    /** Of a log in a database; `merged` is called for each batch that this process gave its place. */
    readonly gauges?: SharedGauges & {
        merged(ms: number): void;
    };
    /** See EmbeddedStoreOptions. */
    readonly onFlushed?: (milliseconds: number, held: Held) => void;
}
/** As the start has found the log; of one in a data directory, with what was done to open it. */
export type OpenedLog = FoundLog & Partial<Pick<Opened, 'segments' | 'replayed' | 'tornTail'>>;
export interface OpenLedger {
    readonly store: Store;
    readonly opened: OpenedLog;
    /** How the index of ids fares; undefined where the database has it. */
    readonly index: () => IdIndexStats | undefined;
    readonly sequencer: Sequencer;
    /** Looks after the access log. @param append as in AccessLogHeadsOptions. */
    readonly accessLog: (append: AccessLogHeadsOptions['append']) => AccessLogHeads;
    /** Does what is asked to be done to stored events. The same `append`. */
    readonly lifecycle: (append: AccessLogHeadsOptions['append']) => Lifecycle;
}
/**
 * On return this process alone holds the data directory, until the lock is released or the process ends.
 * @throws CommandFailure, also when something there is not of the kind that its name stands for.
 * @param advice follows what is said when another process holds it.
 */
export declare function holdDirectory(dataDir: string, advice?: string): DirectoryLock;
/**
 * On return everything is whole, and events may be taken. The caller holds the directory's lock, and closes what looks
 * after the access log first, then the sequencer and the store.
 * @throws whatever is wrong; {@link refusalOf} tells what kind of thing that is.
 */
export declare function openLedger(settings: LedgerSettings, listeners: LedgerListeners): Promise<OpenLedger>;
/**
 * Payloads of a new log are encrypted unless that is refused, of another from the start that says so on; what is encrypted
 * cannot go on without its keys.
 * @param namesKey of a mirror, so that names are written there as on the others.
 */
export declare function encryptionOf({ dataDir, encryption, encryptionKeys, kek, }: Pick<LedgerSettings, 'dataDir' | 'encryption' | 'encryptionKeys' | 'kek'>, onTrouble: (what: string, error: unknown) => void, namesKey?: Buffer): Encryption;
/**
 * Why the ledger cannot be opened. `damaged`: what is stored contradicts itself, and no start can succeed until someone
 * has looked at it. `usage`: the configuration does not fit the log, or does not lead to its key; no start fixes that.
 */
export type Refusal = 'damaged' | 'usage' | 'failure';
export declare function refusalOf(error: unknown): Refusal;
/** What to tell of it at the start. */
export declare function refusedBecause(error: unknown): string;
/** The message of an error and of what caused it. */
export declare function reasonOf(error: unknown): string;
