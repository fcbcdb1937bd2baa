import { type Logger } from 'pino';
/** What was dropped since the process began. */
export interface Dropped {
    readonly lines: number;
    /** When the last one was, in milliseconds since 1970 UTC; undefined when none was. */
    readonly at: number | undefined;
}
export declare class LineWriter {
    #private;
    private readonly onRecovered;
    /** @param onRecovered told how many were dropped once everything that waited is written again. */
    constructor(descriptor: 1 | 2, onRecovered?: (dropped: number) => void);
    get dropped(): Dropped;
    /** Takes lines, or drops them. Returns at once. */
    write(lines: string): void;
    /**
     * Writes lines that are worth nothing later: what the reader has not taken in time is withdrawn.
     * @returns whether all was taken, without another turn of the event loop when it could be at once.
     */
    say(lines: string, withinMs: number): Promise<boolean>;
    /** Blocks until all is written, an error comes, or so many milliseconds have passed: the last thing of a process. */
    flush(withinMs: number): void;
}
export interface ServeLog {
    readonly log: Logger;
    /** Lines that standard error did not take. */
    readonly dropped: () => Dropped;
}
/**
 * No line waits for anyone who reads standard error, nor fails (log.ts).
 * @param readable for people whatever standard error is; otherwise only on a terminal.
 */
export declare function openServeLog(level: string, readable: boolean): ServeLog;
