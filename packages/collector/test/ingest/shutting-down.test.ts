import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  limits,
  start,
  storedEvents,
  temporaryDirectory,
  type Running,
  UNHURRIED,
} from '../running/collector-process.js';
import { issueKey } from '../running/issued-keys.js';
import { RawConnection, requestBytes, type RawAnswer } from '../running/raw-http.js';
import { sampleEvent } from '../running/sample-events.js';

const SHUTDOWN_MS = 3000;
let dataDir: string;
let key: string;
let running: Running;
const opened: RawConnection[] = [];

beforeEach(async () => {
  dataDir = temporaryDirectory();
  key = (await issueKey(dataDir)).text;
  // These are longer than a test may take.
  running = await start(dataDir, limits({ ...UNHURRIED, 'shutdown-timeout-ms': '10m' }));
});

afterEach(async () => {
  for (const connection of opened.splice(0)) connection.close();
  await running.kill();
  fs.rmSync(dataDir, { recursive: true, force: true });
});

async function open(): Promise<RawConnection> {
  const connection = await RawConnection.open(running.port);
  opened.push(connection);
  return connection;
}

/** On return the collector has read all that was written before: whatever is answered came after it. */
async function allIsRead(): Promise<void> {
  for (let i = 0; i < 2; i++) {
    const behind = await open();
    behind.write(requestBytes({ key, body: '{}' }));
    expect((await behind.answer())?.status).toBe(400);
  }
}

const bytesOf = (event: object) => requestBytes({ key, body: JSON.stringify(event) });

describe('a collector that is stopping [R-609]', () => {
  test('answers every request that had begun: 201 and stored, or 503, or not at all', async () => {
    const sending = await Promise.all(
      Array.from({ length: 60 }, async (_, i) => {
        const event = sampleEvent('outcome', { text: 'x'.repeat(i * 500) });
        const bytes = bytesOf(event);
        const connection = await open();
        // Anything between a few bytes of the headers and all but the last byte of the body.
        const cut = 20 + Math.floor(((bytes.length - 21) * i) / 59);
        connection.write(bytes.subarray(0, cut));
        return { event, connection, rest: bytes.subarray(cut), begun: cut > bytes.indexOf('\r\n\r\n') };
      }),
    );
    // Whatever is answered came after them: all that was begun has been read.
    for (let i = 0; i < 2; i++) {
      const whole = await open();
      whole.write(bytesOf(sampleEvent('outcome')));
      expect((await whole.answer())?.status).toBe(201);
    }
    running.process.kill('SIGTERM');
    await sleep(50);
    const answers = await Promise.all(
      sending.map(async ({ connection, rest }) => {
        connection.write(rest);
        return connection.answer();
      }),
    );
    expect(await running.exited).toBe(0);
    const stored = new Set((await storedEvents(dataDir)).map(({ event_id }) => event_id));
    sending.forEach(({ event, begun }, i) => {
      const answer = answers[i];
      if (begun) expect(answer?.status).toBe(201);
      if (answer?.status === 201) expect(stored).toContain(event.event_id);
      else if (answer !== undefined) expectShuttingDown(answer);
    });
    expect(answers.filter((answer) => answer?.status === 201).length).toBeGreaterThan(40);
  });

  test('under load, gives 201 for stored events or 503, and then ends each connection', async () => {
    const accepted: string[] = [];
    const others: RawAnswer[] = [];
    const senders = Array.from({ length: 16 }, async () => {
      const connection = await open();
      for (;;) {
        const event = sampleEvent();
        connection.write(bytesOf(event));
        const answer = await connection.answer();
        if (answer === undefined) return;
        if (answer.status === 201) accepted.push(event.event_id);
        else others.push(answer);
      }
    });
    await expect.poll(() => accepted.length).toBeGreaterThan(50);
    expect(await running.stop()).toBe(0);
    await Promise.all(senders);
    const stored = (await storedEvents(dataDir)).map(({ event_id }) => event_id);
    expect(stored).toEqual(expect.arrayContaining(accepted));
    expect(new Set(stored).size).toBe(stored.length);
    for (const answer of others) expectShuttingDown(answer);
  });

  test('refuses a later request with 503, after an earlier one that is accepted', async () => {
    const [begun, late] = [sampleEvent(), sampleEvent()];
    const connection = await open();
    connection.write(bytesOf(begun).subarray(0, -1));
    await allIsRead();
    running.process.kill('SIGTERM');
    await expect.poll(() => running.output.stderr).toContain('"msg":"stopping"');
    connection.write(Buffer.concat([bytesOf(begun).subarray(-1), bytesOf(late)]));
    const [first, second, ...others] = await connection.answers();
    expect(first?.status).toBe(201);
    if (second === undefined) throw new Error('no answer to the late request');
    expectShuttingDown(second);
    expect(others).toEqual([]);
    expect(await running.exited).toBe(0);
    expect((await storedEvents(dataDir)).map(({ event_id }) => event_id)).toEqual([begun.event_id]);
  });

  test('does not wait for connections that are idle, used or never used', async () => {
    for (let i = 0; i < 10; i++) {
      const connection = await open();
      if (i % 2 === 0) continue;
      connection.write(bytesOf(sampleEvent()));
      expect((await connection.answer())?.status).toBe(201);
    }
    expect(await running.stop()).toBe(0);
  });

  test('does not wait forever for a body that does not come', async () => {
    expect(await running.stop()).toBe(0);
    running = await start(dataDir, limits({ ...UNHURRIED, 'shutdown-timeout-ms': SHUTDOWN_MS }));
    const connection = await open();
    connection.write(bytesOf(sampleEvent()).subarray(0, -1));
    await allIsRead();
    const begun = performance.now();
    expect(await running.stop()).toBe(0);
    expect(performance.now() - begun).toBeGreaterThan(SHUTDOWN_MS - 500);
    expect(await connection.answer()).toBeUndefined();
    expect(await storedEvents(dataDir)).toEqual([]);
  });

  test('takes no new connection', async () => {
    const late = await open();
    late.write(bytesOf(sampleEvent()).subarray(0, -1));
    await allIsRead();
    running.process.kill('SIGTERM');
    await expect
      .poll(() =>
        RawConnection.open(running.port).then(
          () => 'taken',
          () => 'refused',
        ),
      )
      .toBe('refused');
    expect(running.process.exitCode).toBeNull();
  });

  test('by SIGINT ends as by SIGTERM', async () => {
    running.process.kill('SIGINT');
    expect(await running.exited).toBe(0);
    expect(running.output.stderr).toContain('"exitCode":0');
  });
});

function expectShuttingDown(answer: RawAnswer): void {
  expect([answer.status, answer.error().code]).toEqual([503, 'shutting_down']);
  expect([answer.header('Retry-After'), answer.header('Connection')]).toEqual(['1', 'close']);
}
