/** How far the id index on the disk goes. Changes nothing. */
import path from 'node:path';
import { exists } from '../../../files.js';
import { IdIndexReader } from './sorted-runs.js';
/** How far the index on the disk covers the log: all of that was durable once (id-index.ts, invariant 1). Reads no whole run. */
export function publishedTo(dataDirectory) {
    const directory = path.join(dataDirectory, 'index');
    if (!exists(directory))
        return 0;
    const index = IdIndexReader.read({ directory, verify: false });
    const { coveredTo } = index;
    index.close().catch(() => undefined);
    return coveredTo;
}
/** For `collector doctor`. @returns undefined when there is none. */
export function indexState(dataDirectory) {
    const directory = path.join(dataDirectory, 'index');
    if (!exists(directory))
        return undefined;
    let damaged = false;
    const index = IdIndexReader.read({ directory, onError: () => (damaged = true) });
    const { coveredTo } = index;
    index.close().catch(() => undefined);
    return { coveredTo, damaged };
}
//# sourceMappingURL=index-state.js.map