/**
 * Loaded into a collector by `node --import`, which its threads inherit: puts a shell in the place of the sequencer, so
 * that no entry is read again, no leaf is hashed and no checkpoint is made. Everything else stays, the salted commitments too. The product
 * needs no switch for it; a ledger that was written so does not start with its tree any more.
 */
import { registerHooks } from 'node:module';

const SEQUENCER = new URL('../../packages/collector/dist/ledger/sequencer.js', import.meta.url).href;
/** Whoever imports another name of the module finds out when it is linked. */
const SHELL = `
export class Sequencer {
  static open() {
    return Promise.resolve({ close: () => Promise.resolve() });
  }
}
`;

registerHooks({
  load: (url, context, next) =>
    url === SEQUENCER ? { format: 'module', source: SHELL, shortCircuit: true } : next(url, context),
});
