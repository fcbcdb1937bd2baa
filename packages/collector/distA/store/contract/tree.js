/**
 * Where the tree over the ledger is kept: the contract that every driver keeps.
 *
 * The hashes are derived: the entries of the log give all of them. The newest checkpoint, the head, is not: it is a
 * signed statement that was given out, and the log must agree with it permanently.
 */
/** The newest checkpoint is not the one that this process has seen last. */
export class HeadMoved extends Error {
    name = 'HeadMoved';
}
//# sourceMappingURL=tree.js.map