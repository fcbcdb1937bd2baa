/** What is looked at of a request. */
interface Received {
    readonly rawHeaders: readonly string[];
    readonly socket: {
        readonly remoteAddress?: string | undefined;
    };
}
/** The list of proxies cannot be meant. */
export declare class ProxiesInvalid extends Error {
    name: string;
}
export declare class TrustedProxies {
    #private;
    /**
     * @param text addresses and networks (`10.0.0.0/8`, `fd00::/8`) with commas between them; none when empty.
     * @throws {@link ProxiesInvalid}
     */
    constructor(text: string);
    /** What is unwise: undefined unless more public addresses are trusted than one operator can own. */
    get exposure(): string | undefined;
    /** The address of the client, as proven; undefined when the connection is gone. */
    clientOf(request: Received): string | undefined;
}
export {};
