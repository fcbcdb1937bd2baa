/** The parts of HTTP: the API keys, the queue to the ledger, and the checks of a request. */
import { type MessagePort } from 'node:worker_threads';
import { KeyRing } from '../../access/key-ring.js';
import type { Config } from '../../config.js';
import { Ingest } from '../../ingest/ingest.js';
import type { Log } from '../../ingest/refusal-log.js';
import type { TrustedProxies } from '../../ingest/trusted-proxies.js';
import { type RingMemory } from '../../ledger/ring.js';
import type { KeyStore } from '../../store/contract/keys.js';
/** A queue to the ledger, and the port on which its answers come back: the end of HTTP, or that of the ledger. */
export interface QueueEnd {
    readonly ring: RingMemory;
    readonly answers: MessagePort;
}
export declare function createQueue({ queueBytes, queueEvents, }: Config): Readonly<Record<'http' | 'ledger', QueueEnd>>;
/** The keys of the store. @throws KeyStoreError when they cannot be read. */
export declare function openKeyRing(store: KeyStore, log: Log): Promise<KeyRing>;
/** @param config asked again each time: a reload may change it. */
export declare function openIngest(config: () => Config, parts: {
    readonly keys: KeyRing;
    readonly queue: QueueEnd;
    readonly trustedProxies: TrustedProxies;
    readonly keepsBodies: boolean;
    readonly log: Log;
}): Ingest;
