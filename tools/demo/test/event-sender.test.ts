import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { DemoScript } from '../src/demo-script.js';
import { EventSender, type DemoSendOptions } from '../src/event-sender.js';
import type { SentEvent } from '../src/anomalies.js';
import { EventEndpoint } from '@clinical-events/collector/sending/event-endpoint';
import { SendingFailed } from '@clinical-events/collector/sending/sender';

const UNTIL = Date.parse('2026-11-20T16:00:00Z');

function events(runs = 20): SentEvent[] {
  const plan = { seed: 'send', runs, period: { since: UNTIL - 30 * 86_400_000, until: UNTIL } };
  return [...new DemoScript(plan).events()];
}

interface Asked {
  readonly url: string;
  readonly key: string | undefined;
  readonly id: string;
  readonly at: number;
}
type Reply = { status: number; code?: string; retryAfter?: number } | 'hang up';

/** A server with given answers, which records the requests. */
async function server(reply: (asked: Asked, times: number) => Reply | Promise<Reply>) {
  const asked: Asked[] = [];
  const listening = http.createServer((request, response) => {
    let text = '';
    request.on('data', (piece: Buffer) => (text += piece.toString()));
    request.on('end', () => {
      const id = text === '' ? '' : (JSON.parse(text) as { event_id: string }).event_id;
      const { url = '', headers } = request;
      const one = { url, key: headers['x-api-key'] as string | undefined, id, at: performance.now() };
      asked.push(one);
      const times = asked.filter((each) => each.id === id).length;
      Promise.resolve(reply(one, times)).then(
        (answer) => {
          if (answer === 'hang up') {
            request.socket.destroy();
            return;
          }
          const { status, code, retryAfter } = answer;
          response.writeHead(status, retryAfter === undefined ? {} : { 'Retry-After': String(retryAfter) });
          response.end(status === 201 ? '{"status":"accepted"}' : JSON.stringify({ message: 'no', code }));
        },
        () => response.destroy(),
      );
    });
  });
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    listening.closeAllConnections();
    listening.close();
  });
  const { port } = listening.address() as AddressInfo;
  return { asked, url: new URL(`http://127.0.0.1:${port}/log/`) };
}

function senderTo(url: URL, options: Partial<DemoSendOptions> = {}): EventSender {
  const endpoint = new EventEndpoint(url, 'cek_key');
  onTestFinished(() => endpoint.close());
  return new EventSender(endpoint, { connections: 4, stop: new AbortController().signal, ...options });
}

test('events go to the endpoint of their kind below the address, with the key', async () => {
  const { asked, url } = await server(() => ({ status: 201 }));
  const sender = senderTo(url);
  const all = events();
  await sender.send(all.values());
  expect(asked.map((one) => one.url).sort()).toEqual(
    all.map(({ planned }) => `/log/event/${planned.kind}`).sort(),
  );
  expect(new Set(asked.map((one) => one.key))).toEqual(new Set(['cek_key']));
  const count = (...sendings: string[]) => all.filter(({ sending }) => sendings.includes(sending)).length;
  expect(sender.answers).toMatchObject({
    ...{ accepted: count('first'), repeats: count('repeat', 'respelt'), missedConflicts: count('conflict') },
    ...{ conflicts: 0, retries: 0 },
  });
});

test('after a temporary failure an event is sent again, until it is accepted', async () => {
  const failures: Reply[] = [
    { status: 503, code: 'overloaded', retryAfter: 1 },
    'hang up',
    { status: 429, code: 'rate_limited', retryAfter: 1 },
    { status: 500, code: 'internal' },
    { status: 502 },
  ];
  const { asked, url } = await server((_, times) =>
    times > 1 ? { status: 201 } : (failures.pop() ?? { status: 201 }),
  );
  const sender = senderTo(url);
  const all = events(8).filter(({ sending }) => sending === 'first');
  await sender.send(all.values());
  expect(sender.answers).toMatchObject({ accepted: all.length, repeats: 0 });
  expect(sender.answers.refused.size).toBe(0);
  expect(sender.answers.retries).toBe(5);
  expect(asked.length).toBe(all.length + sender.answers.retries);
});

test('Retry-After holds up all events', async () => {
  let waiting = 0;
  const { asked, url } = await server(() =>
    waiting++ === 0 ? { status: 503, code: 'overloaded', retryAfter: 1 } : { status: 201 },
  );
  await senderTo(url, { connections: 1 }).send(events(3).values());
  const [first, second] = asked.map(({ at }) => at);
  expect((second ?? 0) - (first ?? 0)).toBeGreaterThan(950);
});

test('a conflict waits for the answer to the event before it', async () => {
  const all = events(400);
  const conflict = all.find(({ sending }) => sending === 'conflict');
  const pair = all.filter(({ planned }) => planned.eventId === conflict?.planned.eventId);
  let answered = 0;
  const { asked, url } = await server(async (_, times) => {
    if (times > 1) return { status: answered === 1 ? 409 : 500, code: 'event_id_conflict' };
    await new Promise((resolve) => setTimeout(resolve, 100));
    answered = 1;
    return { status: 201 };
  });
  const sender = senderTo(url);
  await sender.send(pair.values());
  expect(asked).toHaveLength(2);
  expect(sender.answers).toMatchObject({ accepted: 1, conflicts: 1, retries: 0 });
});

test('a refused event is counted by its code, and the rest is sent', async () => {
  const all = events().filter(({ sending, inOwnWords }) => sending === 'first' && !inOwnWords);
  const { url } = await server((one) =>
    one.id === all[3]?.planned.eventId ? { status: 400, code: 'validation_failed' } : { status: 201 },
  );
  const sender = senderTo(url);
  await sender.send(all.values());
  expect(sender.answers.accepted).toBe(all.length - 1);
  expect([...sender.answers.refused]).toEqual([['validation_failed', 1]]);
});

test.each([
  [{ status: 401, code: 'key_revoked' }, 'key_revoked'],
  [{ status: 302 }, 'status 302'],
] as const)('%j ends it', async (reply, reason) => {
  const { asked, url } = await server((_, times) =>
    times > 0 && asked.length > 10 ? reply : { status: 201 },
  );
  const sender = senderTo(url);
  const failure = await sender.send(events(100).values()).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(SendingFailed);
  expect((failure as SendingFailed).message).toContain(reason);
  expect(sender.answers.accepted).toBe(10);
  expect(asked.length).toBeLessThan(20);
});

test('it keeps to the rate, and stops when asked to', async () => {
  const { asked, url } = await server(() => ({ status: 201 }));
  const stop = new AbortController();
  const stopping = expect
    .poll(() => asked.length)
    .toBeGreaterThan(20)
    .then(() => stop.abort());
  const since = performance.now();
  const sender = senderTo(url, { perSecond: 100, stop: stop.signal });
  await sender.send(events(2000).values());
  await stopping;
  // A busy machine may be slower.
  const most = (performance.now() - since) / 10 + 5;
  expect(asked.length).toBeLessThanOrEqual(most);
  expect(asked.length).toBeLessThan(2000);
  const { accepted, repeats, missedConflicts } = sender.answers;
  expect(accepted + repeats + missedConflicts).toBe(asked.length);
});
