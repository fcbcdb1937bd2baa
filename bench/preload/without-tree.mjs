/**
 * Loaded into a collector by `node --import`, which its threads inherit: puts a shell in the place of the tree, so
 * that no leaf is hashed and no checkpoint is made. Everything else stays, the salted commitments too. The product
 * needs no switch for it; a ledger that was written so does not start with its tree any more.
 */
import { registerHooks } from 'node:module';

const TREE = new URL('../../packages/collector/dist/ledger/ledger-tree.js', import.meta.url).href;
/** Whoever imports another name of the module finds out when it is linked. */
const SHELL = `
export class CheckpointContradicted extends Error {}
export class LedgerTree {
  static open() {
    return Promise.resolve({ add() {}, close: () => Promise.resolve() });
  }
}
`;

registerHooks({
  load: (url, context, next) =>
    url === TREE ? { format: 'module', source: SHELL, shortCircuit: true } : next(url, context),
});
