/** The parts of HTTP: the API keys, the queue to the ledger, and the checks of a request. */
import { MessageChannel } from 'node:worker_threads';
import { KeyRing } from '../../access/key-ring.js';
import { Ingest } from '../../ingest/ingest.js';
import { createRingMemory } from '../../ledger/ring.js';
export function createQueue({ queueBytes, queueEvents, }) {
    const ring = createRingMemory(queueBytes, queueEvents, new SharedArrayBuffer(4));
    const { port1, port2 } = new MessageChannel();
    return { http: { ring, answers: port1 }, ledger: { ring, answers: port2 } };
}
/** The keys of the store. @throws KeyStoreError when they cannot be read. */
export function openKeyRing(store, log) {
    return KeyRing.open(store, {
        onFailure: (error) => log.error({ reason: error instanceof Error ? error.message : String(error) }, 'API keys cannot be read; those last read stay valid'),
        onRecovery: () => log.info({}, 'API keys can be read again'),
    });
}
/** @param config asked again each time: a reload may change it. */
export function openIngest(config, parts) {
    const { queue, ...others } = parts;
    const { maxBodyBytes } = config();
    return new Ingest({
        ...others,
        ...queue,
        get profile() {
            return config().profile;
        },
        maxBodyBytes,
        get logRequests() {
            return ['debug', 'trace'].includes(config().logLevel);
        },
    });
}
//# sourceMappingURL=http-side.js.map