/** The file is not one that a collector wrote. */
export declare class StateFileDamaged extends Error {
    name: string;
}
export declare class StateFile<State> {
    #private;
    private readonly name;
    /** What it holds, for a message. */
    private readonly what;
    private readonly isState;
    constructor(name: string, 
    /** What it holds, for a message. */
    what: string, isState: (value: unknown) => value is State);
    /**
     * @returns undefined when there is none.
     * @throws {@link StateFileDamaged} that names the file, or the system's error when it cannot be read.
     */
    read(dataDir: string): State | undefined;
    /** On return the file holds this. @throws the system's error. */
    write(dataDir: string, state: State): void;
    /** On return there is no such file. @throws the system's error. */
    remove(dataDir: string): void;
}
/** `backup.json`: when `collector backup` was done last. Not where it went: that is for who may read the access log. */
export interface BackupNote {
    /** When the run began: an instant, RFC 3339 in UTC. What was acknowledged by then is in it. */
    readonly at: string;
    /** How many events it holds. */
    readonly events: number;
    /** Whether it was a round of `--follow`, which makes the next one within seconds. */
    readonly follows?: boolean;
}
/** `verify.json`: what `collector verify --note` found last. */
export interface VerifyResult {
    /** When it had been through: an instant, RFC 3339 in UTC. */
    readonly at: string;
    readonly intact: boolean;
    /** That the log held. */
    readonly events: number;
}
/**
 * `trouble.json`: since when, and why, a running collector cannot make checkpoints. A disk that is full keeps the file
 * out too; who runs in the same process asks {@link CheckpointTrouble.state}.
 */
export interface CheckpointTroubleState {
    /** When the first of the tries failed, across starts: an instant, RFC 3339 in UTC. */
    readonly since: string;
    /** Why the newest one did: an error's text, which holds no secret. */
    readonly reason: string;
}
/** `sinks.json`, in the order of the option: how each sink does. */
export interface SinkState {
    /** As it was given, but a witness's key is replaced by its name. */
    readonly sink: string;
    /** Forked: it has seen a checkpoint of this log that the ledger does not agree with; it gets no more. */
    readonly state: 'ok' | 'failing' | 'forked';
    /** Of the checkpoint that was delivered last, in entries of the log; missing when none ever was. */
    readonly size?: number;
    /** When that was: an instant, RFC 3339 in UTC. */
    readonly at?: string;
    /** Since when it has not been ok, across starts. */
    readonly failing_since?: string;
    /** Why it is not ok, and what to do. */
    readonly message?: string;
    /** Checkpoints since the start that it was owed and will not get; each is covered by those after it. */
    readonly dropped?: number;
    /** The origin of another log whose checkpoints lie in the same place. */
    readonly also_holds?: string;
    /** When something that it had taken since the start was found gone, the last time: an instant. */
    readonly lost_at?: string;
}
export declare const readBackupNote: (dataDir: string) => BackupNote | undefined;
export declare const writeBackupNote: (dataDir: string, note: BackupNote) => void;
export declare const readVerifyResult: (dataDir: string) => VerifyResult | undefined;
export declare const writeVerifyResult: (dataDir: string, result: VerifyResult) => void;
export declare const readCheckpointTrouble: (dataDir: string) => CheckpointTroubleState | undefined;
export declare const readSinkStates: (dataDir: string) => SinkState[];
export declare const writeSinkStates: (dataDir: string, states: SinkState[]) => void;
/** Keeps the trouble that a collector has with its checkpoints. Nothing here throws: a full disk is such a trouble. */
export declare class CheckpointTrouble {
    #private;
    private readonly dataDir;
    private readonly now;
    constructor(dataDir: string, now?: () => number);
    /** What is so, whether or not the file says it. */
    get state(): CheckpointTroubleState | undefined;
    /** A checkpoint could not be made. The file is written when that is news. */
    failed(why: string): void;
    /** No checkpoint is owed any more. @returns whether there was trouble before. */
    over(): boolean;
}
/** One line for a person. */
export declare function describe(state: SinkState, now: number): string;
/** What to say of a sink that holds less than it was left with; follows the sink's name. */
export declare const LESS = "held less than it was left with: it was cut, moved aside or deleted";
/** What to say of a sink in whose place checkpoints of another log lie; follows the sink's name. */
export declare function sharedPlace(origin: string): string;
/** The signed note; undefined where none was seen. @throws StateFileDamaged */
export declare function readKnownCheckpoint(dataDir: string): string | undefined;
export declare function writeKnownCheckpoint(dataDir: string, note: string): void;
export interface MirrorNote {
    /** Where the log is, for people. */
    readonly store: string;
    readonly ledger_id: string;
    /** How many bytes of its file of readings stand in the access log of the database. */
    readonly forwarded: number;
}
/** @returns undefined for a directory that is no mirror. @throws StateFileDamaged */
export declare function readMirrorNote(dataDir: string): MirrorNote | undefined;
export declare function writeMirrorNote(dataDir: string, note: MirrorNote): void;
/** Whether it is text that a terminal may be shown. */
export declare function isLine(value: unknown): value is string;
