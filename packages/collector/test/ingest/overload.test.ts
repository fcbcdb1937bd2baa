import { SALT_BYTES } from '@clinical-events/protocol';
import { expect, onTestFinished, test } from 'vitest';
import { SHORT_LINE } from '../../src/ingest/admission.js';
import { collectorWithoutLedger } from '../running/collector-without-ledger.js';
import { RawConnection, requestBytes, type RawAnswer } from '../running/raw-http.js';
import { sampleEvent } from '../running/sample-events.js';

test('[R-845] events of one key that wait for a slow ledger leave room for those of another', async () => {
  const capacity = 16;
  const { ingest, port, ledger } = await collectorWithoutLedger(capacity);
  const waiting: RawConnection[] = [];
  /** @returns how many of these events got a place in the queue, each from its own connection. */
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
  // Answered events do not count any more.
  expect(await queue('greedy', 1)).toBe(1);
});

test('[R-845] a key whose event took long is refused while another key sends, and the other key is not', async () => {
  const { ingest, port, ledger } = await collectorWithoutLedger(16);
  /** @returns the status of an event, which takes the ledger so long if it gets there. */
  const statusOf = async (key: string, tookMs = 0): Promise<number | undefined> => {
    const connection = await RawConnection.open(port);
    onTestFinished(() => connection.close());
    connection.write(requestBytes({ key, body: JSON.stringify(sampleEvent()) }));
    await expect.poll(() => ingest.pending > 0 || connection.rest !== '', { interval: 1 }).toBe(true);
    await new Promise(setImmediate);
    if (ledger.take() !== undefined) {
      ledger.answer('accepted', undefined, tookMs);
      ledger.send();
    }
    return (await connection.answer())?.status;
  };
  const LONG = 600_000;
  expect(await statusOf('costly', LONG)).toBe(201);
  expect(await statusOf('costly')).toBe(201);
  expect(await statusOf('modest')).toBe(201);
  expect(await statusOf('costly')).toBe(503);
  for (let i = 0; i < 10; i++) expect(await statusOf('modest')).toBe(201);
});

test('[R-845] a ledger that does not answer leads to quick refusals, and accepted events are kept', async () => {
  const capacity = 2048;
  const { ingest, port, ledger } = await collectorWithoutLedger(capacity);
  const bodies = new Map<RawConnection, string>();
  let refusal: RawAnswer | undefined;
  // One event a connection: those with a place in the line get no answer, and wait.
  while (refusal === undefined && bodies.size < capacity) {
    const connection = await RawConnection.open(port);
    onTestFinished(() => connection.close());
    const body = JSON.stringify(sampleEvent());
    const taken = ingest.pending;
    connection.write(requestBytes({ key: 'greedy', body }));
    await expect.poll(() => ingest.pending > taken || connection.rest !== '', { interval: 1 }).toBe(true);
    if (connection.rest === '') bodies.set(connection, body);
    else refusal = await connection.answer();
  }
  expect(refusal?.status).toBe(503);
  expect(Number(refusal?.header('Retry-After'))).toBe(1);
  expect(refusal?.error().code).toBe('overloaded');
  expect(bodies.size).toBeGreaterThanOrEqual(SHORT_LINE);
  expect(bodies.size).toBeLessThanOrEqual(capacity / 2 + 1);
  expect(ingest.pending).toBe(bodies.size);
  const stored = [...bodies].map(() => {
    const { salted } = ledger.take() ?? {};
    ledger.answer('accepted');
    return salted?.subarray(SALT_BYTES).toString();
  });
  expect(stored).toEqual([...bodies.values()]);
  expect(ledger.take()).toBeUndefined();
  ledger.send();
  for (const connection of bodies.keys()) expect((await connection.answer())?.status).toBe(201);
  expect(ingest.pending).toBe(0);
});
