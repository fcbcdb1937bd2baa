/** One thread's part of HTTP: the API keys as it knows them, its queue to the ledger, and what it tells of itself. */
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { KeyRing } from '../../access/key-ring.js';
import { createBucketMemory, SharedBuckets } from '../../access/principal.js';
import type { Config } from '../../config.js';
import type { IngestCounts } from '../../ingest/ingest-counters.js';
import { Ingest, type QueueState } from '../../ingest/ingest.js';
import type { Listener } from '../../ingest/listener.js';
import type { Log } from '../../ingest/refusal-log.js';
import type { TrustedProxies } from '../../ingest/trusted-proxies.js';
import { createRingMemory, type RingMemory } from '../../ledger/ring.js';
import type { KeyStore } from '../../store/contract.js';

/** A queue to the ledger, and the port on which its answers come back: the end of HTTP, or that of the ledger. */
export interface QueueEnd {
  readonly ring: RingMemory;
  readonly answers: MessagePort;
}

/** A queue for each HTTP thread, which together hold what the options grant, all with one doorbell. */
export function createQueues({ httpThreads, queueBytes, queueEvents }: Config): {
  readonly http: readonly [QueueEnd, ...QueueEnd[]];
  readonly ledger: readonly [QueueEnd, ...QueueEnd[]];
} {
  const doorbell = new SharedArrayBuffer(4);
  const [bytes, events] = [Math.floor(queueBytes / httpThreads), Math.ceil(queueEvents / httpThreads)];
  const pairs = Array.from({ length: httpThreads }, () => {
    const ring = createRingMemory(bytes, events, doorbell);
    const { port1, port2 } = new MessageChannel();
    return [
      { ring, answers: port1 },
      { ring, answers: port2 },
    ] as const;
  });
  return {
    http: pairs.map(([http]) => http) as [QueueEnd, ...QueueEnd[]],
    ledger: pairs.map(([, ledger]) => ledger) as [QueueEnd, ...QueueEnd[]],
  };
}

/** What all HTTP threads count in, so that their limits are one limit. */
export interface SharedLimits {
  /** Open connections, in one word. */
  readonly places: SharedArrayBuffer;
  /** The buckets of rate limits. */
  readonly buckets: SharedArrayBuffer;
}

/** @returns undefined for one thread, which counts for itself. */
export function createSharedLimits({ httpThreads }: Config): SharedLimits | undefined {
  if (httpThreads === 1) return undefined;
  return { places: new SharedArrayBuffer(4), buckets: createBucketMemory() };
}

/** The keys of the store, as this thread knows them. @throws KeyStoreError when they cannot be read. */
export function openKeyRing(store: KeyStore, limits: SharedLimits | undefined, log: Log): Promise<KeyRing> {
  return KeyRing.open(store, {
    buckets: limits && new SharedBuckets(limits.buckets),
    onFailure: (error) =>
      log.error(
        { reason: error instanceof Error ? error.message : String(error) },
        'API keys cannot be read; those last read stay valid',
      ),
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
  const { maxBodyBytes, httpThreads } = config();
  return new Ingest({
    ...others,
    ...queue,
    get profile() {
      return config().profile;
    },
    ...{ maxBodyBytes, threads: httpThreads },
    get logRequests() {
      return ['debug', 'trace'].includes(config().logLevel);
    },
  });
}

/** What an HTTP thread has done since the start, and how it is now. */
export interface HttpReport {
  readonly counts: IngestCounts;
  readonly queue: QueueState;
  /** Of each key that it has accepted; `overRate` also of those that it has not. */
  readonly uses: readonly KeyCount[];
  readonly keysCurrent: boolean;
  readonly connections: number;
  /** How long its event loop had work, in milliseconds. */
  readonly busyMs: number;
}

interface KeyCount {
  readonly keyId: string;
  readonly lastUsedAt: number | undefined;
  readonly uses: number;
  readonly overRate: number;
}

/** How the thread that calls this is. */
export function reportOf(keys: KeyRing, ingest: Ingest, listener: Listener | undefined): HttpReport {
  const uses: KeyCount[] = [];
  for (const { key, lastUsedAt, uses: count, overRate } of keys.uses())
    if (count > 0 || overRate > 0) uses.push({ keyId: key.keyId, lastUsedAt, uses: count, overRate });
  return {
    counts: ingest.counters.own,
    queue: ingest.queue,
    uses,
    keysCurrent: keys.current,
    connections: listener?.connections ?? 0,
    busyMs: performance.eventLoopUtilization().active,
  };
}
