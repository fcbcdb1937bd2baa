/** The management listener with a certificate, as its clients see it. */
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import tls from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Authority, writePair } from '../running/certificates.js';
import { start, temporaryDirectory, type Running } from '../running/collector-process.js';
import { get, managementPort } from './managed.js';

const TOKEN = randomBytes(24).toString('base64url');
const headers = { authorization: `Bearer ${TOKEN}` };
const authority = new Authority();
/** Under which other machines reach this one, if they do. */
const outside = Object.values(os.networkInterfaces())
  .flat()
  .find((each) => each !== undefined && !each.internal && each.family === 'IPv4')?.address;

interface Started {
  readonly directory: string;
  readonly running: Running;
  readonly port: number;
}

async function startWith(...args: readonly string[]): Promise<Started> {
  const directory = temporaryDirectory();
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  const token = path.join(directory, 'token');
  fs.writeFileSync(token, TOKEN, { mode: 0o600 });
  const pair = args.includes('plain') ? [] : renewed(directory, 'first');
  const running = await start(path.join(directory, 'data'), [
    ...pair,
    ...['--management-host', '0.0.0.0', '--management-token-file', token],
  ]);
  onTestFinished(() => running.kill());
  return { directory, running, port: managementPort(running) };
}

function renewed(directory: string, commonName: string): string[] {
  return writePair(directory, authority.issue({ commonName, names: ['dns:collector.test'] }));
}

/** @returns status, body and whose certificate was shown. */
function getSecurely(port: number, at: string): Promise<{ status: number; body: string; name: string }> {
  return new Promise((resolve, reject) => {
    const request = https.get({
      ...{ host: '127.0.0.1', port, path: at, headers, agent: false },
      ...{ ca: authority.certificate, servername: 'collector.test' },
    });
    request.on('error', reject);
    request.on('response', (response) => {
      const { subject } =
        response.socket instanceof tls.TLSSocket
          ? response.socket.getPeerCertificate()
          : { subject: { CN: '' } };
      let body = '';
      response.setEncoding('utf8').on('data', (piece: string) => (body += piece));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body, name: String(subject.CN) }));
    });
  });
}

describe('[R-821] with a certificate the management listener', () => {
  test('serves HTTPS, also with a renewed certificate', async () => {
    const { directory, running, port } = await startWith();
    expect(running.output.stderr).toMatch(/"tls":true,"port":\d+,"token":true,"msg":"management listening"/);
    const { status, body, name } = await getSecurely(port, '/console/state.json');
    expect([status, name]).toEqual([200, 'first']);
    const { warnings } = JSON.parse(body) as { warnings: { id: string }[] };
    expect(warnings.map(({ id }) => id)).not.toContain('operator_token_in_clear');
    expect((await getSecurely(port, '/')).body).toContain('<!doctype html>');
    renewed(directory, 'second');
    running.process.kill('SIGHUP');
    await expect.poll(async () => (await getSecurely(port, '/livez')).name).toBe('second');
  });

  test('serves health by plain HTTP, and the rest only on loopback', async () => {
    const { port } = await startWith();
    for (const at of ['/livez', '/readyz']) expect((await get(port, at)).status).toBe(200);
    expect((await get(port, '/metrics', { headers })).status).toBe(200);
    expect((await get(port, '/metrics')).status).toBe(401);
    if (outside === undefined) return;
    expect((await get(port, '/livez', { host: outside })).status).toBe(200);
    const { status, body } = await get(port, '/metrics', { headers, host: outside });
    expect([status, JSON.parse(body)]).toMatchObject([
      403,
      { code: 'permission_denied', message: expect.stringContaining('HTTPS') as string },
    ]);
  });

  test('closes other protocols and unfinished handshakes, and continues', async () => {
    const { port } = await startWith();
    const closed = (hello: string) =>
      new Promise<string>((resolve, reject) => {
        let answer = '';
        const socket = net.connect({ host: '127.0.0.1', port }, () => socket.write(hello, 'latin1'));
        socket.on('data', (chunk: Buffer) => (answer += chunk.toString('latin1')));
        socket.on('error', reject).on('close', () => resolve(answer));
      });
    expect(
      await closed('\u0016\u0003\u0001nonsense that is no handshake at all, and more of it'),
    ).not.toContain('HTTP');
    expect(await closed('nonsense\r\n\r\n')).toMatch(/^HTTP\/1.1 400/);
    const old = tls.connect({
      host: '127.0.0.1',
      port,
      maxVersion: 'TLSv1.1',
      minVersion: 'TLSv1',
      ciphers: 'ALL@SECLEVEL=0',
      rejectUnauthorized: false,
    });
    await new Promise((resolve) => old.once('error', resolve).once('close', resolve));
    expect((await getSecurely(port, '/livez')).status).toBe(200);
  });
});

test('[R-821] an operator token that comes from other machines in the clear causes a warning', async () => {
  const { port } = await startWith('plain');
  const state = JSON.parse((await get(port, '/console/state.json', { headers })).body) as {
    warnings: { id: string }[];
  };
  expect(state.warnings.map(({ id }) => id)).toContain('operator_token_in_clear');
});
