import fs from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { Principal } from '../../src/access/principal.js';
import { RestingConnections } from '../../src/ingest/connections.js';
import type { ApiKey } from '../../src/store/contract/keys.js';
import { start, temporaryDirectory } from '../running/collector-process.js';
import { issueKey } from '../running/issued-keys.js';
import { RawConnection, requestBytes } from '../running/raw-http.js';
import { sampleEvent } from '../running/sample-events.js';

/** A collector with a key that may send one event, and one that may send any number. */
async function withLimitedKey() {
  const dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
  const limited = await issueKey(dataDir, { rateLimit: { perSecond: 0.001, burst: 1 } });
  const other = await issueKey(dataDir);
  const running = await start(dataDir);
  onTestFinished(async () => {
    await running.stop();
  });
  const connection = await RawConnection.open(running.port);
  onTestFinished(() => connection.close());
  const post = (key = limited.text) =>
    requestBytes({ key, body: JSON.stringify(sampleEvent('outcome', { text: 'x'.repeat(20_000) })) });
  return { running, connection, post, otherKey: other.text };
}

const statusOf = async (connection: RawConnection) => (await connection.answer())?.status;

test('[R-845] a connection that sent too much remains open, and each request on it is answered', async () => {
  const { connection, post, otherKey } = await withLimitedKey();
  connection.write(post());
  expect(await statusOf(connection)).toBe(201);
  for (let i = 0; i < 5; i++) {
    const bytes = post();
    // In two pieces, as most clients do: the refusal comes before the body has.
    connection.write(bytes.subarray(0, 300));
    await sleep(5);
    connection.write(bytes.subarray(300));
    const answer = await connection.answer();
    expect([answer?.status, Number(answer?.header('Retry-After')) > 0]).toEqual([429, true]);
  }
  connection.write(post(otherKey));
  expect(await statusOf(connection)).toBe(201);
});

const issued = () => new Principal({ permissions: 'all', rateLimit: undefined } as Partial<ApiKey> as ApiKey);
const PRINCIPAL = issued();

class Refused {
  paused = false;
  readonly request = {
    readableEnded: true,
    socket: {
      destroyed: false,
      pause: () => (this.paused = true),
      resume: () => (this.paused = false),
    },
  } as unknown as IncomingMessage;

  constructor(resting: RestingConnections, shouldKeepAlive = true) {
    resting.add(this.request, { shouldKeepAlive } as unknown as ServerResponse, PRINCIPAL);
  }
}

describe('[R-845] connections that sent too much', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] });
  });
  afterEach(() => vi.useRealTimers());

  const pausedOf = (all: readonly Refused[]) => all.map(({ paused }) => paused);

  test('are not read from, and resume ten at a tick, in the order in which they began to wait', () => {
    const resting = new RestingConnections();
    const all = Array.from({ length: 25 }, () => new Refused(resting));
    expect([new Set(pausedOf(all)), resting.size]).toEqual([new Set([true]), 25]);
    vi.advanceTimersByTime(10);
    expect(pausedOf(all)).toEqual(all.map((_, i) => i >= 10));
    vi.advanceTimersByTime(10);
    expect(pausedOf(all)).toEqual(all.map((_, i) => i >= 20));
    vi.advanceTimersByTime(10);
    expect([new Set(pausedOf(all)), resting.size]).toEqual([new Set([false]), 0]);
    const again = new Refused(resting);
    expect(again.paused).toBe(true);
    vi.advanceTimersByTime(10);
    expect(again.paused).toBe(false);
  });

  test('that are closed meanwhile leave the queue, and use no turn', () => {
    const resting = new RestingConnections();
    const closed = Array.from({ length: 5000 }, () => new Refused(resting));
    const all = Array.from({ length: 25 }, () => new Refused(resting));
    for (const { request } of closed) Object.assign(request.socket, { destroyed: true });
    vi.advanceTimersByTime(10);
    expect(pausedOf(all)).toEqual(all.map((_, i) => i >= 10));
    expect(resting.size).toBe(15);
  });

  test('resume at the time in Retry-After, however many they are', () => {
    const resting = new RestingConnections();
    expect(resting.retryAfter).toBe(1);
    const all = Array.from({ length: 2500 }, () => new Refused(resting));
    expect(resting.retryAfter).toBe(3);
    vi.advanceTimersByTime(2400);
    expect(resting.size).toBe(100);
    vi.advanceTimersByTime(100);
    expect([new Set(pausedOf(all)), resting.size]).toEqual([new Set([false]), 0]);
  });

  test('count as delayed for what is read first when they resume, but not for another sender', async () => {
    const resting = new RestingConnections();
    const { request } = new Refused(resting);
    const heldUp = (principal = PRINCIPAL) => resting.heldUp(request.socket, principal);
    expect(heldUp()).toBe(false);
    vi.advanceTimersByTime(10);
    expect([heldUp(), heldUp(issued())]).toEqual([true, false]);
    // The turn of the loop in which it is read is over.
    await new Promise(setImmediate);
    expect(heldUp()).toBe(false);
  });

  test('all resume when the collector stops, and do not wait when they are to be closed', () => {
    const resting = new RestingConnections();
    const all = Array.from({ length: 25 }, () => new Refused(resting));
    const closing = new Refused(resting, false);
    expect([closing.paused, resting.size]).toEqual([false, 25]);
    resting.stop();
    const late = new Refused(resting);
    expect([new Set(pausedOf([...all, late])), resting.size]).toEqual([new Set([false]), 0]);
  });
});

test('[R-845] a collector that stops does not wait for a connection that is paused', async () => {
  const { running, connection, post } = await withLimitedKey();
  for (let i = 0; i < 3; i++) {
    connection.write(post());
    await connection.answer();
  }
  expect(await running.stop()).toBe(0);
});
