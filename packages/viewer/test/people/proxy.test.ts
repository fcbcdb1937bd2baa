import https from 'node:https';
import type { IncomingMessage } from 'node:http';
import net from 'node:net';
import { networkInterfaces } from 'node:os';
import { afterEach, expect, test } from 'vitest';
import { Authority, type Issued } from '../../../collector/test/running/certificates.js';
import { personOf } from '../../src/people/proxy.js';
import { Browser } from './browser.js';
import { type TestViewer, acts, read, startViewer } from './viewer.js';

const AUTH = { kind: 'proxy', header: 'x-remote-user', groupsHeader: 'x-remote-groups' } as const;
const closing: TestViewer[] = [];
afterEach(async () => {
  for (const each of closing.splice(0)) await each.close();
});

async function start(settings: Parameters<typeof startViewer>[1] = {}): Promise<TestViewer> {
  const viewer = await startViewer(AUTH, settings);
  closing.push(viewer);
  return viewer;
}

test('[R-2046] a header of a proxy on loopback names the person, and its groups act at once', async () => {
  const viewer = await start();
  const headers = { 'x-remote-user': 'ada', 'x-remote-groups': 'ai-safety; audit,,x' };
  const browser = new Browser(headers);
  expect(acts(await browser.get(new URL('/reviewer/runs', viewer.url)))).toMatchObject({
    person: { kind: 'proxy', name: 'ada', callerId: 'ada', groups: ['ai-safety', 'audit', 'x'] },
  });
  headers['x-remote-groups'] = 'audit';
  expect(acts(await browser.get(new URL('/reviewer/runs', viewer.url)))).toMatchObject({ status: 403 });
  expect(acts(await browser.get(new URL('/auditor/runs', viewer.url))).role).toBe('auditor');
  const none = await new Browser().get(new URL('/sign-in', viewer.url));
  expect([none.status, read(none)['how']]).toEqual([401, 'proxy']);
});

test('[R-2046] another name with the same cookie has a session of its own', async () => {
  const viewer = await start();
  const headers = { 'x-remote-user': 'olaf', 'x-remote-groups': 'on-call' };
  const browser = new Browser(headers);
  await browser.get(new URL('/break-glass/runs', viewer.url));
  const { formToken } = read(await browser.get(new URL('/break-glass', viewer.url)));
  const form = { form_token: String(formToken), reason: 'a reason that is long enough' };
  expect((await browser.post(new URL('/break-glass', viewer.url), form)).status).toBe(303);
  expect(acts(await browser.get(new URL('/break-glass/runs', viewer.url))).role).toBe('break-glass');
  const cookie = browser.cookies.get(viewer.cookie);
  headers['x-remote-user'] = 'otto';
  expect(acts(await browser.get(new URL('/break-glass/runs', viewer.url)))).toMatchObject({ why: 'reason' });
  expect(browser.cookies.get(viewer.cookie)).not.toBe(cookie);
});

test('[R-2046] a doubled, unreadable or over-long header names no person', async () => {
  const viewer = await start();
  const [user, group] = ['X-Remote-User: ada', 'X-Remote-Groups: audit'];
  expect(await rawStatus(viewer, [user, group])).toBe(200);
  expect(await rawStatus(viewer, ['X-Remote-User: J\xc3\xbcrgen', group])).toBe(200);
  for (const lines of [
    [group],
    ['X-Remote-User: ', group],
    [user, 'x-remote-user: olaf', group],
    [user, group, 'X-Remote-Groups: on-call'],
    ['X-Remote-User: a\tb', group],
    ['X-Remote-User: a\xc2\x85b', group],
    ['X-Remote-User: a\xe2\x80\xaeb', group],
    [`X-Remote-User: ${'a'.repeat(257)}`, group],
    [user, `X-Remote-Groups: audit,${'a'.repeat(257)}`],
    [user, 'X-Remote-Groups: audit\tx'],
  ])
    expect(await rawStatus(viewer, lines), lines.join()).toBe(401);
});

/** The status of `/auditor/runs`, by bytes that no client would send. */
async function rawStatus(viewer: TestViewer, lines: readonly string[]): Promise<number> {
  const { host, hostname, port } = viewer.url;
  const head = [`GET /auditor/runs HTTP/1.1`, `Host: ${host}`, ...lines, 'Connection: close', '', ''];
  const socket = net.connect(Number(port), hostname).end(head.join('\r\n'), 'latin1');
  let text = '';
  for await (const part of socket) text += String(part);
  const { acts: answer } = JSON.parse(text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1)) as {
    acts: { status?: number };
  };
  return answer.status ?? 200;
}

test('[R-2046] a header from another host counts only with a certificate that was verified', async () => {
  const address = Object.values(networkInterfaces())
    .flat()
    .find((each) => each?.family === 'IPv4' && !each.internal)?.address;
  if (address === undefined) {
    process.stdout.write('not run: this host has no address besides loopback\n');
    return;
  }
  const [authority, stranger] = [new Authority(), new Authority('stranger')];
  const { certificate: cert, key } = authority.issue({ names: [`ip:${address}`] });
  const tls = { cert, key, ca: authority.certificate, requestCert: true, rejectUnauthorized: false };
  const viewer = await start({ host: address, https: tls });
  const status = async (client: Partial<Issued>) =>
    await new Promise<number | undefined>((resolve, reject) => {
      https
        .get(
          new URL('/sign-in', viewer.url),
          {
            ...{ agent: false, ca: authority.certificate, cert: client.certificate, key: client.key },
            headers: { 'x-remote-user': 'ada', 'x-remote-groups': 'audit' },
          },
          (response) => resolve(response.resume().statusCode),
        )
        .on('error', reject);
    });
  expect(await status({})).toBe(401);
  expect(await status(stranger.issue({ commonName: 'proxy' }))).toBe(401);
  expect(await status(authority.issue({ commonName: 'proxy' }))).toBe(303);
});

test('[R-2046] without TLS a header from another host names no person', () => {
  for (const [remoteAddress, isTrusted] of [
    ['10.0.0.7', false],
    ['::ffff:10.0.0.7', false],
    ['fe80::1', false],
    [undefined, false],
    ['127.0.0.1', true],
    ['::ffff:127.0.0.1', true],
    ['::1', true],
  ] as const) {
    const request = { socket: { remoteAddress }, rawHeaders: ['X-Remote-User', 'ada'] };
    expect('person' in personOf(request as unknown as IncomingMessage, AUTH), remoteAddress).toBe(isTrusted);
  }
});
