import fs from 'node:fs';
import path from 'node:path';
import pino from 'pino';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createQueues, createSharedLimits } from '../../src/commands/serve/http-side.js';
import { loadConfig } from '../../src/config.js';
import { Authority, writePair } from '../running/certificates.js';
import { outcomeEvent, run, start, temporaryDirectory, type Running } from '../running/collector-process.js';
import { issueKey } from '../running/issued-keys.js';
import { expectAllStored, Load, post } from '../running/load.js';
import { RawConnection, requestBytes } from '../running/raw-http.js';
import { post as postOverTls, resume } from '../running/tls-client.js';

function scratch(): string {
  const directory = temporaryDirectory();
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Ends with the test, in order. */
async function collector(dataDir: string, threads: number, ...args: readonly string[]): Promise<Running> {
  const options = ['--http-threads', String(threads), '--segment-bytes', '4MiB', ...args];
  const running = await start(dataDir, options);
  onTestFinished(async () => expect(await running.stop()).toBe(0));
  return running;
}

/** The value of each thread in a family of metrics, once all of them have reported. */
async function byThread(running: Running, family: string): Promise<number[]> {
  const [, management = ''] =
    /"port":(\d+),[^\n]*"msg":"management listening"/.exec(running.output.stderr) ?? [];
  const text = await (await fetch(`http://127.0.0.1:${management}/metrics`)).text();
  return [...text.matchAll(new RegExp(`^${family}\\{thread="\\d+"\\} (\\S+)$`, 'gm'))].map(([, n]) =>
    Number(n),
  );
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, n) => total + n, 0);

describe.each([1, 2, 4])('with --http-threads %i', (threads) => {
  test('[R-1301] each takes connections, and every acknowledged event is stored once, in one proved order', async () => {
    const dataDir = scratch();
    const { text: key } = await issueKey(dataDir);
    const running = await collector(dataDir, threads);
    const load = new Load(key, { connections: 48, repeats: 0.1 });
    await load.run(running.port, () => load.acknowledged.size >= 1500);
    const accepted = async () => byThread(running, 'collector_http_thread_accepted_total');
    // Those beside the first say once a second what they have done; repeats are acknowledged too.
    await expect.poll(async () => sum(await accepted())).toBeGreaterThanOrEqual(load.acknowledged.size);
    const shares = await accepted();
    expect(shares.length).toBe(threads);
    for (const share of shares) expect(share).toBeGreaterThan(0);
    for (const busy of await byThread(running, 'collector_http_thread_busy_seconds_total'))
      expect(busy).toBeGreaterThan(0);
    expect(load.refusals.size).toBe(0);
    await expectAllStored(dataDir, load);
    expect((await run(['verify', '--data-dir', dataDir])).code).toBe(0);
  });
});

describe('[R-1302] with several HTTP threads', () => {
  test('a rate limit is one limit, however many connections its key has', async () => {
    const dataDir = scratch();
    const { text: key } = await issueKey(dataDir, { rateLimit: { perSecond: 0.001, burst: 40 } });
    const { port } = await collector(dataDir, 4);
    const send = () => post(port, key, JSON.stringify(outcomeEvent()));
    const answers = await Promise.all(Array.from({ length: 120 }, send));
    expect(answers.filter(({ status }) => status === 201).length).toBe(40);
    expect(answers.filter(({ status }) => status === 429).length).toBe(80);
  });

  test('connections are counted together', async () => {
    const dataDir = scratch();
    const { text: key } = await issueKey(dataDir);
    const running = await collector(dataDir, 4, '--max-connections', '20');
    const proven: RawConnection[] = [];
    onTestFinished(() => proven.forEach((connection) => connection.close()));
    const bytes = () => requestBytes({ key, body: JSON.stringify(outcomeEvent()) });
    let refused = 0;
    for (let i = 0; i < 40; i++) {
      const connection = await RawConnection.open(running.port);
      connection.write(bytes());
      const answer = await connection.answer();
      if (answer === undefined) refused++;
      else proven.push(connection);
    }
    expect([proven.length, refused]).toEqual([20, 20]);
    await expect.poll(async () => sum(await byThread(running, 'collector_http_thread_connections'))).toBe(20);
  });

  test('a key that is made or revoked is so for all of them', async () => {
    const dataDir = scratch();
    const { port } = await collector(dataDir, 3);
    const { text: key, keyId } = await issueKey(dataDir);
    const statuses = async () => {
      const answers = await Promise.all(
        Array.from({ length: 24 }, () => post(port, key, JSON.stringify(outcomeEvent()))),
      );
      return new Set(answers.map(({ status }) => status));
    };
    expect(await statuses()).toEqual(new Set([201]));
    expect((await run(['keys', 'revoke', keyId, '--data-dir', dataDir])).code).toBe(0);
    await expect.poll(statuses).toEqual(new Set([401]));
  });

  test('SIGHUP reaches all of them', async () => {
    const directory = scratch();
    const config = path.join(directory, 'collector.json');
    fs.writeFileSync(config, '{"profile":"minimum","http-threads":3}');
    const dataDir = path.join(directory, 'data');
    const { text: key } = await issueKey(dataDir);
    const running = await start(dataDir, ['--config', config]);
    onTestFinished(async () => expect(await running.stop()).toBe(0));
    const open = () => JSON.stringify({ ...outcomeEvent(), outcome: { said: 'fine' } });
    const statuses = async () => {
      const answers = await Promise.all(Array.from({ length: 24 }, () => post(running.port, key, open())));
      return new Set(answers.map(({ status }) => status));
    };
    expect(await statuses()).toEqual(new Set([201]));
    fs.writeFileSync(config, '{"profile":"full","http-threads":2}');
    running.process.kill('SIGHUP');
    await expect.poll(statuses).toEqual(new Set([400]));
    await expect.poll(() => running.output.stderr).toContain('"options":["http-threads"]');
  });

  test('a stop answers what each of them has begun', async () => {
    const dataDir = scratch();
    const { text: key } = await issueKey(dataDir);
    const running = await start(dataDir, ['--http-threads', '4']);
    const begun = await Promise.all(
      Array.from({ length: 32 }, async () => {
        const connection = await RawConnection.open(running.port);
        const body = JSON.stringify(outcomeEvent());
        const whole = Buffer.from(requestBytes({ key, body }));
        connection.write(whole.subarray(0, -5));
        return { connection, rest: whole.subarray(-5) };
      }),
    );
    await expect
      .poll(async () => sum(await byThread(running, 'collector_http_thread_queue_events')))
      .toBe(32);
    const stopped = running.stop();
    await expect.poll(() => running.output.stderr).toContain('"msg":"stopping"');
    const answers = begun.map(({ connection, rest }) => {
      connection.write(rest);
      return connection.answer();
    });
    for (const answer of await Promise.all(answers)) expect(answer?.status).toBe(201);
    expect(await stopped).toBe(0);
  });

  test('a TLS session that one began is resumed with any', async () => {
    const dataDir = scratch();
    const { text: key } = await issueKey(dataDir);
    const authority = new Authority();
    const pair = authority.issue({ commonName: 'collector', names: ['dns:collector.test'], days: 90 });
    const { port } = await collector(dataDir, 4, ...writePair(scratch(), pair));
    const sender = { ca: authority.certificate };
    const answers = await Promise.all(Array.from({ length: 16 }, () => postOverTls(port, key, sender)));
    for (const { status } of answers) expect(status).toBe(201);
    const { session } = await resume(port, sender);
    for (let i = 0; i < 16; i++) expect((await resume(port, sender, session)).resumed).toBe(true);
  });

  test('a port that another collector shares among its threads is taken', async () => {
    const [first, second] = [scratch(), scratch()];
    const running = await collector(first, 2);
    const { code, stderr } = await run([
      ...['serve', '--data-dir', second, '--port', String(running.port), '--http-threads', '2'],
    ]);
    expect(code).toBe(1);
    expect(stderr).toContain('EADDRINUSE');
    // Nor does one end that shares nothing.
    expect((await run(['serve', '--data-dir', second, '--port', String(running.port)])).code).toBe(1);
  });
});

test('[R-113] what the queues of all HTTP threads need is said before anything is started', async () => {
  const { code, stderr } = await run(['serve', '--data-dir', scratch(), '--http-threads', '32']);
  expect(code).toBe(2);
  expect(stderr).toContain(
    '--queue-bytes: must be at least 4 times --max-body-bytes for each of --http-threads, that is 128MiB',
  );
});

test('[R-1301] a thread that cannot begin keeps the collector from starting, and says why', async () => {
  const { HttpThreads } = (await import(
    new URL('../../dist/commands/serve/http-threads.js', import.meta.url).href
  )) as typeof import('../../src/commands/serve/http-threads.js');
  const dataDir = path.join(scratch(), 'file');
  fs.writeFileSync(dataDir, '');
  const config = { ...loadConfig({}, {}), dataDir, httpThreads: 2 };
  const [queue] = createQueues(config).http;
  const lines: unknown[] = [];
  const failed = Promise.withResolvers<undefined>();
  const threads = new HttpThreads({
    ...{ config, queues: [queue], limits: createSharedLimits(config), tls: undefined },
    log: pino({ base: null }, { write: (line) => lines.push(JSON.parse(line)) }),
    onFailure: () => failed.resolve(undefined),
  });
  await expect(threads.opened()).rejects.toThrow('ENOTDIR');
  await failed.promise;
  expect(lines).toMatchObject([{ level: 60, msg: 'an HTTP thread has failed' }]);
});
