/**
 * Loaded into a collector by `node --import`, which its threads inherit: puts shells in the place of what counts, so
 * that nothing is counted. The product needs no switch for it.
 */
import { registerHooks } from 'node:module';

const dist = (file) => new URL(`../../packages/collector/dist/${file}`, import.meta.url).href;
/** Whoever imports another name of a module finds out when it is linked. */
const SHELLS = new Map([
  [dist('ingest/ingest-counters.js'), 'export class IngestCounters { accepted() {} refused() {} }'],
  [
    dist('ledger/ledger-counters.js'),
    `export const createCounterMemory = () => new SharedArrayBuffer(8);
    export class LedgerCounters { taken() {} decided() {} failed() {} holds() {} flushed() {} }`,
  ],
]);

registerHooks({
  load(url, context, next) {
    const source = SHELLS.get(url);
    return source === undefined ? next(url, context) : { format: 'module', source, shortCircuit: true };
  },
});
