/**
 * What the operating system calls an error, or Node in its place: `ENOENT`, `EACCES`, `ERR_…`. Undefined for an error
 * that has no such name.
 */
export function systemCode(error) {
    return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
//# sourceMappingURL=system-code.js.map