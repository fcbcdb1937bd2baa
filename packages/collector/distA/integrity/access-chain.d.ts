/** Of a line that has ended: its bytes without the line feed, valid until the next; undefined when it is too long. */
type OnLine = (bytes: Buffer | undefined) => void;
export interface AccessHead {
    readonly lines: number;
    /** 64 hexadecimal digits. */
    readonly head: string;
}
export declare class AccessChain {
    #private;
    private readonly limit;
    lines: number;
    /** Of whole lines: where the next one begins. */
    bytes: number;
    /** @param limit the longest line whose bytes are handed over; a longer one is hashed all the same. */
    constructor(limit?: number);
    get head(): AccessHead;
    /** Bytes behind the last line feed. */
    get pending(): number;
    /** Takes in the lines that end in this piece, which follows the one before. */
    take(piece: Buffer, onLine?: OnLine): void;
    /** Forgets what came behind the last whole line: the next piece begins at `bytes`. */
    rewind(): void;
}
/** What an entry of the log says of a head, to be written as JSON. */
export declare function headFields({ lines, head }: AccessHead): object;
/** The head in the body of such an entry; undefined when it says none that is known here. */
export declare function headIn(body: Buffer): AccessHead | undefined;
export {};
