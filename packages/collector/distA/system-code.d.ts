/**
 * What the operating system calls an error, or Node in its place: `ENOENT`, `EACCES`, `ERR_…`. Undefined for an error
 * that has no such name.
 */
export declare function systemCode(error: unknown): string | undefined;
