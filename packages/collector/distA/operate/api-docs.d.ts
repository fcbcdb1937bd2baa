/** A file that is served as it is. */
export interface Page {
    readonly type: string;
    readonly body: string | Buffer;
}
/** By path. Read once; about 2 MB. */
export declare function apiDocs(): ReadonlyMap<string, Page>;
