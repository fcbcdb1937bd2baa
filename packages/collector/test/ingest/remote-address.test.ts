import fs from 'node:fs';
import { describe, expect, test } from 'vitest';
import { run, temporaryDirectory } from '../running/collector-process.js';
import { oneCollector, type OneCollector } from '../running/one-collector.js';
import { send } from '../running/raw-http.js';

const behindProxy = oneCollector(['--trusted-proxies', '127.0.0.0/8, ::1', '--host', '::']);
const byItself = oneCollector();

/** The address with which a refusal of such a request is logged. */
async function remoteOf(collector: OneCollector, headers: Record<string, string>): Promise<unknown> {
  const before = collector.running.output.stderr.length;
  await send(collector.port, { key: collector.key, body: '{}', headers });
  let line: string | undefined;
  await expect
    .poll(
      () =>
        (line = collector.running.output.stderr
          .slice(before)
          .split('\n')
          .find((one) => one.includes('validation_failed'))),
    )
    .toBeDefined();
  return (JSON.parse(line ?? '') as { remote?: unknown }).remote;
}

describe('the log names [R-823]', () => {
  test('the client that a trusted proxy names, also over IPv4-mapped IPv6', async () => {
    expect(await remoteOf(behindProxy, { 'X-Forwarded-For': '1.1.1.1, 203.0.113.9' })).toBe('203.0.113.9');
    expect(await remoteOf(behindProxy, { Forwarded: 'for="[2001:db8::1]:99"' })).toBe('2001:db8::1');
  });

  test('the proxy when its value is no address', async () => {
    expect(await remoteOf(behindProxy, { 'X-Forwarded-For': '203.0.113.9, "msg":"forged"' })).toBe(
      '::ffff:127.0.0.1',
    );
  });

  test('the connection when no proxy is trusted', async () => {
    expect(await remoteOf(byItself, { 'X-Forwarded-For': '203.0.113.9' })).toBe('127.0.0.1');
  });
});

test.each([['--trusted-proxies', 'proxy.example', '"proxy.example" is neither an address nor a network']])(
  'a start with %s %s is refused [R-823]',
  async (option, value, why) => {
    const dataDir = temporaryDirectory();
    const { code, stderr } = await run(['serve', '--port', '0', '--data-dir', dataDir, option, value]);
    expect([code, stderr]).toEqual([2, expect.stringContaining(`${option}: ${why}`)]);
    expect(fs.readdirSync(dataDir)).toEqual([]);
    fs.rmSync(dataDir, { recursive: true });
  },
);
