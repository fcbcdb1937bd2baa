import { MessageChannel } from 'node:worker_threads';
import { onTestFinished } from 'vitest';
import type { KeyRing } from '../../src/access/key-ring.js';
import { Principal } from '../../src/access/principal.js';
import { Ingest } from '../../src/ingest/ingest.js';
import { Listener } from '../../src/ingest/listener.js';
import type { TlsOptions } from '../../src/ingest/tls.js';
import { TrustedProxies } from '../../src/ingest/trusted-proxies.js';
import { createRingMemory, RingReader } from '../../src/ledger/ring.js';
import type { ApiKey } from '../../src/store/contract/keys.js';

/** A collector that knows every key but `unknown`, and a ledger that answers when the test does. It ends with the test. */
export async function collectorWithoutLedger(
  queueEvents: number,
  {
    maxConnections = 5000,
    maxBodyBytes = 1 << 10,
    tls,
  }: { maxConnections?: number; maxBodyBytes?: number; tls?: Pick<TlsOptions, 'certificate'> } = {},
) {
  const memory = createRingMemory(8 << 20, queueEvents, new SharedArrayBuffer(4));
  const { port1, port2 } = new MessageChannel();
  const principals = new Map<string, Principal>();
  const keys = {
    authenticate: (keyId: string | undefined) => {
      if (keyId === undefined) return 'key_missing';
      if (keyId === 'unknown') return 'key_invalid';
      const known = principals.get(keyId);
      if (known !== undefined) return known;
      const key = {
        keyId,
        organisation: 'default',
        permissions: 'all',
        rateLimit: undefined,
      } as Partial<ApiKey>;
      principals.set(keyId, new Principal(key as ApiKey));
      return principals.get(keyId);
    },
  };
  const silent = () => undefined;
  const log = { debug: silent, info: silent, warn: silent, error: silent };
  const ingest = new Ingest({
    keys: keys as unknown as KeyRing,
    ring: memory,
    answers: port1,
    profile: 'minimum',
    maxBodyBytes,
    log,
    logRequests: false,
    trustedProxies: new TrustedProxies(''),
    keepsBodies: false,
  });
  const listener = new Listener(
    ingest,
    {
      ...{ host: '127.0.0.1', port: 0, maxConnections },
      ...{ headersTimeoutMs: 3_600_000, requestTimeoutMs: 3_600_000, keepAliveTimeoutMs: 3_600_000 },
    },
    tls && { ...tls, clientAuth: 'optional' },
  );
  const port = await listener.listen();
  onTestFinished(async () => {
    ingest.stop();
    await listener.close(0);
    port1.close();
  });
  return { ingest, port, ledger: new RingReader(memory, port2) };
}
