/** A collector in which nothing is counted. */
import { putShells } from './shells.mjs';

putShells({
  'ingest/ingest-counters.js': `
    export const [INGEST_NUMBERS, QUEUE_NUMBERS] = [[], []];
    export const [acceptedEvents, refusedRequests] = [() => ({}), () => ({})];
    export class IngestCounters { accepted() {} refused() {} read() { return { latencies: { counts: [] } }; } }
  `,
  'ledger/ledger-counters.js': `
    export const createCounterMemory = () => new SharedArrayBuffer(8);
    export const LEDGER_NUMBERS = [];
    export class LedgerCounters { taken() {} decided() {} failed() {} holds() {} flushed() {} }
  `,
});
