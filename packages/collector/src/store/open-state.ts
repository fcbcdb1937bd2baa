/** Reads the state of a log in files: of the id index for `doctor`, of compaction for certificates. */
export { compactedAt } from './embedded/compaction.js';
export { indexState, type IndexState } from './embedded/id-index/index-state.js';
