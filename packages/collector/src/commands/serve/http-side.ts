/** The parts of HTTP: the API keys, the queue to the ledger, and the checks of a request. */
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { KeyRing } from '../../access/key-ring.js';
import type { Config } from '../../config.js';
import { Ingest } from '../../ingest/ingest.js';
import type { Log } from '../../ingest/refusal-log.js';
import type { TrustedProxies } from '../../ingest/trusted-proxies.js';
import { createRingMemory, type RingMemory } from '../../ledger/ring.js';
import type { KeyStore } from '../../store/contract/keys.js';
import { messageOf } from '../../system-code.js';

/** A queue to the ledger, and the port on which its answers come back: the end of HTTP, or that of the ledger. */
export interface QueueEnd {
  readonly ring: RingMemory;
  readonly answers: MessagePort;
}

export function createQueue({
  queueBytes,
  queueEvents,
}: Config): Readonly<Record<'http' | 'ledger', QueueEnd>> {
  const ring = createRingMemory(queueBytes, queueEvents, new SharedArrayBuffer(4));
  const { port1, port2 } = new MessageChannel();
  return { http: { ring, answers: port1 }, ledger: { ring, answers: port2 } };
}

/** The keys of the store. @throws KeyStoreError when they cannot be read. */
export function openKeyRing(store: KeyStore, log: Log): Promise<KeyRing> {
  return KeyRing.open(store, {
    onFailure: (error) =>
      log.error({ reason: messageOf(error) }, 'API keys cannot be read; those last read stay valid'),
    onRecovery: () => log.info({}, 'API keys can be read again'),
  });
}

/** @param config asked again each time: a reload may change it. */
export function openIngest(
  config: () => Config,
  parts: {
    readonly keys: KeyRing;
    readonly queue: QueueEnd;
    readonly trustedProxies: TrustedProxies;
    readonly keepsBodies: boolean;
    readonly log: Log;
  },
): Ingest {
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
