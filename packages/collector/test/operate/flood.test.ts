import http from 'node:http';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { post } from '../running/load.js';
import { oneCollector } from '../running/one-collector.js';
import { RawConnection } from '../running/raw-http.js';
import { sampleEvent } from '../running/sample-events.js';
import { get, managementPort } from './managed.js';

const collector = oneCollector();
const port = () => managementPort(collector.running);

/** All addresses of the host send requests, each again after its answer. @returns how many answers there were. */
async function flood(
  path: string,
  clients: number,
  ms: number,
): Promise<(() => number) & { over: Promise<unknown> }> {
  let answers = 0;
  const all: Promise<void>[] = [];
  const until = performance.now() + ms;
  for (let i = 0; i < clients; i++) {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    const ask = async (): Promise<void> => {
      while (performance.now() < until) {
        const answered = await get(port(), path, { agent }).then(
          () => true,
          () => sleep(20).then(() => false),
        );
        if (answered) answers++;
      }
    };
    all.push(ask());
  }
  await sleep(200);
  return Object.assign(() => answers, { over: Promise.all(all) });
}

describe('[R-831] a flood of the management port', () => {
  test('gets few answers, and delays neither events nor a probe', async () => {
    const begun = performance.now();
    const answered = await flood('/metrics', 28, 3000);
    for (let i = 0; i < 20; i++) {
      const { status } = await post(collector.port, collector.key, JSON.stringify(sampleEvent()));
      expect(status).toBe(201);
    }
    expect((await get(port(), '/livez')).status).toBe(200);
    await answered.over;
    const seconds = (performance.now() - begun) / 1000;
    // 100 at once, 50 a second, and one a second from each client that waits.
    expect(answered()).toBeLessThan(100 + seconds * (50 + 28) + 28);
    expect(answered()).toBeGreaterThan(0);
  });

  test.each(['/metrics', '/livez', '/nowhere'])(
    'by 300 connections that ask for %s leaves answers for probes from the same address',
    async (path) => {
      const { over } = await flood(path, 300, 3000);
      for (let i = 0; i < 5; i++) expect((await get(port(), '/livez')).status).toBe(200);
      await over;
    },
  );

  test('gets at most half of the connections for one address', async () => {
    const sockets = Array.from({ length: 60 }, () => net.connect(port(), '127.0.0.1'));
    onTestFinished(() => sockets.forEach((socket) => socket.destroy()));
    for (const socket of sockets) socket.on('error', () => undefined);
    const open = () => sockets.filter((socket) => !socket.closed && socket.readyState === 'open').length;
    for (const socket of sockets) socket.resume();
    await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('connect', resolve))));
    await expect.poll(open).toBeLessThanOrEqual(32);
    expect(open()).toBeGreaterThan(20);
    // 127.0.0.2 is another address of the same host.
    const status = await new Promise((resolve, reject) => {
      http
        .get(
          { port: port(), host: '127.0.0.1', localAddress: '127.0.0.2', path: '/livez', agent: false },
          (response) => resolve(response.resume().statusCode),
        )
        .on('error', reject);
    });
    expect(status).toBe(200);
    sockets.forEach((socket) => socket.destroy());
    await expect
      .poll(() =>
        get(port(), '/livez').then(
          ({ status: now }) => now,
          () => 0,
        ),
      )
      .toBe(200);
  });

  test('from two addresses that would take all connections leaves one to a third', async () => {
    const sockets = Array.from({ length: 700 }, (_, i) =>
      net.connect({ port: port(), host: '127.0.0.1', localAddress: `127.0.0.${i % 2 === 0 ? 3 : 4}` }),
    );
    onTestFinished(() => sockets.forEach((socket) => socket.destroy()));
    for (const socket of sockets) socket.on('error', () => undefined).resume();
    await Promise.all(
      sockets.map(
        (socket) => new Promise((resolve) => socket.once('connect', resolve).once('close', resolve)),
      ),
    );
    const statuses = await Promise.all(
      Array.from({ length: 3 }, () => get(port(), '/livez').then(({ status }) => status)),
    );
    expect(statuses).toEqual([200, 200, 200]);
  });

  test('of requests on one connection is answered once, and the connection ends', async () => {
    const connection = await RawConnection.open(port());
    connection.write('GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(5000));
    const answers = await connection.answers();
    expect(answers.map(({ status }) => status)).toEqual([200]);
    expect(await connection.ending()).not.toBe('open');
    connection.close();
  });
});
