/** The name of standard input among the files. */
export declare const STANDARD_INPUT = "-";
export interface Line {
    /** 1 for the first line of the input. */
    readonly number: number;
    /** Where it begins, in bytes of the input. */
    readonly offset: number;
    /** How many bytes there are up to the line feed. */
    readonly length: number;
    /** Without its ending (LF or CRLF), and the first one without a byte order mark; undefined when it is too long. */
    readonly bytes: Buffer | undefined;
}
export declare class LineInput {
    #private;
    /** Bytes read so far. */
    bytes: number;
    /** Of all bytes, in hexadecimal, once all of them are read. */
    sha256: string | undefined;
    /** @param name a path, or `-`. @param limit the longest line that is handed over, in bytes. */
    constructor(name: string, limit?: number);
    /**
     * The lines, as many at a time as have come. Ends without the rest when `stop` is aborted.
     * @throws the system's error.
     */
    lines(stop?: AbortSignal): AsyncGenerator<Line[], void>;
}
/** Nothing but white space of JSON. */
export declare function isBlank(line: Buffer): boolean;
