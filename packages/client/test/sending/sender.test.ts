import fs from 'node:fs';
import net, { type AddressInfo } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { runs } from '../../../../test/property-runs.js';
import type { Client } from '../../src/client.js';
import { Endpoint } from '../../src/sending/endpoint.js';
import { Sender } from '../../src/sending/sender.js';
import { openSpool } from '../../src/spool/disk-spool.js';
import { SpoolFull } from '../../src/spool/spool.js';
import { answer, fakeCollector, type FakeCollector } from '../running/fake-collector.js';
import { hurriedClient, temporaryDirectory } from '../running/hurried-client.js';

/** Captures `count` events, and returns their ids. */
async function captureSome(log: Client, count = 20): Promise<Set<string>> {
  const run = log.startRun({ model: { model_id: 'm' } });
  const outputs = Array.from({ length: count - 1 }, (_, i) => run.output({ summary: `${i}` }));
  await Promise.all(outputs);
  return new Set([run.startEventId, ...outputs.map(({ eventId }) => eventId)]);
}

/** Waits on a slow machine too, up to the limit of the test. */
const eventually = (look: () => void) => vi.waitFor(look, { timeout: 300_000 });

const idsOf = (collector: FakeCollector) => new Set(collector.accepted.map(({ event }) => event.event_id));

async function rawServer(answered: (socket: net.Socket) => void): Promise<string> {
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('data', () => answered(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test.each([408, 429, 500, 502, 503])('[R-862] after %i the same bytes are sent again', async (status) => {
  const bodies = new Map<string, Set<string>>();
  const collector = await fakeCollector(({ event, text }, response) => {
    const known = bodies.get(event.event_id);
    bodies.set(event.event_id, (known ?? new Set()).add(text));
    return known === undefined && answer(response, status, { message: 'm' });
  });
  const { log, quarantined } = hurriedClient({ url: collector.url });
  const ids = await captureSome(log);
  expect(await log.flush()).toEqual({ waiting: 0 });
  expect(idsOf(collector)).toEqual(ids);
  expect([...bodies.values()].every(({ size }) => size === 1)).toBe(true);
  expect(quarantined).toEqual([]);
});

/** On a busy machine an answer may be later than these clients wait for one, which they report. */
const butSlowness = (troubles: readonly string[]) =>
  troubles.filter((trouble) => trouble !== 'the collector did not answer');

test('[R-862] all events wait for Retry-After', async () => {
  const collector = await fakeCollector(
    (_event, response, request) => request === 1 && answer(response, 503, '', { 'Retry-After': '1' }),
  );
  const { log } = hurriedClient({ url: collector.url, concurrency: 1 });
  await captureSome(log, 5);
  await log.flush();
  const [first = 0, second = 0] = collector.requests;
  expect(second - first).toBeGreaterThan(950);
  expect(collector.accepted).toHaveLength(5);
});

test('[R-862] while the collector fails, one event at a time is tried, less and less often', async () => {
  const collector = await fakeCollector((_event, response) => answer(response, 503));
  const { log } = hurriedClient({ url: collector.url, concurrency: 8 });
  await captureSome(log, 50);
  // 8 at once, then about one in 50 ms: a slow machine only makes that more.
  await eventually(() => expect(collector.requests.length).toBeGreaterThan(30));
  const [from = 0, to = 0] = [collector.requests[10], collector.requests[30]];
  expect(to - from).toBeGreaterThan(250);
  collector.behave = () => false;
  expect(await log.flush()).toEqual({ waiting: 0 });
  expect(collector.accepted).toHaveLength(50);
});

test('[R-862] an event that the collector fails on does not hold up the others', async () => {
  let poison = '';
  const collector = await fakeCollector(
    ({ event }, response) => event.event_id === poison && answer(response, 500),
  );
  const { log } = hurriedClient({ url: collector.url, concurrency: 2 });
  poison = log.startRun({}).startEventId;
  const ids = await captureSome(log, 200);
  await eventually(() => expect(idsOf(collector)).toEqual(ids));
  await eventually(() => expect(log.state.waiting).toBe(1));
  poison = '';
  expect(await log.flush()).toEqual({ waiting: 0 });
});

test.each([400, 409, 413, 415])(
  '[R-862] an event that is answered %i goes into quarantine with the reason, and is reported',
  async (status) => {
    const refusal = { code: 'some_code', message: 'Why.', details: { issues: [{ pointer: '/x' }] } };
    let bad = '';
    const collector = await fakeCollector(
      ({ event }, response) => event.event_id === bad && answer(response, status, refusal),
    );
    const { log, quarantined } = hurriedClient({ url: collector.url, spool: temporaryDirectory() });
    bad = log.startRun({}).startEventId;
    const ids = await captureSome(log);
    expect(await log.flush()).toEqual({ waiting: 0 });
    expect(idsOf(collector)).toEqual(ids);
    expect(quarantined).toMatchObject([
      { kind: 'inference-start', eventId: bad, refusal: { status, ...refusal } },
    ]);
    expect(log.state.quarantined).toBe(1);
  },
);

test('[R-1331] an event that the collector has erased is deleted and counted, and no copy of it is kept', async () => {
  let erased = '';
  const collector = await fakeCollector(
    ({ event }, response) =>
      event.event_id === erased && answer(response, 409, { code: 'event_erased', message: 'It was erased.' }),
  );
  const spool = temporaryDirectory();
  const { log, quarantined } = hurriedClient({ url: collector.url, spool });
  erased = log.startRun({}).startEventId;
  const ids = await captureSome(log);
  expect(await log.flush()).toEqual({ waiting: 0 });
  expect(idsOf(collector)).toEqual(ids);
  expect(quarantined).toEqual([]);
  expect(log.state).toMatchObject({ waiting: 0, quarantined: 0, erased: 1 });
  await log.close();
  const files = fs.readdirSync(spool, { recursive: true, encoding: 'utf8' });
  expect(files.filter((name) => name.includes('quarantine') && name.endsWith('.ndjson'))).toEqual([]);
});

test('[R-862] an invalid key loses no event: it is reported, and events wait for a new key', async () => {
  const collector = await fakeCollector(
    ({ apiKey }, response) => apiKey !== 'new' && answer(response, 401, { code: 'key_expired' }),
  );
  let apiKey = 'old';
  const { log, quarantined, troubles } = hurriedClient({ url: collector.url, apiKey: () => apiKey });
  const ids = await captureSome(log);
  // After 20 at once, one at a time is tried, slowly.
  await eventually(() => expect(collector.requests.length).toBeGreaterThan(21));
  expect(collector.requests.slice(21).every((at, i) => at - (collector.requests[20 + i] ?? 0) > 90)).toBe(
    true,
  );
  expect(log.state).toMatchObject({ waiting: 20, quarantined: 0 });
  expect(butSlowness(troubles)).toEqual([
    'the collector rejected the API key (401 key_expired); events are kept',
  ]);
  apiKey = 'new';
  expect(await log.flush()).toEqual({ waiting: 0 });
  expect(idsOf(collector)).toEqual(ids);
  expect(quarantined).toEqual([]);
});

test('[R-862] a key that lacks one permission sends all other events', async () => {
  let permitted = false;
  const collector = await fakeCollector(
    ({ path }, response) =>
      path.endsWith('inference-start') &&
      !permitted &&
      answer(response, 403, { code: 'permission_denied', message: 'm' }),
  );
  const { log, quarantined, troubles } = hurriedClient({ url: collector.url });
  for (let run = 0; run < 5; run++) await captureSome(log, 10);
  // One whose answer is slow is sent again.
  const ids = () => new Set(collector.accepted.map(({ event }) => event.event_id));
  await eventually(() => expect(ids().size).toBe(45));
  await eventually(() => expect(log.state.waiting).toBe(5));
  expect(butSlowness(troubles)).toEqual([
    'the key may not send inference-start (403 permission_denied); these events are kept',
  ]);
  permitted = true;
  expect(await log.flush()).toEqual({ waiting: 0 });
  expect(quarantined).toEqual([]);
});

test.each([200, 204, 301, 302, 307, 404])(
  '[R-862] %i is no acceptance: no redirect is followed, and no event is lost',
  async (status) => {
    const elsewhere = await fakeCollector();
    const collector = await fakeCollector((_event, response) =>
      answer(response, status, '', { Location: `${elsewhere.url}/event/outcome` }),
    );
    const { log, quarantined } = hurriedClient({ url: collector.url });
    await captureSome(log, 10);
    await eventually(() => expect(collector.requests.length).toBeGreaterThan(10));
    expect(log.state.waiting).toBe(10);
    expect(elsewhere.requests).toEqual([]);
    collector.behave = () => false;
    expect(await log.flush()).toEqual({ waiting: 0 });
    expect(quarantined).toEqual([]);
  },
);

test.each([
  ['bytes of another protocol', (socket: net.Socket) => socket.end('SSH-2.0-OpenSSH\r\n')],
  ['half an answer', (socket: net.Socket) => socket.end('HTTP/1.1 20')],
  ['a body cut short', (socket: net.Socket) => socket.end('HTTP/1.1 503 x\r\nContent-Length: 99\r\n\r\n{')],
  [
    'headers without an end',
    (socket: net.Socket) => socket.write(`HTTP/1.1 201 x\r\nX: ${'x'.repeat(99_999)}`),
  ],
  [
    'a change of protocol',
    (socket: net.Socket) => socket.write('HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'),
  ],
  ['nothing', (socket: net.Socket) => socket.end()],
  ['a reset', (socket: net.Socket) => socket.resetAndDestroy()],
  ['silence', () => undefined],
  [
    'an Error body without an end',
    (socket: net.Socket) => {
      socket.write('HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\n\r\n');
      const drip = () => void socket.write(`10000\r\n${'x'.repeat(0x10000)}\r\n`);
      for (let i = 0; i < 20; i++) drip();
    },
  ],
] as const)(
  '[R-862] a server that answers %s has neither accepted nor refused the event',
  async (_what, act) => {
    const url = await rawServer(act);
    const { log, troubles, quarantined } = hurriedClient({ url, concurrency: 4 }, { patienceMs: 100 });
    await captureSome(log, 5);
    await eventually(() => expect(troubles).toEqual(['the collector did not answer']));
    expect(log.state).toMatchObject({ waiting: 5, quarantined: 0 });
    expect(quarantined).toEqual([]);
    expect(await log.close({ timeoutMs: 0 })).toEqual({ waiting: 5 });
  },
);

test('[R-862] a 201 of another server is reported, and the event is sent again', async () => {
  let portal = true;
  const collector = await fakeCollector((_event, response) =>
    portal ? answer(response, 201, '<html>Please log in</html>') : false,
  );
  const { log, troubles } = hurriedClient({ url: collector.url, concurrency: 4 });
  const ids = await captureSome(log, 5);
  const told = ['the server at this address is not a collector (201); events are kept'];
  await eventually(() => expect(butSlowness(troubles)).toEqual(told));
  expect(log.state.waiting).toBe(5);
  portal = false;
  expect(await log.flush()).toEqual({ waiting: 0 });
  expect(idsOf(collector)).toEqual(ids);
});

test('[R-862] a refusal with deeply nested details counts, and does not delay other events', async () => {
  const deep = `{"code":"c","details":${'['.repeat(30_000)}${']'.repeat(30_000)}}`;
  const collector = await fakeCollector((_event, response, number) =>
    number === 1 ? answer(response, 400, deep, { 'X-Request-Id': 'r-1' }) : false,
  );
  const spool = temporaryDirectory();
  const { log, troubles, quarantined } = hurriedClient({ url: collector.url, spool });
  await captureSome(log, 5);
  expect(await log.flush()).toEqual({ waiting: 0 });
  expect(quarantined.map(({ refusal }) => refusal)).toEqual([
    { status: 400, code: 'c', request_id: 'r-1', at: expect.any(String) as string },
  ]);
  expect(collector.requests).toHaveLength(5);
  expect(butSlowness(troubles)).toEqual([]);
});

test('[R-862] as many requests as agreed run at once, and connections are used again', async () => {
  let [now, most] = [0, 0];
  const sockets = new Set<unknown>();
  const collector = await fakeCollector(async (_event, response) => {
    sockets.add(response.socket);
    most = Math.max(most, ++now);
    await new Promise((resolve) => setTimeout(resolve, 2));
    now--;
    return false;
  });
  const { log } = hurriedClient({ url: collector.url, concurrency: 5 });
  await captureSome(log, 200);
  await log.flush();
  expect(most).toBe(5);
  expect(sockets.size).toBe(5);
});

test('[R-862] an idle connection that the server has closed is no failure', async () => {
  const collector = await fakeCollector();
  const { log, troubles } = hurriedClient({ url: collector.url });
  for (let round = 0; round < 3; round++) {
    await captureSome(log, 5);
    await log.flush();
    collector.closeIdle();
  }
  expect(collector.accepted).toHaveLength(15);
  expect(butSlowness(troubles)).toEqual([]);
});

test('[R-862] many events that cannot be sent wait in the spool, and are sent later', async () => {
  const collector = await fakeCollector(({ path }, response) =>
    path.endsWith('human-output') ? answer(response, 403) : false,
  );
  const { log } = hurriedClient({ url: collector.url, spool: temporaryDirectory() });
  const batches = runs(500, 15);
  for (let batch = 0; batch < batches; batch++) await captureSome(log, 201);
  await log.flush(1000);
  expect(log.state.waiting).toBeGreaterThanOrEqual(batches * 200);
  collector.behave = () => false;
  expect(await log.flush()).toEqual({ waiting: 0 });
  expect(idsOf(collector).size).toBe(batches * 201);
});

test('[R-862] close gives the collector some time, and leaves the rest to the next client', async () => {
  const spool = temporaryDirectory();
  const collector = await fakeCollector((_event, response) => answer(response, 503));
  const first = hurriedClient({ url: collector.url, spool });
  const ids = await captureSome(first.log);
  // The collector accepts none meanwhile: close returns because its time is over.
  expect(await first.log.close({ timeoutMs: 200 })).toEqual({ waiting: 20 });
  collector.behave = () => false;
  const second = hurriedClient({ url: collector.url, spool });
  await second.log.flush();
  expect(idsOf(collector)).toEqual(ids);
});

test('[R-862] an event that cannot be put into quarantine is kept, and tried again', async () => {
  const collector = await fakeCollector((_event, response) => answer(response, 400));
  const spool = await openSpool({ directory: undefined, durability: 'memory' });
  const quarantine = spool.quarantine.bind(spool);
  let full = true;
  spool.quarantine = (event, refusal) =>
    full ? Promise.reject(new SpoolFull('there is no room on the disk')) : quarantine(event, refusal);
  const told: string[] = [];
  const sender = new Sender({
    ...{ spool, concurrency: 4, backoff: { firstMs: 5, longestMs: 50 } },
    endpoint: new Endpoint({ url: collector.url, apiKey: 'key' }),
    onQuarantine: () => told.push('quarantine'),
    onSetback: ({ what }) => told.push(what),
    onTrouble: (what) => told.push(what),
  });
  await spool.append('outcome', Buffer.from('{}'));
  await eventually(() => expect(collector.requests.length).toBeGreaterThan(1));
  expect(spool.state).toMatchObject({ waiting: 1, quarantined: 0 });
  full = false;
  await sender.idle(new AbortController().signal);
  expect(spool.state).toMatchObject({ waiting: 0, quarantined: 1 });
  expect(new Set(told)).toEqual(
    new Set(['a refused event could not be put into quarantine; it is sent again', 'quarantine']),
  );
  await sender.stop();
  await spool.close();
});
