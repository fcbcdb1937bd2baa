import { type MessagePort } from 'node:worker_threads';
import { type RunImage } from './sorted-run.js';
import type { FingerprintKey } from './sorted-run-format.js';
export interface RunThreadData {
    readonly port: MessagePort;
    /** Counts the answers posted, so that the index can wait for one without its event loop. */
    readonly answers: SharedArrayBuffer;
    readonly directory: string;
    readonly key: FingerprintKey;
    readonly filterMemory: number;
    /** The chain at the time of opening, in order of log. */
    readonly images: readonly RunImage[];
    /** The module with the calls of `Files`: `node:fs`, or in tests one that fails. */
    readonly files: string;
}
export type RunRequest = {
    kind: 'write';
    table: SharedArrayBuffer;
    count: number;
    from: number;
    to: number;
}
/** The index no longer opens these files. */
 | {
    kind: 'delete';
    names: readonly string[];
} | {
    kind: 'close';
};
export type RunAnswer = 
/** A run has been published, in place of those named. An empty list: it is the table last sent. */
{
    kind: 'published';
    image: RunImage;
    replaces: readonly string[];
}
/** `code` is the system's (ENOSPC) or `corrupt` with the run: an Error would lose both on its way. */
 | {
    kind: 'failed';
    what: 'write' | 'merge';
    message: string;
    code: string;
    run: string | undefined;
};
