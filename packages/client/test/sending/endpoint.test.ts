import net, { type AddressInfo } from 'node:net';
import tls from 'node:tls';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { Authority } from '../../../collector/test/running/certificates.js';
import type { Answer } from '../../src/sending/answer.js';
import { CannotSend } from '../../src/sending/dial.js';
import { type Destination, Endpoint } from '../../src/sending/endpoint.js';
import { fakeCollector } from '../running/fake-collector.js';
import { hurriedClient } from '../running/hurried-client.js';
import { rawServer } from '../running/raw-server.js';

const CREATED = 'HTTP/1.1 201 Created\r\nContent-Length: 21\r\n\r\n{"status":"accepted"}';
const STORED = { status: 201, accepted: true };
const BODY = Buffer.from('{"event_id":"é"}');

function endpointAt(url: string, more: Partial<Destination> = {}): Endpoint {
  const endpoint = new Endpoint({ url, apiKey: 'key', patienceMs: 600_000, ...more });
  onTestFinished(() => endpoint.close());
  return endpoint;
}

function post(endpoint: Endpoint, body: Uint8Array = BODY): Promise<Answer> {
  return new Promise((answered, failed) => endpoint.post('outcome', body, { answered, failed }));
}

test('[R-862] a request is HTTP/1.1 with the current key and the exact bytes', async () => {
  const requests: string[] = [];
  const { url } = await rawServer((socket, request) => {
    requests.push(Buffer.from(request, 'latin1').toString());
    socket.write(CREATED);
  });
  let key = 'first';
  const endpoint = endpointAt(`${url}/base/`, { apiKey: () => key });
  await post(endpoint);
  key = 'second';
  const large = Buffer.alloc(100_000, 'x');
  await post(endpoint, large);
  const head = (of: string, length: number) =>
    `POST /base/event/outcome HTTP/1.1\r\nHost: ${new URL(url).host}\r\nContent-Type: application/json\r\n` +
    `X-API-Key: ${of}\r\nContent-Length: ${length}\r\n\r\n`;
  expect(requests).toEqual([
    `${head('first', 17)}${String(BODY)}`,
    `${head('second', 100_000)}${String(large)}`,
  ]);
});

test('[R-862] a connection has one request at a time, and is used again for the next', async () => {
  const open = new Map<net.Socket, number>();
  let most = 0;
  const { url, sockets } = await rawServer((socket) => {
    open.set(socket, (open.get(socket) ?? 0) + 1);
    most = Math.max(most, ...open.values());
    setTimeout(() => {
      open.set(socket, 0);
      socket.write(CREATED);
    }, 1);
  });
  const endpoint = endpointAt(url);
  const one = async () => {
    for (let i = 0; i < 20; i++) expect(await post(endpoint)).toEqual(STORED);
  };
  await Promise.all([one(), one(), one()]);
  expect([most, sockets.length]).toEqual([1, 3]);
});

test('[R-862] an unrequested answer is not taken as the answer for another event', async () => {
  const { url, sockets } = await rawServer((socket, _request, connection) => {
    if (connection > 1) socket.write('HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n');
    else {
      socket.write(CREATED);
      setTimeout(() => socket.write(CREATED), 5);
    }
  });
  const endpoint = endpointAt(url);
  expect(await post(endpoint)).toEqual(STORED);
  await expect.poll(() => sockets[0]?.destroyed).toBe(true);
  expect(await post(endpoint)).toEqual({ status: 503 });
  const twice = await rawServer((socket, _request, connection) => {
    socket.write(connection > 1 ? 'HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n' : CREATED + CREATED);
  });
  const other = endpointAt(twice.url);
  expect([await post(other), await post(other)]).toEqual([STORED, { status: 503 }]);
});

/** Answers each connection at its first bytes, in pieces if there are more of `answer`, and reads no more. */
async function hastyServer(...answer: string[]): Promise<{ url: string; connections: net.Socket[] }> {
  const connections: net.Socket[] = [];
  const server = net.createServer((socket) => {
    connections.push(socket.on('error', () => undefined));
    socket.once('data', () => {
      socket.pause();
      const [first = '', ...more] = answer;
      socket.write(first);
      for (const piece of more) setTimeout(() => socket.write(piece), 100);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  onTestFinished(() => {
    for (const socket of connections) socket.destroy();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, connections };
}

/** How many turns of the event loop a server in this process needs at most to accept, to read and to answer. */
const TURNS = 50;
const HELD_MS = 20;

// The last byte is sent only after a server in this process had its turns, even on a slow machine.
beforeEach(() => {
  const { setTimeout: later } = globalThis;
  const held = (act: () => void, turns = TURNS): unknown =>
    setImmediate(turns > 0 ? () => held(act, turns - 1) : act);
  vi.stubGlobal('setTimeout', (act: () => void, ms?: number, ...more: []) =>
    later(ms === HELD_MS ? () => void held(act) : act, ms, ...more),
  );
});
afterEach(() => void vi.unstubAllGlobals());

/** More than the buffers of two sockets take. */
const LARGE = Buffer.alloc(64 << 20);

test('[R-862] a 413 before the request was read counts, and its connection is not used again', async () => {
  const { url, connections } = await hastyServer('HTTP/1.1 413 x\r\nContent-Length: 0\r\n\r\n');
  const endpoint = endpointAt(url);
  expect(await post(endpoint, LARGE)).toEqual({ status: 413 });
  expect(await post(endpoint, LARGE)).toEqual({ status: 413 });
  expect(connections).toHaveLength(2);
});

const EARLY = 'came before the whole event was sent';
const ERASED_BODY = '{"error":{"code":"event_erased","message":"m","request_id":"1"}}';
const ERASED = `HTTP/1.1 409 x\r\nContent-Length: ${ERASED_BODY.length}\r\n\r\n${ERASED_BODY}`;

// The system buffers all these sizes except the last, and the server has read 64 KiB at most.
test.each([17_000, 100_000, 300_000, 900_000, LARGE.length])(
  '[R-862] an answer to a part of %d bytes deletes no event; below 1 MB, an answer after all of them counts',
  async (length) => {
    const body = LARGE.subarray(0, length);
    for (const answer of [CREATED, ERASED]) {
      const { url, connections } = await hastyServer(answer);
      const endpoint = endpointAt(url);
      await expect(post(endpoint, body)).rejects.toThrow(EARLY);
      await expect(post(endpoint, body)).rejects.toThrow(EARLY);
      expect(connections).toHaveLength(2);
    }
    if (length > 1e6) return;
    const come: number[] = [];
    const { url, sockets } = await rawServer((socket, request) => {
      come.push(request.length - request.indexOf('\r\n\r\n') - 4);
      // Interim answers may come first.
      socket.write(`HTTP/1.1 103 x\r\n\r\n${CREATED}`);
    });
    const endpoint = endpointAt(url);
    expect([await post(endpoint, body), await post(endpoint, body)]).toEqual([STORED, STORED]);
    expect([come, sockets.length]).toEqual([[length, length], 1]);
  },
);

test('[R-862] an answer that begins before the event was sent deletes none', async () => {
  const { url } = await hastyServer(CREATED.slice(0, 20), CREATED.slice(20));
  await expect(post(endpointAt(url), LARGE.subarray(0, 100_000))).rejects.toThrow(EARLY);
});

/**
 * A server in a thread of its own, which answers while this one is blocked: with 201 to each connection at
 * once, or to each request twice. It counts its answers in `said`.
 */
async function talkativeServer(when: 'connection' | 'twice'): Promise<{ url: string; said: Int32Array }> {
  const said = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(
    `const { workerData: { said, when, created }, parentPort } = require('node:worker_threads');
    const say = (socket) => socket.write(created, () => { Atomics.add(said, 0, 1); Atomics.notify(said, 0); });
    const server = require('node:net').createServer((socket) => {
      socket.on('error', () => undefined).resume();
      if (when === 'connection') return say(socket);
      socket.on('data', () => {
        say(socket);
        parentPort.once('message', () => say(socket));
      });
    });
    server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));`,
    { eval: true, workerData: { said, when, created: CREATED } },
  );
  onTestFinished(() => worker.terminate().then(() => undefined));
  const port = await new Promise<number>((resolve) => worker.once('message', resolve));
  return { url: `http://127.0.0.1:${port}`, said: Object.assign(said, { worker }) };
}

/** Blocks this thread, so that it does not see what arrives. */
function blockUntil(said: Int32Array, count: number): void {
  for (let now = Atomics.load(said, 0); now < count; now = Atomics.load(said, 0)) Atomics.wait(said, 0, now);
}

test('[R-862] a 201 that arrives before a new connection has sent its request deletes no event', async () => {
  const { url, said } = await talkativeServer('connection');
  const answer = post(endpointAt(url));
  // The connection is begun in the next tick.
  await Promise.resolve();
  await new Promise((resolve) => process.nextTick(resolve));
  blockUntil(said, 1);
  await expect(answer).rejects.toThrow();
});

test('[R-862] a second 201 on a connection deletes no event that is sent after it', async () => {
  const { url, said } = await talkativeServer('twice');
  const endpoint = endpointAt(url);
  expect(await post(endpoint)).toEqual(STORED);
  (said as Int32Array & { worker: Worker }).worker.postMessage('again');
  blockUntil(said, 2);
  await expect(post(endpoint)).rejects.toThrow();
});

test('[R-862] a connection that was closed while it was idle is replaced, and only once', async () => {
  let refusing = false;
  const { url, sockets } = await rawServer((socket) => {
    if (refusing) socket.resetAndDestroy();
    else socket.write(CREATED);
  });
  const endpoint = endpointAt(url);
  await Promise.all([post(endpoint), post(endpoint)]);
  for (const socket of sockets) socket.resetAndDestroy();
  expect(await post(endpoint)).toEqual(STORED);
  const before = sockets.length;
  refusing = true;
  await expect(post(endpoint)).rejects.toThrow();
  expect(sockets.length).toBe(before + 1);
});

test('[R-862] a 201 does not count if the rest of its answer never comes', async () => {
  const { url } = await rawServer((socket) => socket.write(CREATED.slice(0, -1)));
  await expect(post(endpointAt(url, { patienceMs: 50 }))).rejects.toThrow('no answer within 0.05 s');
  const endpoint = endpointAt(url);
  const answer = post(endpoint);
  setTimeout(() => endpoint.close(), 50);
  await expect(answer).rejects.toThrow('the client is closing');
});

test('[R-862] a request without an answer fails and is not repeated at once', async () => {
  let [requests, silent] = [0, false];
  const { url } = await rawServer((socket) => {
    requests++;
    if (!silent) socket.write(CREATED);
  });
  const endpoint = endpointAt(url, { patienceMs: 60 });
  // A busy machine may take longer than that for an answer that comes.
  while (!(await post(endpoint).then(Boolean, () => false)));
  [requests, silent] = [0, true];
  await expect(post(endpoint)).rejects.toThrow('no answer within 0.06 s');
  expect(requests).toBe(1);
});

test('[R-862] an idle connection is closed after some seconds', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const { url, sockets } = await rawServer((socket) => socket.write(CREATED));
  await post(endpointAt(url));
  vi.advanceTimersByTime(2000);
  expect(sockets[0]?.readableEnded).toBe(false);
  vi.advanceTimersByTime(3000);
  await expect.poll(() => sockets[0]?.readableEnded).toBe(true);
});

test.each([
  [
    'throws',
    () => {
      throw new Error('no key yet');
    },
  ],
  ['returns nothing', () => undefined as unknown as string],
  ['returns more than a key', () => 'secret\r\nX-Other: 1'],
])(
  '[R-862] a function that %s in place of a key fails the request, and the key is not reported',
  async (_what, apiKey) => {
    let requests = 0;
    const { url } = await rawServer(() => requests++);
    const error: unknown = await post(endpointAt(url, { apiKey })).catch((failure: unknown) => failure);
    expect(error).toBeInstanceOf(Error);
    expect(String(error)).not.toContain('secret');
    expect(requests).toBe(0);
  },
);

interface TlsServer {
  readonly url: string;
  readonly authority: Authority;
  /** Of each request: the name it was sent to, and whether its connection resumed a session. */
  readonly requests: { readonly servername: string | false; readonly reused: boolean }[];
  readonly closeAll: () => void;
}

/** Its certificate is for `localhost`. */
async function tlsServer(): Promise<TlsServer> {
  const authority = new Authority();
  const { certificate, key } = authority.issue({ names: ['dns:localhost'] });
  const requests: TlsServer['requests'] = [];
  const sockets: tls.TLSSocket[] = [];
  const server = tls.createServer({ cert: certificate, key, ALPNProtocols: ['http/1.1'] }, (socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined);
    const reused = socket.isSessionReused();
    socket.on('data', () => {
      requests.push({ servername: socket.servername ?? false, reused });
      socket.write(CREATED);
    });
  });
  const closeAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  onTestFinished(() => {
    closeAll();
    server.close();
  });
  return {
    url: `https://localhost:${(server.address() as AddressInfo).port}`,
    authority,
    requests,
    closeAll,
  };
}

function trust(certificates: readonly string[]): void {
  const before = tls.getCACertificates('default');
  tls.setDefaultCACertificates([...before, ...certificates]);
  onTestFinished(() => tls.setDefaultCACertificates(before));
}

test('[R-862] a TLS connection to a collector sends its name and resumes its session', async () => {
  const { url, authority, requests, closeAll } = await tlsServer();
  trust([authority.certificate]);
  const endpoint = endpointAt(url);
  expect(await post(endpoint)).toEqual(STORED);
  expect(await post(endpoint)).toEqual(STORED);
  closeAll();
  expect(await post(endpoint)).toEqual(STORED);
  const servername = 'localhost';
  expect(requests).toEqual([false, false, true].map((reused) => ({ servername, reused })));
});

test('[R-862] an untrusted certificate or one for another name gets no key and no event', async () => {
  const { url, authority, requests } = await tlsServer();
  await expect(post(endpointAt(url))).rejects.toThrow(/certificate/);
  trust([authority.certificate]);
  await expect(post(endpointAt(url.replace('localhost', '127.0.0.1')))).rejects.toThrow(/altnames/);
  expect(requests).toEqual([]);
});

test('[R-862] with TLS too, an answer to a part of an event deletes none', async () => {
  // It answers each piece that comes.
  const { url, authority } = await tlsServer();
  trust([authority.certificate]);
  const endpoint = endpointAt(url);
  expect(await post(endpoint)).toEqual(STORED);
  await expect(post(endpoint, LARGE.subarray(0, 100_000))).rejects.toThrow(EARLY);
  expect(await post(endpoint)).toEqual(STORED);
});

/** A proxy that tunnels by CONNECT. Collects the heads of the requests that it gets. */
async function tunnellingProxy(answer = 'HTTP/1.1 200 Connection established\r\n\r\n') {
  const heads: string[] = [];
  const sockets: net.Socket[] = [];
  const server = net.createServer((socket) => {
    sockets.push(socket.on('error', () => undefined));
    socket.once('data', (bytes) => {
      heads.push(bytes.toString());
      const port = Number(/^CONNECT \S+:(\d+) /.exec(bytes.toString())?.[1]);
      if (!answer.startsWith('HTTP/1.1 200')) return void socket.end(answer);
      const beyond = net.connect(port, '127.0.0.1', () => {
        // In two pieces, as a network may deliver it.
        socket.write(answer.slice(0, 10));
        setTimeout(() => socket.write(answer.slice(10), () => socket.pipe(beyond).pipe(socket)), 5);
      });
      sockets.push(beyond.on('error', () => undefined));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { proxy: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, heads };
}

test('[R-862] a proxy tunnels connections, plain or TLS, and gets neither key nor event', async () => {
  const { proxy, heads } = await tunnellingProxy();
  const plain = await rawServer((socket) => socket.write(CREATED));
  const { url, authority, requests } = await tlsServer();
  const login = proxy.replace('://', '://user:pass%40word@');
  for (const endpoint of [
    endpointAt(plain.url, { proxy }),
    endpointAt(url, { proxy: login, tls: { ca: authority.certificate } }),
  ]) {
    expect([await post(endpoint), await post(endpoint)]).toEqual([STORED, STORED]);
    expect(await post(endpoint, LARGE.subarray(0, 100_000)).catch(String)).toBeDefined();
  }
  const [first, second] = [plain.url, url].map((each) => new URL(each).host);
  expect(requests.length).toBeGreaterThan(1);
  expect(heads[0]).toBe(`CONNECT ${first} HTTP/1.1\r\nHost: ${first}\r\n\r\n`);
  const credentials = Buffer.from('user:pass@word').toString('base64');
  expect(heads).toContain(
    `CONNECT ${second} HTTP/1.1\r\nHost: ${second}\r\nProxy-Authorization: Basic ${credentials}\r\n\r\n`,
  );
  // Through the tunnel the certificate is checked as without it.
  await expect(post(endpointAt(url, { proxy }))).rejects.toThrow(/certificate/);
});

test.each([
  ['HTTP/1.1 407 Proxy Authentication Required\r\n\r\n', /proxy answered 407/],
  ['HTTP/1.1 201 Created\r\nContent-Length: 21\r\n\r\n{"status":"accepted"}', /./],
  ['SSH-2.0-OpenSSH\r\n\r\n', /HTTP/],
  ['x'.repeat(17_000), /too long/],
])('[R-862] a proxy that answers %j has stored nothing', async (answer, why) => {
  const { proxy } = await tunnellingProxy(answer);
  await expect(post(endpointAt('http://127.0.0.1:9', { proxy }))).rejects.toThrow(why);
});

test('[R-862] a client certificate is sent, and one that cannot be used is reported', async () => {
  const authority = new Authority();
  const server = authority.issue({ names: ['dns:localhost'] });
  const { certificate: cert, key } = authority.issue({ names: ['dns:sender'] });
  const seen: unknown[] = [];
  const listening = tls.createServer(
    { ...{ cert: server.certificate, key: server.key, ca: authority.certificate }, requestCert: true },
    (socket) => {
      seen.push(socket.authorized);
      socket.on('error', () => undefined).on('data', () => socket.write(CREATED));
    },
  );
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', () => resolve()));
  onTestFinished(() => void listening.close());
  const url = `https://localhost:${(listening.address() as AddressInfo).port}`;
  const endpoint = endpointAt(url, { tls: { ca: authority.certificate, cert, key } });
  expect(await post(endpoint)).toEqual(STORED);
  expect(seen).toEqual([true]);
  const wrong = endpointAt(url, { tls: { cert: 'no certificate', key } });
  await expect(post(wrong)).rejects.toThrow(CannotSend);
});

test('[R-862] large events that were answered too early are sent again, and none is lost', async () => {
  const collector = await fakeCollector();
  let connections = 0;
  const between = net.createServer((socket) => {
    socket.on('error', () => undefined);
    if (++connections <= 6) {
      socket.once('data', () => {
        socket.pause();
        socket.end(CREATED);
      });
    } else socket.pipe(net.connect(Number(new URL(collector.url).port), '127.0.0.1')).pipe(socket);
  });
  await new Promise<void>((resolve) => between.listen(0, '127.0.0.1', () => resolve()));
  onTestFinished(() => void between.close());
  const url = `http://127.0.0.1:${(between.address() as AddressInfo).port}`;
  const { log, quarantined } = hurriedClient({ url }, { patienceMs: 600_000 });
  // More than the buffers of a connection hold: what they hold is sent, and a 201 for it is an answer.
  const ids: string[] = [];
  for (const size of [12e6, 13e6, 14e6, 15e6]) {
    const run = log.startRun({ inputs: { text: 'x'.repeat(size) } });
    await run.started;
    ids.push(run.startEventId);
  }
  expect(await log.flush()).toEqual({ waiting: 0 });
  expect(collector.accepted.map(({ event }) => event.event_id).sort()).toEqual(ids);
  expect(quarantined).toEqual([]);
});
