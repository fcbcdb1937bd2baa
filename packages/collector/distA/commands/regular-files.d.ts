/** Of what proves the log. */
export declare const PROOF_DIRECTORIES: readonly ["checkpoints", "checkpoints/rotations", "tree"];
/** Of the log and its proof. */
export declare const LOG_DIRECTORIES: readonly ["ledger", "checkpoints", "checkpoints/rotations", "tree"];
/**
 * @param directories that the command reads; it need not have the permission for others.
 * @throws CommandFailure when there is no log in the data directory, or one that a reader would wait at.
 */
export declare function assertReadable(dataDir: string, directories?: readonly string[]): void;
/** @throws CommandFailure when there is no log in the data directory. */
export declare function assertLedger(dataDir: string): void;
/**
 * @param directories that files are read from without a look at each.
 * @throws CommandFailure that names the first one, or whatever the system says.
 */
export declare function checkRegular(dataDir: string, directories?: readonly string[]): void;
/** The same of all that a start reads. What is derived is rebuilt, and the access log keeps no event out. */
export declare function checkDataDirectory(dataDir: string): void;
/** Segments, or a checkpoint, which says that there were some. */
export declare function holdsLog(dataDir: string): boolean;
/** Whether it is a directory and such a name is in it. */
export declare function holds(directory: string, isOne: RegExp): boolean;
