import { type HeldFile } from '../files.js';
/** Another collector holds the directory. */
export declare class DirectoryInUse extends Error {
    name: string;
}
/** `lock` is no file that a collector made. */
export declare class LockUnfit extends Error {
    name: string;
}
export interface DirectoryLock {
    readonly file: HeldFile;
    release(): void;
}
/**
 * On return this process alone holds `directory`, until `release` or its end.
 * @throws DirectoryInUse when another one does, LockUnfit.
 */
export declare function lockDirectory(directory: string): DirectoryLock;
/** True when a collector holds `directory` now. Needs to read the lock only, and so answers on a snapshot too. */
export declare function isLocked(directory: string): boolean;
/** Why no collector can lock what has the name of the lock; undefined when one can. */
export declare function lockFault(directory: string): string | undefined;
/**
 * Only reported, never changed: a group that may read can be meant, for a back-up. What the collector itself makes in
 * the directory is for its owner alone, whatever the umask.
 * @returns what is wrong and how to fix it, or undefined when nothing is.
 */
export declare function exposureOf(dataDirectory: string): string | undefined;
