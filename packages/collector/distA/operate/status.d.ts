/** What the management listener may know of the collector: everything here is a count, an instant, a state or a name. */
import type { KeyUse } from '../access/key-ring.js';
import type { ClockStep } from '../clock.js';
import type { IngestCounters } from '../ingest/ingest-counters.js';
import type { QueueState, StorageState } from '../ingest/ingest.js';
import { type LedgerCounts } from '../ledger/ledger-counters.js';
import type { PrivacyState } from '../ledger/lifecycle.js';
import type { SinkView } from '../transparency/publisher.js';
import type { CheckpointTroubleState } from '../transparency/state-files.js';
/** `starting`: the ledger is being opened. `stopping`: no new events are taken. */
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
    /** Whether it was a round of `--follow`. */
    readonly follows?: boolean;
}
/** How complete the runs are that began in a while, and which of their events are orphans (catalogue/). */
export interface RunState {
    /** Milliseconds since 1970 UTC. */
    readonly since: number;
    readonly full: number;
    readonly minimum: number;
    readonly incomplete: number;
    readonly retired: number;
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
/** Asked again each time, on the thread that speaks HTTP. No call waits for anything or touches a disk that may hang. */
export interface CollectorStatus {
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
    askThread(): void;
    /** When it last said so, on the monotonic clock in milliseconds; undefined while it is being opened. */
    ledgerLivedAt(): number | undefined;
    /** Whether there is a listener for events. */
    listens(): boolean;
    /** Connections to it that are open. */
    connections(): number;
    index(): IndexState | undefined;
    /** Undefined where payloads are not encrypted. */
    privacy(): PrivacyState | undefined;
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
    /** What was found that someone has to look after. */
    alarms(): ReadonlySet<Alarm>;
    certificates(): readonly CertificateState[];
    lastVerify(): VerifyState | undefined;
    lastBackup(): BackupState | undefined;
    /** From which age of the last back-up on someone should know, in milliseconds; 0: never. */
    backupMaxAgeMs(): number;
    /** When the log began or was restored here, in milliseconds since 1970 UTC; undefined while that is not known. */
    logBeganAt(): number | undefined;
    /** Whether the operator's token comes from other machines for everybody on the way to read. */
    tokenInClear(): boolean;
    /** Whether other users of the host may enter the data directory. */
    exposed(): boolean;
    /** Log lines that standard error did not take, and when the last one was, in milliseconds since 1970 UTC. */
    /** How often this host's clock was set since the start, and how the last time. */
    clockSteps(): {
        readonly count: number;
        readonly last: ClockStep | undefined;
    };
    droppedLines(): {
        readonly lines: number;
        readonly at: number | undefined;
    };
    /** Whether a file of the signing key, on the disk of the data directory, is not there any more. */
    keyGone(): boolean;
    /** Looks at the file system of the data directory; may take as long as it likes, or reject. */
    lookAtDisk(): Promise<DiskSpace>;
}
/** What happened between two looks at the counters, about a second apart. */
export interface Sample {
    /** When it ended, in milliseconds since 1970 UTC. */
    readonly at: number;
    /** How long it was, in milliseconds: a thread that is busy looks late. */
    readonly ms: number;
    readonly accepted: number;
    readonly refused: number;
    /** Milliseconds to the acknowledgement; null when nothing was acknowledged. */
    readonly p50: number | null;
    readonly p99: number | null;
}
export declare class Samples {
    #private;
    private readonly counters;
    /** @param monotonicMs now; the first sample begins here. */
    constructor(counters: Pick<IngestCounters, 'answers' | 'latencies'>, monotonicMs: number);
    /** Ends a sample and begins the next. */
    take(wallMs: number, monotonicMs: number): void;
    /** Oldest first. */
    list(): Sample[];
    /** Per second, over the last samples that together make at least so many milliseconds, or over all there are. */
    rates(overMs: number): {
        readonly accepted: number;
        readonly refused: number;
    };
}
interface Look {
    readonly at: number;
    readonly events: number;
    readonly bytes: number;
}
export interface Growth {
    /** How long the growth was watched, in milliseconds: at most a day. */
    readonly watchedMs: number;
    /** Events and bytes of frames an hour, over that time; undefined until it is ten minutes. */
    readonly eventsPerHour: number | undefined;
    readonly bytesPerHour: number | undefined;
    /** Bytes on the disk a day, with the index and the tree. */
    readonly diskBytesPerDay: number | undefined;
}
export declare class GrowthWatch {
    #private;
    /** Keeps a look when the last kept one is a minute old. @param at a monotonic clock, milliseconds. */
    note(look: Look): void;
    /** @param now what the ledger holds now. */
    growth(now: Look): Growth;
}
/** @returns undefined when that cannot be told, Infinity when nothing grows. */
export declare function daysUntilFull({ diskBytesPerDay }: Growth, freeBytes: number): number | undefined;
export declare class Watch {
    #private;
    readonly samples: Samples;
    /** Undefined until the disk has answered once. What it answered last stays when it hangs. */
    disk: DiskSpace | undefined;
    constructor(collectorStatus: CollectorStatus);
    /** Does not keep the process alive. */
    start(): void;
    stop(): void;
    get growth(): Growth;
}
export {};
