import fs from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SecureVersion, TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { Authority, writePair } from '../running/certificates.js';
import {
  limits,
  outcomeEvent,
  run,
  start,
  storedEvents,
  temporaryDirectory,
  type Running,
  UNHURRIED,
} from '../running/collector-process.js';
import { issueKey } from '../running/issued-keys.js';
import { RawConnection, requestBytes } from '../running/raw-http.js';
import { handshake, post, resume, shownName, type Sender } from '../running/tls-client.js';

const HEADERS_MS = 1000;
const MAX_CONNECTIONS = 40;
const NAMES = ['dns:collector.test', 'ip:127.0.0.1'];

const authority = new Authority();
const sender: Sender = { ca: authority.certificate };
const certificates = temporaryDirectory();
const dataDir = temporaryDirectory();
let key: string;
let running: Running;

function renew(commonName: string, days = 90): string[] {
  return writePair(certificates, authority.issue({ commonName, names: NAMES, days }));
}

/** What it logged under this message. */
function logged(message: string, of = running): Record<string, unknown>[] {
  return of.output.stderr
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter(({ msg }) => msg === message);
}

beforeAll(async () => {
  key = (await issueKey(dataDir)).text;
  running = await start(dataDir, [
    ...renew('first'),
    ...limits({ ...UNHURRIED, 'max-connections': MAX_CONNECTIONS }),
  ]);
});
afterAll(async () => {
  await running.stop();
  for (const directory of [dataDir, certificates]) fs.rmSync(directory, { recursive: true, force: true });
});

/** All that is returned for these bytes, after which the client ends its side of the connection. */
async function answersTo(bytes: Uint8Array): Promise<string> {
  const socket = await handshake(running.port, { ...sender, options: { allowHalfOpen: true } as object });
  let text = '';
  socket.setEncoding('latin1').on('data', (piece: string) => (text += piece));
  const ended = new Promise((resolve, reject) => socket.once('end', resolve).once('error', reject));
  socket.end(bytes);
  await ended;
  socket.destroy();
  return text;
}

test('a client that has ended its side of TLS is answered [R-316]', async () => {
  const bytes = requestBytes({ key, body: JSON.stringify(outcomeEvent()) });
  expect(await answersTo(bytes)).toMatch(/^HTTP\/1\.1 201 /);
});

test('over TLS, too, a hundred requests at once without a key get one answer [R-316]', async () => {
  const bytes = Array<Buffer>(100).fill(requestBytes({ target: '/event/none' }));
  expect((await answersTo(Buffer.concat(bytes))).split('HTTP/1.1 404')).toHaveLength(2);
});

describe('a handshake [R-821]', () => {
  const only = (version: SecureVersion, more = {}): Sender => ({
    ...sender,
    options: { minVersion: version, maxVersion: version, ...more },
  });

  test.each(['TLSv1.2', 'TLSv1.3'] as const)('in %s leads to an event that is stored', async (version) => {
    expect(await post(running.port, key, only(version))).toEqual({ status: 201, code: undefined });
  });

  test.each(['TLSv1', 'TLSv1.1'] as const)('in %s is refused', async (version) => {
    // The client's own OpenSSL would not offer it otherwise.
    const old = only(version, { ciphers: 'DEFAULT@SECLEVEL=0' });
    await expect(handshake(running.port, old)).rejects.toThrow(/protocol version/);
  });

  test.each([
    ['AES in CBC', 'ECDHE-ECDSA-AES128-SHA256:ECDHE-ECDSA-AES256-SHA384:ECDHE-ECDSA-AES128-SHA'],
    ['CCM with a short tag', 'ECDHE-ECDSA-AES128-CCM8:@SECLEVEL=0'],
    ['a key that is sent instead of agreed', 'AES128-GCM-SHA256:AES256-GCM-SHA384'],
  ])('with %s is refused', async (_what, ciphers) => {
    await expect(handshake(running.port, only('TLSv1.2', { ciphers }))).rejects.toThrow(/handshake failure/);
  });

  test('agrees on HTTP/1.1, and not on an unsupported protocol', async () => {
    const both = await handshake(running.port, { ...sender, options: { ALPNProtocols: ['h2', 'http/1.1'] } });
    expect(both.alpnProtocol).toBe('http/1.1');
    both.destroy();
    const h2 = handshake(running.port, { ...sender, options: { ALPNProtocols: ['h2'] } });
    await expect(h2).rejects.toThrow(/no application protocol/);
  });

  test('is not renegotiated, which would cost the collector more than the client', async () => {
    const socket = await handshake(running.port, only('TLSv1.2'));
    const refused = new Promise((resolve) => socket.once('error', resolve));
    socket.renegotiate({}, () => undefined);
    expect(String(await refused)).toMatch(/no renegotiation/);
  });
});

describe('a faulty client [R-821]', () => {
  test('that speaks plain HTTP is closed without a byte, and logged', async () => {
    const refusals = logged('refused').length;
    const connection = await RawConnection.open(running.port);
    connection.write(requestBytes({ key, body: '{}' }));
    expect(await connection.ending()).not.toBe('open');
    expect(connection.rest).toBe('');
    await expect
      .poll(() => logged('TLS connection failed').map(({ reason }) => reason))
      .toContain('plain_http');
    expect(running.output.stderr).not.toContain(key.slice(17));
    expect(logged('refused')).toHaveLength(refusals);
  });

  /** Of no other test: a busy machine takes longer than that for a handshake. */
  async function hurried(): Promise<Running> {
    const own = temporaryDirectory();
    onTestFinished(() => fs.rmSync(own, { recursive: true, force: true }));
    const pair = writePair(own, authority.issue({ names: NAMES }));
    const args = [...pair, ...limits({ ...UNHURRIED, 'headers-timeout-ms': `${HEADERS_MS}ms` })];
    const collector = await start(path.join(own, 'data'), args);
    onTestFinished(() => collector.kill());
    return collector;
  }

  test.each([
    ['sends nothing', []],
    ['stops in its first message', [0x16, 0x03, 0x01, 0x02, 0x00, 0x01]],
  ])('that %s is cut off in time', async (_what, bytes) => {
    const { port } = await hurried();
    const begun = performance.now();
    const connection = await RawConnection.open(port);
    connection.write(Uint8Array.from(bytes));
    expect(await connection.ending()).not.toBe('open');
    expect(performance.now() - begun).toBeGreaterThan(HEADERS_MS - 100);
  });

  test('that has finished the handshake must send its request in time as well', async () => {
    const collector = await hurried();
    let text = '';
    // Again where the handshake itself took longer.
    while (text === '') {
      const socket = await handshake(collector.port, sender).catch(() => undefined);
      socket?.setEncoding('utf8').on('data', (piece: string) => (text += piece));
      socket?.on('error', () => undefined);
      await new Promise((resolve) => (socket ? socket.once('close', resolve) : resolve(undefined)));
    }
    expect(text).toMatch(/^HTTP\/1\.1 408 /);
    // No one has asked for anything: browsers open spare connections.
    expect(logged('refused', collector).filter(({ code }) => code === 'request_timeout')).toEqual([]);
  });

  test('that sends bytes of its own below the encryption affects no other', async () => {
    const socket = net.connect(running.port, '127.0.0.1');
    socket.on('error', () => undefined);
    const secure = await new Promise<TLSSocket>((resolve, reject) => {
      handshake(running.port, { ...sender, options: { socket } }).then(resolve, reject);
    });
    secure.on('error', () => undefined);
    socket.write(Buffer.alloc(100, 0x17));
    await new Promise((resolve) => socket.once('close', resolve));
    expect((await post(running.port, key, sender)).status).toBe(201);
  });

  test('counts as a connection before its handshake, and is the first to be closed when all are taken', async () => {
    const silent: RawConnection[] = [];
    while (silent.length < MAX_CONNECTIONS) silent.push(await RawConnection.open(running.port));
    expect(silent.filter(({ socket }) => socket.closed)).toEqual([]);
    expect((await post(running.port, key, sender)).status).toBe(201);
    expect(await silent[0]?.ending()).not.toBe('open');
    for (const connection of silent) connection.close();
  });
});

describe('the certificate [R-821]', () => {
  test('is logged at the start, without its key', () => {
    expect(logged('TLS certificate in use')[0]).toMatchObject({
      subject: 'CN=first',
      issuer: 'CN=Test CA',
      names: 'DNS:collector.test, IP Address:127.0.0.1',
      expiresAt: expect.stringMatching(/^\d{4}-.*Z$/) as string,
    });
    expect(running.output.stderr).not.toContain('PRIVATE');
  });

  test('is renewed under load without a failed request, and connections continue', async () => {
    const agent = new https.Agent({ keepAlive: true, maxSockets: 4 });
    const failed: unknown[] = [];
    let sent = 0;
    let stopped = false;
    const senders = Array.from({ length: 12 }, async (_, i) => {
      // Four continue with the connections that they have; the others open one for each event.
      const own = i < 4 ? { ...sender, agent } : sender;
      while (!stopped) {
        const status = await post(running.port, key, own).then(({ status }) => status, String);
        if (status === 201) sent++;
        else failed.push(status);
      }
    });
    const kept = await handshake(running.port, sender);
    kept.on('error', () => undefined);
    renew('second');
    await expect.poll(() => shownName(running.port, sender)).toBe('second');
    await sleep(200);
    stopped = true;
    await Promise.all(senders);
    agent.destroy();
    kept.destroy();
    expect(failed).toEqual([]);
    expect((await storedEvents(dataDir)).length).toBeGreaterThanOrEqual(sent);
  });

  test('whose key does not fit is refused and reported once; the next valid one is used', async () => {
    const before = await shownName(running.port, sender);
    const troubles = () =>
      logged('the TLS certificate has changed and cannot be used; the old one stays in use');
    const { length } = troubles();
    fs.writeFileSync(path.join(certificates, 'tls.key'), authority.issue().key);
    await expect.poll(() => troubles().length).toBe(length + 1);
    expect(await shownName(running.port, sender)).toBe(before);
    expect((await post(running.port, key, sender)).status).toBe(201);
    renew('third');
    await expect.poll(() => shownName(running.port, sender)).toBe('third');
    expect(troubles()).toHaveLength(length + 1);
  });

  test('is read at once on SIGHUP', async () => {
    const reloads = logged('configuration reloaded').length;
    renew('fourth');
    running.process.kill('SIGHUP');
    await expect.poll(() => logged('configuration reloaded').length, { interval: 20 }).toBe(reloads + 1);
    // Without the signal it would have read the files twice more first, two seconds apart.
    expect(await shownName(running.port, sender)).toBe('fourth');
  });
});

test('the first start prints a curl line with the authority to trust [R-505]', async () => {
  const directory = temporaryDirectory();
  // Of its own: the running one would load a pair in `certificates` at some time.
  const pair = temporaryDirectory();
  const issued = authority.issue({ commonName: 'first start', names: NAMES, days: 90 });
  const collector = await start(directory, writePair(pair, issued));
  await collector.stop();
  for (const each of [directory, pair]) fs.rmSync(each, { recursive: true, force: true });
  expect(collector.output.stdout).toContain(` https://127.0.0.1:${collector.port}/event/inference-start`);
  expect(collector.output.stdout).toContain(`--cacert ${path.join(pair, 'tls.crt')} `);
});

test('a session is resumed, but not after the certificate was renewed [R-821]', async () => {
  const first = await resume(running.port, sender);
  expect((await resume(running.port, sender, first.session)).resumed).toBe(true);
  renew('fifth');
  running.process.kill('SIGHUP');
  await expect.poll(() => shownName(running.port, sender)).toBe('fifth');
  expect((await resume(running.port, sender, first.session)).resumed).toBe(false);
});

test('a certificate that a reload did not change is not reported again, and the last line has the result [R-842]', async () => {
  const told = () =>
    logged('TLS certificate in use').length + logged('the TLS certificate expires soon').length;
  const reloads = () => logged('configuration reloaded').length;
  const begun = reloads();
  renew('soon', 10);
  running.process.kill('SIGHUP');
  await expect.poll(reloads).toBe(begun + 1);
  expect(logged('the TLS certificate expires soon')).toHaveLength(1);
  const placeOf = (message: string) => running.output.stderr.lastIndexOf(`"${message}"`);
  expect(placeOf('the TLS certificate expires soon')).toBeLessThan(placeOf('configuration reloaded'));
  const [before, done] = [told(), reloads()];
  running.process.kill('SIGHUP');
  await expect.poll(reloads).toBe(done + 1);
  expect(told()).toBe(before);
  fs.writeFileSync(path.join(certificates, 'tls.key'), authority.issue().key);
  running.process.kill('SIGHUP');
  const failed = 'configuration reloaded, except the sources listed in kept';
  await expect.poll(() => logged(failed)).toMatchObject([{ level: 'error', kept: ['TLS certificate'] }]);
  renew('good');
  running.process.kill('SIGHUP');
  await expect.poll(reloads).toBe(done + 2);
});

describe('a start [R-821]', () => {
  async function startWith(
    args: readonly string[],
    work: (collector: Running) => Promise<void>,
  ): Promise<number | null> {
    const directory = temporaryDirectory();
    const collector = await start(directory, args);
    try {
      await work(collector);
      return await collector.stop();
    } finally {
      await collector.kill();
      fs.rmSync(directory, { recursive: true, force: true });
    }
  }

  test('with a certificate that expires soon warns', async () => {
    await startWith(renew('soon', 12.5), (collector) => {
      expect(logged('the TLS certificate expires soon', collector)).toMatchObject([{ days: 12 }]);
      return Promise.resolve();
    });
  });

  test('with an expired one warns and listens, for a client that does not check it loses no event', async () => {
    const code = await startWith(renew('past', -1), async (collector) => {
      expect(
        logged('the TLS certificate has expired: clients that check it stay away', collector),
      ).toHaveLength(1);
      const careless = { ...sender, options: { rejectUnauthorized: false } };
      expect((await post(collector.port, 'cek', careless)).status).toBe(401);
    });
    expect(code).toBe(0);
  });

  test('prints a curl line with https', async () => {
    await startWith(renew('line'), async (collector) => {
      const line = `curl -sS -X POST https://127.0.0.1:${collector.port}/event/inference-start`;
      await expect.poll(() => collector.output.stdout).toContain(line);
    });
  });

  test('stops in order while handshakes are open, without waiting for them', async () => {
    const open: RawConnection[] = [];
    const code = await startWith(
      [...renew('ending'), ...limits({ 'shutdown-timeout-ms': '10m' })],
      async (collector) => {
        for (const bytes of [[], [0x16, 0x03, 0x01, 0x02, 0x00]]) {
          const connection = await RawConnection.open(collector.port);
          connection.write(Uint8Array.from(bytes));
          open.push(connection);
        }
        await handshake(collector.port, sender);
      },
    );
    expect(code).toBe(0);
    for (const connection of open) connection.close();
  });

  test.each([
    [['--tls-cert', 'tls.crt'], 'requires --tls-key'],
    [['--tls-key', 'tls.key'], 'requires --tls-cert'],
    [['--tls-client-ca', 'ca.crt'], 'requires --tls-cert and --tls-key'],
    [['--tls-client-auth', 'optional'], 'requires --tls-client-ca'],
    [
      ['--tls-cert', '/nonexistent.crt', '--tls-key', '/nonexistent.key'],
      '/nonexistent.crt cannot be read: ENOENT',
    ],
  ])('with %j is refused', async (options, why) => {
    const directory = temporaryDirectory();
    const { code, stderr } = await run(['serve', '--port', '0', '--data-dir', directory, ...options]);
    expect([code, stderr]).toEqual([2, expect.stringContaining(why)]);
    expect(fs.readdirSync(directory)).toEqual([]);
    fs.rmSync(directory, { recursive: true });
  });
});
