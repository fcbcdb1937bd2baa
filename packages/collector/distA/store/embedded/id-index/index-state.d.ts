/** How far the index on the disk covers the log: all of that was durable once (id-index.ts, invariant 1). Reads no whole run. */
export declare function publishedTo(dataDirectory: string): number;
export interface IndexState {
    /** So many bytes of events it covers: all of them were durable. */
    readonly coveredTo: number;
    readonly damaged: boolean;
}
/** For `collector doctor`. @returns undefined when there is none. */
export declare function indexState(dataDirectory: string): IndexState | undefined;
