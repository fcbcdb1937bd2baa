export declare class Restoration {
    #private;
    private readonly directory;
    /** Where the copy lies until it is proved. */
    readonly copy: string;
    /** @throws DirectoryUnfit */
    constructor(directory: string);
    /**
     * @param copyKeys copies the API keys, and checks them.
     * @param onProgress bytes that are there, and of how many.
     */
    lay(backup: string, copyKeys: (file: string) => Promise<unknown>, onProgress: (bytes: number, of: number) => void): Promise<void>;
    /** On return the directory is a data directory, on stable storage. */
    take(): void;
    /** Leaves the directory as it was found. */
    discard(): void;
}
