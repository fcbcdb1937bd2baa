import fs from 'node:fs';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { RefusalLog, type Log } from '../../src/ingest/refusal-log.js';
import { Scrape, managementPort } from '../operate/managed.js';
import { limits, start, temporaryDirectory, UNHURRIED } from '../running/collector-process.js';
import { issueKey } from '../running/issued-keys.js';
import { RawConnection, requestBytes, send, sendBytes } from '../running/raw-http.js';
import { sampleEvent } from '../running/sample-events.js';

const ID = /^[0-9a-f]{20}$/;
type Line = Record<string, unknown>;

async function running(...args: string[]) {
  const dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
  const { text: key } = await issueKey(dataDir);
  const collector = await start(dataDir, args);
  onTestFinished(() => collector.kill());
  /** What it logged from its start to its end. */
  const stopped = async (): Promise<Line[]> => {
    await collector.stop();
    return collector.output.stderr
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Line);
  };
  return { ...collector, key, stopped };
}

describe('[R-316] the id of a request', () => {
  test('is in each answer, is unique, and is never that of the client', async () => {
    const { port, key } = await running();
    const body = JSON.stringify(sampleEvent());
    const sent = { 'X-Request-Id': '0123456789abcdef0123' };
    const answers = [
      await send(port, { key, body, headers: sent }),
      await send(port, { key, body }),
      await send(port, { key, body: '{}', headers: sent }),
      await send(port, { body }),
      await send(port, { key, target: '/' }),
      await send(port, { key, headers: { 'Content-Length': '9000000' } }),
      await sendBytes(port, 'hello\r\n\r\n'),
      await sendBytes(port, 'CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n'),
    ];
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 400, 401, 404, 413, 400, 405]);
    const ids = answers.map((answer) => answer.header('X-Request-Id'));
    for (const id of ids) expect(id).toMatch(ID);
    expect(new Set([...ids, sent['X-Request-Id']]).size).toBe(ids.length + 1);
  });

  test('is in the log line of a refusal, so that a single 400 can be found', async () => {
    const { port, key, stopped } = await running();
    const ids: unknown[] = [];
    for (let i = 0; i < 3; i++) ids.push((await send(port, { key, body: '{}' })).header('X-Request-Id'));
    const broken = await sendBytes(port, 'hello\r\n\r\n');
    const lines = (await stopped()).filter(({ msg }) => msg === 'refused');
    expect(lines.map(({ code, requestId }) => [code, requestId])).toEqual([
      ...ids.map((id) => ['validation_failed', id]),
      ['malformed_request', broken.header('X-Request-Id')],
    ]);
  });
});

test('[R-316] refusals without a valid key are summed up by code, with one example', async () => {
  const { port, key, stopped } = await running();
  const bad = { missing: requestBytes({}), wrong: requestBytes({ key: 'nonsense' }) };
  const examples: unknown[] = [];
  for (const bytes of Object.values(bad)) {
    const answers = [];
    for (let i = 0; i < 30; i++) answers.push(await sendBytes(port, bytes));
    examples.push(...answers.map((answer) => answer.header('X-Request-Id')));
  }
  for (let i = 0; i < 3; i++) await send(port, { key, body: '{}' });
  const lines = await stopped();
  const count = (code: string, msg: string) =>
    lines.filter((line) => line['code'] === code && line['msg'] === msg);
  for (const code of ['key_missing', 'key_invalid']) {
    const listed = count(code, 'refused');
    // Two where the requests fell into two periods; into more than a few only on a machine that hardly runs.
    expect(listed.length).toBeLessThan(6);
    for (const line of listed) expect(line).toMatchObject({ remote: '127.0.0.1', status: 401 });
    for (const { requestId } of listed) expect(examples).toContain(requestId);
    const others = count(code, 'more refused, not listed').map(({ refusals }) => Number(refusals));
    expect(others.reduce((sum, n) => sum + n, listed.length)).toBe(30);
  }
  expect(count('validation_failed', 'refused')).toHaveLength(3);
});

describe('[R-316] the number of refusals that are not listed', () => {
  afterEach(() => vi.useRealTimers());

  test('is reported at the end of a period without further refusals', () => {
    vi.useFakeTimers();
    const lines: Line[] = [];
    const note = (fields: object): void => void lines.push(fields as Line);
    const log = new RefusalLog({ debug: note, info: note, warn: note, error: note } satisfies Log);
    for (let i = 0; i < 5; i++) log.note({ code: 'key_missing', requestId: `${i}` }, () => '192.0.2.1');
    expect(lines).toHaveLength(1);
    vi.advanceTimersByTime(10_000);
    expect(lines.slice(1)).toEqual([{ code: 'key_missing', refusals: 4 }]);
    vi.advanceTimersByTime(60_000);
    expect(lines).toHaveLength(2);
  });
});

test('[R-803] connections that are closed because all places are taken are counted, and summed up in the log', async () => {
  const collector = await running(...limits({ ...UNHURRIED, 'max-connections': 4 }));
  const { port, key, stopped } = collector;
  const open = async (bytes: string | Uint8Array = ''): Promise<RawConnection> => {
    const connection = await RawConnection.open(port);
    onTestFinished(() => connection.close());
    connection.write(bytes);
    return connection;
  };
  const idle: RawConnection[] = [];
  for (let i = 0; i < 10; i++) idle.push(await open());
  for (const connection of idle.slice(0, 6)) expect(await connection.ending()).not.toBe('open');
  for (let i = 0; i < 4; i++) {
    const proven = await open(requestBytes({ key, body: JSON.stringify(sampleEvent()) }));
    expect((await proven.answer())?.status).toBe(201);
  }
  expect(await (await open()).ending()).not.toBe('open');
  const scrape = await Scrape.of(managementPort(collector));
  const closed = (reason: string) => scrape.value('collector_connections_closed_total', { reason });
  expect([closed('displaced'), closed('no_place')]).toEqual([10, 1]);
  const lines = (await stopped()).filter(({ msg }) => /^(more )?connections? closed/.test(String(msg)));
  const sum = (reason: string) =>
    lines
      .filter((line) => line['reason'] === reason)
      .reduce((total, { connections }) => total + Number(connections ?? 1), 0);
  expect([sum('displaced'), sum('no_place')]).toEqual([10, 1]);
  expect(lines.length).toBeLessThan(8);
});
