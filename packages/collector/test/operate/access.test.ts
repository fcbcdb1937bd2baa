import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { freePort } from '../../../../test/free-port.js';
import { run, start, temporaryDirectory, type Running } from '../running/collector-process.js';
import { get, managementPort, type GetOptions } from './managed.js';

function scratch(): string {
  const directory = temporaryDirectory();
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  return directory;
}

async function running(...args: Parameters<typeof start>): Promise<Running> {
  const collector = await start(...args);
  onTestFinished(() => collector.kill());
  return collector;
}

function tokenFile(directory: string, content: string, mode = 0o600): string {
  const file = path.join(directory, 'token');
  fs.writeFileSync(file, content, { mode });
  fs.chmodSync(file, mode);
  return file;
}

const TOKEN = randomBytes(24).toString('base64url');
const GUARDED = ['/metrics', '/console/state.json', '/openapi.json', '/docs', '/docs/start.js', '/nothing'];
const basic = (user: string, password: string) =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

describe('[R-831] an operator token', () => {
  test('is required everywhere except at the health endpoints, from loopback too', async () => {
    const directory = scratch();
    const file = tokenFile(directory, `${TOKEN}\n`);
    const args = ['--management-host', '0.0.0.0', '--management-token-file', file];
    const collector = await running(path.join(directory, 'data'), args);
    const port = managementPort(collector);
    const statuses = async (authorization?: string) => {
      const options: GetOptions = authorization === undefined ? {} : { headers: { authorization } };
      return Promise.all(GUARDED.map(async (at) => (await get(port, at, options)).status));
    };
    const all = (status: number) => GUARDED.map(() => status);
    for (const at of ['/livez', '/readyz']) expect((await get(port, at)).status).toBe(200);
    const allowed = [200, 200, 200, 200, 200, 404];
    for (const right of [
      `Bearer ${TOKEN}`,
      `bearer ${TOKEN}`,
      basic('operator', TOKEN),
      basic('', TOKEN),
      basic('anybody at all', TOKEN),
    ])
      expect(await statuses(right), right).toEqual(allowed);
    expect(await statuses()).toEqual(all(401));
    const asked = await get(port, '/metrics');
    expect(JSON.parse(asked.body)).toMatchObject({ code: 'key_missing' });
    expect(asked.headers['www-authenticate']).toMatch(/Basic realm="collector".*Bearer/);
    const wrong = [
      `Bearer ${TOKEN}x`,
      `Bearer ${TOKEN.slice(0, -1)}`,
      'Bearer',
      `Basic ${TOKEN}`,
      basic(TOKEN, ''),
      `Digest ${TOKEN}`,
      TOKEN,
    ];
    for (const authorization of wrong) {
      expect((await get(port, '/metrics', { headers: { authorization } })).status, authorization).toBe(401);
    }
    // With a token the name does not matter: anyone who has it may come through a proxy.
    const named = { headers: { authorization: `Bearer ${TOKEN}`, host: 'collector.hospital.test' } };
    expect((await get(port, '/metrics', named)).status).toBe(200);
    // Guesses are slowed down, logged without their text, and do not lock out the right token.
    const guesses = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        get(port, '/metrics', { headers: { authorization: `Bearer guess-${i}` } }),
      ),
    );
    expect(guesses.filter(({ status }) => status === 429).length).toBeGreaterThan(5);
    expect(guesses.find(({ status }) => status === 429)?.headers['retry-after']).toBe('1');
    expect(await statuses(`Bearer ${TOKEN}`)).toEqual(allowed);
    const { stderr } = collector.output;
    expect(stderr).toContain('a wrong operator token was presented');
    expect(stderr.match(/wrong operator token/g)?.length).toBeLessThan(15);
    expect(stderr).not.toContain('guess-');
    expect(stderr).not.toContain(TOKEN);
  });

  test('is needed to listen beyond loopback: without one the start is refused', async () => {
    const dataDir = path.join(scratch(), 'data');
    for (const host of ['0.0.0.0', '::', '192.0.2.7', 'collector.test']) {
      const refused = await run(['serve', '--port', '0', '--data-dir', dataDir, '--management-host', host]);
      expect(refused.code, host).toBe(2);
      expect(refused.stderr).toContain('--management-host');
      expect(refused.stderr).toContain('--management-token-file');
    }
    expect(fs.existsSync(dataDir)).toBe(false);
  });

  test.each([
    ['is missing', undefined, 0o600, 'cannot be read (ENOENT)'],
    ['everyone can read', TOKEN, 0o644, 'chmod 600'],
    ['is too short', 'x'.repeat(31), 0o600, 'at least 32'],
    ['is empty', '', 0o600, 'at least 32'],
    ['has two lines', `${TOKEN}\n${TOKEN}\n`, 0o600, 'one line'],
    ['has a space', `${TOKEN} ${TOKEN}`, 0o600, 'visible ASCII'],
    ['is too long', 'x'.repeat(2000), 0o600, 'too long'],
  ])(
    'of a file that %s is refused, and its content is not repeated',
    async (_name, content, mode, reason) => {
      const directory = scratch();
      const file = path.join(directory, 'token');
      if (content !== undefined) tokenFile(directory, content, mode);
      const dataDir = path.join(directory, 'data');
      const args = ['serve', '--port', '0', '--data-dir', dataDir, '--management-token-file', file];
      const { code, stderr } = await run(args);
      expect(code).toBe(2);
      expect(stderr).toContain(`--management-token-file: ${file}`);
      expect(stderr).toContain(reason);
      expect(stderr).not.toContain(TOKEN);
      expect(fs.existsSync(dataDir)).toBe(false);
    },
  );
});

describe('[R-831] the management port', () => {
  test('that is in use is a clear error, and the ledger is not opened', async () => {
    const [one, other] = [scratch(), scratch()];
    const port = String(await freePort());
    await running(one, ['--management-port', port]);
    const refused = await run(['serve', '--port', '0', '--data-dir', other, '--management-port', port]);
    expect(refused.code).toBe(1);
    expect(refused.stdout).toBe('');
    expect(refused.stderr).toContain(`the management listener cannot listen on 127.0.0.1:${port}`);
    expect(refused.stderr).toContain('--management off');
    expect(fs.existsSync(path.join(other, 'ledger'))).toBe(false);
  });

  test('[R-725] and the port for events in use: the error names the option for another port', async () => {
    const dataDir = scratch();
    const port = String(await freePort());
    await running(scratch(), ['--management-port', port]);
    const args = ['serve', '--management', 'off', '--port', port, '--data-dir', dataDir];
    const { code, stderr } = await run(args);
    expect(code).toBe(1);
    expect(stderr).toMatch(/the collector cannot listen on 127\.0\.0\.1:\d+: .*EADDRINUSE/);
    expect(stderr).toContain('Choose another --port');
  });

  test('cannot be the port for events', async () => {
    const dataDir = scratch();
    const { code, stderr } = await run([
      ...['serve', '--port', '8085', '--management-port', '8085', '--data-dir', dataDir],
    ]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--management-port')]);
  });

  test('is not opened by --management off', async () => {
    const port = await freePort();
    const args = ['--management', 'off', '--management-port', String(port)];
    const collector = await running(scratch(), args);
    await expect(get(port, '/livez')).rejects.toThrow('ECONNREFUSED');
    expect(collector.output.stderr).not.toContain('management');
    expect(await collector.stop()).toBe(0);
  });
});
