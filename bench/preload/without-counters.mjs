/** A collector in which nothing is counted. */
import { putShells } from './shells.mjs';

putShells({
  'ingest/ingest-counters.js': 'export class IngestCounters { accepted() {} refused() {} }',
  'ledger/ledger-counters.js': `
    export const createCounterMemory = () => new SharedArrayBuffer(8);
    export class LedgerCounters { taken() {} decided() {} failed() {} holds() {} flushed() {} }
  `,
});
