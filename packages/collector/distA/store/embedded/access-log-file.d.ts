import { type LineCursor, type LocalAccessLog } from '../contract/access-log.js';
/** Where the access log of a data directory is. */
export declare function accessLogPath(dataDirectory: string): string;
/** Where a mirror logs who reads on it: its access log is a copy. */
export declare function readingsLogPath(dataDirectory: string): string;
export declare class AccessLogFile implements LocalAccessLog {
    #private;
    private readonly dataDirectory;
    constructor(dataDirectory: string, path?: string);
    /**
     * A file that is made for it is readable by its owner alone.
     * @throws the system's error, or one with the code `ENOTREG` (no regular file) or `EMLINK` (also a file of others).
     */
    append(line: string): void;
    lines({ at }?: LineCursor): AsyncGenerator<Buffer, void>;
    flush(): Promise<void>;
    /**
     * For a copy: the bytes up to the last whole line.
     * @returns undefined when there is none. @throws AccessLogUnfit
     */
    copy(): {
        bytes: number;
        pieces: () => Generator<Uint8Array>;
    } | undefined;
}
