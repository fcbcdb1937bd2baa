/** Where it is logged who read what: the contract that every driver keeps. */
/** Where a reading goes on: how many whole lines are in front of it, and the driver's hint. */
export interface LineCursor {
    readonly lines: number;
    readonly at: number;
}
export interface AccessLogStore {
    /**
     * On return the line is the last one, whole, on stable storage. Other processes append too. A log on this host
     * ({@link LocalAccessLog}) does not give the thread away: the end of a reading is logged while the process exits, when
     * nothing is awaited any more.
     * @param line without a line feed.
     */
    append(line: string): void | Promise<void>;
    /**
     * The text from a line on, each line with a line feed behind it, up to what is there when it is asked for. What
     * stands behind the last line feed is torn, or is being written. In pieces, each valid until the next.
     * @param from the first line when not given.
     * @throws {@link AccessLogAltered} when no line begins there any more, {@link AccessLogUnfit}.
     */
    lines(from?: LineCursor): AsyncGenerator<Buffer, void>;
    /** Of a log in a database: the role that has put a line there, where that is known. */
    writerOf?(line: number): Promise<string | undefined>;
    /** On return all that could be read before the call is on stable storage. */
    flush(): Promise<void>;
}
/** One on the disk of this process: a line is there when `append` returns. */
export interface LocalAccessLog extends AccessLogStore {
    append(line: string): void;
}
/** Something else stands where the log should. */
export declare class AccessLogUnfit extends Error {
    name: string;
}
/** The log is not the one that was read before. The message says how it shows, in words that follow nothing. */
export declare class AccessLogAltered extends Error {
    name: string;
}
