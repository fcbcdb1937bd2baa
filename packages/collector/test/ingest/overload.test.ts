import { MessageChannel } from 'node:worker_threads';
import { expect, onTestFinished, test } from 'vitest';
import type { KeyRing } from '../../src/access/key-ring.js';
import { Principal } from '../../src/access/principal.js';
import { AllowedOrigins } from '../../src/ingest/allowed-origins.js';
import { Ingest } from '../../src/ingest/ingest.js';
import { Listener } from '../../src/ingest/listener.js';
import { TrustedProxies } from '../../src/ingest/trusted-proxies.js';
import { createRingMemory, RingReader } from '../../src/ledger/ring.js';
import type { ApiKey } from '../../src/store/key-store.js';
import { RawConnection, requestBytes } from '../running/raw-http.js';
import { sampleEvent } from '../running/sample-events.js';

/** A collector with keys for everybody and a ledger that answers when the test does. */
async function collectorWithoutLedger(queueEvents: number) {
  const memory = createRingMemory(8 << 20, queueEvents, new SharedArrayBuffer(4));
  const { port1, port2 } = new MessageChannel();
  const principals = new Map<string, Principal>();
  const keys = {
    authenticate: (keyId: string) => {
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
  const ingest = new Ingest({
    keys: keys as unknown as KeyRing,
    ring: memory,
    answers: port1,
    profile: 'minimum',
    maxBodyBytes: 1 << 10,
    log: { debug: silent, info: silent, warn: silent, error: silent },
    logRequests: false,
    trustedProxies: new TrustedProxies(''),
    allowedOrigins: new AllowedOrigins(''),
  });
  const listener = new Listener(ingest, {
    ...{ host: '127.0.0.1', port: 0, maxConnections: 100 },
    ...{ headersTimeoutMs: 60_000, requestTimeoutMs: 60_000, keepAliveTimeoutMs: 60_000 },
  });
  const port = await listener.listen();
  onTestFinished(async () => {
    ingest.stop();
    await listener.close(0);
    port1.close();
  });
  return { ingest, port, ledger: new RingReader(memory, port2) };
}

test('[R-845] events of one key that wait for a slow ledger leave room for those of another', async () => {
  const capacity = 16;
  const { ingest, port, ledger } = await collectorWithoutLedger(capacity);
  const waiting: RawConnection[] = [];
  /** @returns how many of so many events got a place in the queue, each from a connection of its own. */
  const queue = async (key: string, count: number): Promise<number> => {
    const before = ingest.pending;
    for (let i = 0; i < count; i++) {
      const connection = await RawConnection.open(port);
      onTestFinished(() => connection.close());
      const taken = ingest.pending;
      connection.write(requestBytes({ key, body: JSON.stringify(sampleEvent()) }));
      await expect.poll(() => ingest.pending > taken || connection.rest !== '', { interval: 1 }).toBe(true);
      if (connection.rest === '') waiting.push(connection);
      else expect([(await connection.answer())?.status]).toEqual([503]);
    }
    return ingest.pending - before;
  };
  expect(await queue('greedy', capacity)).toBe(capacity / 2 + 1);
  expect(await queue('modest', capacity / 4)).toBe(capacity / 4);
  expect(await queue('greedy', 1)).toBe(0);
  for (let i = 0; i < waiting.length; i++) {
    ledger.take();
    ledger.answer('accepted');
  }
  ledger.send();
  for (const connection of waiting) expect((await connection.answer())?.status).toBe(201);
  // What has its answer counts no longer.
  expect(await queue('greedy', 1)).toBe(1);
});
