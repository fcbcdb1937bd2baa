import { describe, expect, test } from 'vitest';
import { Principal } from '../../src/access/principal.js';
import { FairShare, type Share } from '../../src/ingest/admission.js';
import type { ApiKey } from '../../src/store/contract/keys.js';
import { sampleEvent } from '../running/sample-events.js';
import { issueKey } from '../running/issued-keys.js';
import { collectorWithoutLedger } from '../running/collector-without-ledger.js';
import { limits } from '../running/collector-process.js';
import { oneCollector } from '../running/one-collector.js';
import { RawConnection, send } from '../running/raw-http.js';

const KEY = { permissions: 'all', rateLimit: undefined } as Partial<ApiKey> as ApiKey;
const issued = () => new Principal(KEY);

const collector = oneCollector([
  ...limits({ 'queue-bytes': '8MiB', 'segment-bytes': '2MiB' }),
  '--max-body-bytes',
  '1MiB',
]);

const MINUTE = 60_000;

/** A queue of 1,000 bytes and 8 events, and two keys that hold nothing of it. */
function sharesOfTwo() {
  const ring = {
    capacity: { bytes: 1000, events: 8 },
    crowded: false,
    reserve: () => true,
    extend: () => true,
  };
  const shares = new FairShare(ring);
  // The fields of a principal do not matter here, only its identity.
  const [greedy, modest] = [issued(), issued()].map((principal) => shares.of(principal)) as [Share, Share];
  return { ring, shares, greedy, modest };
}

test('a key may use all room while there is plenty, and its share when there is little', () => {
  const { ring, shares, greedy, modest } = sharesOfTwo();
  expect(shares.reserve(greedy, 600, 0)).toBe(true);
  ring.crowded = true;
  expect(shares.reserve(greedy, 1, 0)).toBe(false);
  expect(shares.extend(greedy, 1, 0)).toBe(false);
  expect(shares.reserve(modest, 200, 0)).toBe(true);
  expect(shares.extend(modest, 50, 0)).toBe(true);
  expect(shares.extend(modest, 1, 0)).toBe(false);
  shares.settle(greedy, 600);
  expect(shares.reserve(greedy, 250, 0)).toBe(true);
  expect(greedy).toMatchObject({ bytes: 250, events: 1 });
  shares.shrink(greedy, 50);
  expect(shares.extend(greedy, 50, MINUTE)).toBe(true);
  expect(shares.extend(greedy, 1, MINUTE)).toBe(false);
});

describe('[R-845] while two keys send', () => {
  test('neither has more than its share of the bytes, whatever room there is, but always one event', () => {
    const { shares, greedy, modest } = sharesOfTwo();
    expect(shares.reserve(modest, 1, 0)).toBe(true);
    expect(shares.reserve(greedy, 1, 1)).toBe(true);
    expect(shares.extend(greedy, 500, 2)).toBe(true);
    expect(shares.reserve(greedy, 1, 3)).toBe(false);
    expect(shares.reserve(modest, 25, 4)).toBe(true);
    shares.settle(greedy, 501);
    expect(shares.reserve(greedy, 25, 5)).toBe(true);
    expect(shares.reserve(greedy, 7, 6)).toBe(false);
    expect(shares.reserve(greedy, 7, 6 + MINUTE)).toBe(true);
  });

  test('one whose events took long waits for the same time, and the other does not', () => {
    const { shares, greedy, modest } = sharesOfTwo();
    expect(shares.reserve(modest, 1, 0)).toBe(true);
    expect(shares.reserve(greedy, 1, 0)).toBe(true);
    shares.charge(greedy, 40, 0);
    expect(shares.reserve(greedy, 1, 0)).toBe(true);
    shares.charge(greedy, 40, 0);
    expect(shares.reserve(greedy, 1, 0)).toBe(false);
    shares.settle(greedy, 1);
    shares.settle(greedy, 1);
    expect(shares.reserve(greedy, 1, 0)).toBe(true);
    shares.settle(greedy, 1);
    shares.charge(greedy, 70, 0);
    expect(shares.reserve(greedy, 1, 90)).toBe(false);
    expect(shares.reserve(modest, 1, 90)).toBe(true);
    expect(shares.reserve(greedy, 1, 110)).toBe(true);
  });

  test('events of the usual kind are never counted as long', () => {
    const { shares, greedy, modest } = sharesOfTwo();
    expect(shares.reserve(modest, 1, 0)).toBe(true);
    for (let i = 0; i < 100_000; i++) shares.charge(greedy, 0.1, 0);
    expect(shares.reserve(greedy, 1, 0)).toBe(true);
  });
});

test('[R-845] a key that sends alone does not wait for the time that its events took', () => {
  const { shares, greedy } = sharesOfTwo();
  expect(shares.reserve(greedy, 300, 0)).toBe(true);
  shares.charge(greedy, 5000, 0);
  expect(shares.reserve(greedy, 300, 0)).toBe(true);
});

describe('[R-845] of a burst from a key that sends alone', () => {
  test('the ledger has one share of the queue at a time, and the rest in order as it answers', () => {
    const { shares, greedy, modest } = sharesOfTwo();
    const entered: string[] = [];
    const arrive = (share: Share, bytes: number, name: string) => {
      expect(shares.reserve(share, bytes, 0)).toBe(true);
      shares.enter(share, bytes, 0, () => entered.push(name));
    };
    // A share is 31 bytes.
    for (let i = 0; i < 6; i++) arrive(greedy, 12, `greedy ${i}`);
    expect(entered).toEqual(['greedy 0', 'greedy 1']);
    arrive(modest, 5, 'modest');
    expect(entered).toEqual(['greedy 0', 'greedy 1', 'modest']);
    shares.answered(greedy, 12, 1);
    expect(entered.slice(3)).toEqual(['greedy 2']);
    shares.charge(greedy, 200, 1);
    shares.answered(greedy, 12, 1);
    expect(entered.slice(4)).toEqual([]);
    shares.answered(greedy, 12, 1);
    expect(entered.slice(4)).toEqual(['greedy 3']);
    shares.answered(greedy, 12, MINUTE);
    shares.answered(modest, 5, MINUTE);
    expect(entered.slice(5)).toEqual(['greedy 4', 'greedy 5']);
    shares.answered(greedy, 12, MINUTE);
    shares.answered(greedy, 12, MINUTE);
    expect(greedy).toMatchObject({ bytes: 0, events: 0, entered: 0, enteredBytes: 0, held: [] });
  });

  test('an event larger than a share enters by itself', () => {
    const { shares, greedy } = sharesOfTwo();
    const entered: number[] = [];
    for (let i = 0; i < 3; i++) shares.enter(greedy, 100, 0, () => entered.push(i));
    expect(entered).toEqual([0]);
    shares.answered(greedy, 100, 0);
    expect(entered).toEqual([0, 1]);
  });

  test('one share at most is before the first event of another key', async () => {
    const { ingest, port, ledger } = await collectorWithoutLedger(256, { maxBodyBytes: 64 << 10 });
    const body = JSON.stringify({ filler: 'x'.repeat(63 << 10) });
    const burst = Array.from({ length: 60 }, (_, i) =>
      send(port, { key: 'greedy', body: body + ' '.repeat(i) }),
    );
    await expect.poll(() => ingest.queue.events).toBe(60);
    const other = send(port, { key: 'modest', body: '{}' });
    const order: string[] = [];
    const lengths: number[] = [];
    await expect
      .poll(() => {
        for (let queued = ledger.take(); queued !== undefined; queued = ledger.take()) {
          order.push(queued.keyId);
          lengths.push(queued.salted.length);
        }
        return order;
      })
      .toContain('modest');
    // A share of 8 MiB is 256 KiB.
    expect(order.filter((key) => key === 'greedy').length).toBeLessThanOrEqual(4);
    let answered = 0;
    await expect
      .poll(() => {
        for (; answered < order.length; answered++) ledger.answer('accepted');
        ledger.send();
        for (let queued = ledger.take(); queued !== undefined; queued = ledger.take()) {
          order.push(queued.keyId);
          expect(queued.salted.subarray(-64).toString()).toMatch(/x"\} *$/);
          lengths.push(queued.salted.length);
        }
        return answered;
      })
      .toBe(61);
    const statuses = (await Promise.all([...burst, other])).map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([201]));
    // Each of the sixty has a length of its own.
    expect(new Set(lengths).size).toBe(61);
  });
});

test('[R-803] a key that announces large bodies and does not send them leaves room for other keys', async () => {
  const other = (await issueKey(collector.dataDir)).text;
  // Until the running collector knows the new key.
  await expect
    .poll(
      async () => (await send(collector.port, { key: other, body: JSON.stringify(sampleEvent()) })).status,
    )
    .toBe(201);
  const idle = await Promise.all(Array.from({ length: 40 }, () => RawConnection.open(collector.port)));
  for (const connection of idle) {
    connection.write(
      `POST /event/outcome HTTP/1.1\r\nHost: x\r\nX-API-Key: ${collector.key}\r\n` +
        'Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{',
    );
  }
  await expect
    .poll(async () => {
      const body = JSON.stringify(sampleEvent('outcome', { filler: 'x'.repeat(300_000) }));
      return (await send(collector.port, { key: collector.key, body })).status;
    })
    .toBe(503);
  for (let i = 0; i < 10; i++) {
    const body = JSON.stringify(sampleEvent('outcome', { filler: 'x'.repeat(300_000) }));
    expect((await send(collector.port, { key: other, body })).status).toBe(201);
  }
  for (const connection of idle) connection.socket.destroy();
});
