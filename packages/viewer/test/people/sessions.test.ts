import http from 'node:http';
import { afterEach, expect, test } from 'vitest';
import type { Person } from '../../src/contract.js';
import { Attempts } from '../../src/people/attempts.js';
import { Sessions, reasonFrom } from '../../src/people/sessions.js';
import { Browser, type Got } from './browser.js';
import { type TestViewer, acts, read, startViewer } from './viewer.js';

const MINUTE = 60_000;
const closing: TestViewer[] = [];
afterEach(async () => {
  for (const each of closing.splice(0)) await each.close();
});

async function start(settings: Parameters<typeof startViewer>[1] = { roles: false }): Promise<TestViewer> {
  const viewer = await startViewer({ kind: 'local' }, settings);
  closing.push(viewer);
  return viewer;
}

/** The one-time link that the terminal shows last. */
function linkOf(viewer: TestViewer): URL {
  const [link = ''] = /http\S+/.exec(viewer.printed.findLast((text) => text.includes('http')) ?? '') ?? [];
  return new URL(link);
}

async function useLink(browser: Browser, link: URL): Promise<Got> {
  const { token } = read(await browser.get(link)) as { token?: string };
  return await browser.post(new URL('/sign-in/link', link), { token: token ?? '' });
}

/** A browser that is signed in. */
async function signedIn(viewer: TestViewer): Promise<Browser> {
  const browser = new Browser();
  viewer.keyboard.emit('data', '\n');
  expect((await useLink(browser, linkOf(viewer))).status).toBe(200);
  return browser;
}

async function grant(browser: Browser, viewer: TestViewer, reason: string): Promise<Got> {
  const { formToken } = read(await browser.get(new URL('/break-glass', viewer.url)));
  return await browser.post(new URL('/break-glass', viewer.url), { form_token: String(formToken), reason });
}

test('[R-2046] a one-time link signs in once, within ten minutes, and only by its button', async () => {
  const viewer = await start();
  const link = linkOf(viewer);
  expect(link.href).toMatch(/\/sign-in\/link\?token=[\w-]{43}$/);
  // The preview of a chat program.
  expect((await new Browser().get(link)).status).toBe(200);
  const browser = new Browser();
  const got = await useLink(browser, link);
  expect(read(got)).toMatchObject({ page: 'continueTo', to: '/' });
  expect(read(await browser.get(viewer.url))['roles']).toHaveLength(4);
  expect((await useLink(new Browser(), link)).status).toBe(403);

  viewer.keyboard.emit('data', '\n');
  const second = linkOf(viewer);
  expect(second.href).not.toBe(link.href);
  viewer.keyboard.emit('data', '\n');
  expect(linkOf(viewer).href).toBe(second.href);
  const forged = new URL(second);
  forged.searchParams.set('token', 'A'.repeat(43));
  expect((await useLink(new Browser(), forged)).status).toBe(403);
  viewer.now += 10 * MINUTE;
  expect((await useLink(new Browser(), second)).status).toBe(403);
  viewer.keyboard.emit('data', '\n');
  expect((await useLink(new Browser(), linkOf(viewer))).status).toBe(200);
  expect((await new Browser().get(new URL('/sign-in/link?token=<b>', viewer.url))).status).toBe(403);
});

test('[R-2046] a session ends after 15 idle minutes, and after 12 hours', async () => {
  const viewer = await start();
  const browser = await signedIn(viewer);
  const page = new URL('/auditor/runs', viewer.url);
  for (let used = 0; used < 50; used++) {
    viewer.now += 14 * MINUTE;
    expect(acts(await browser.get(page)).role).toBe('auditor');
  }
  viewer.now += 14 * MINUTE;
  expect(acts(await browser.get(page)).role).toBe('auditor');
  viewer.now += 6 * MINUTE;
  expect(acts(await browser.get(page))).toMatchObject({ status: 401, why: 'signed-out' });
  const idle = await signedIn(viewer);
  viewer.now += 15 * MINUTE;
  expect(acts(await idle.get(page))).toMatchObject({ status: 401 });
});

test('[R-2046] a clock that is set back prolongs no session', async () => {
  const viewer = await start();
  const browser = await signedIn(viewer);
  viewer.now -= MINUTE;
  expect(acts(await browser.get(new URL('/auditor/runs', viewer.url)))).toMatchObject({ status: 401 });
});

test('[R-2046] the number of sessions is bounded, for each person and in all', () => {
  let now = 0;
  const sessions = new Sessions(() => now);
  const person = (name: string): Person => ({ kind: 'oidc', name, callerId: name, groups: [] });
  const [first, ...others] = Array.from({ length: 21 }, () => sessions.begin(person('ada')));
  expect(sessions.use(first?.id)).toBeUndefined();
  expect(sessions.use(others[0]?.id)).toBeDefined();
  expect(new Set(others.map(({ id }) => id)).size).toBe(20);
  for (let at = 0; at < 10_000; at++) sessions.begin(person(`p${at}`));
  expect(sessions.size).toBe(10_000);
  expect(sessions.use(others[0]?.id)).toBeUndefined();
  now += 15 * MINUTE;
  sessions.begin(person('late'));
  expect(sessions.size).toBe(1);
});

test('[R-2046] the cookie of an https address belongs to this host alone', async () => {
  const url = new URL('https://viewer.example.org');
  const viewer = await start({ roles: false, url });
  const port = Number(viewer.url.port);
  const { token } = { token: linkOf(viewer).searchParams.get('token') ?? '' };
  const body = new URLSearchParams({ token }).toString();
  const cookies = await new Promise<readonly string[] | undefined>((resolve, reject) => {
    const headers = {
      ...{ host: url.host, origin: url.origin, 'content-type': 'application/x-www-form-urlencoded' },
      'content-length': body.length,
    };
    http
      .request({ host: '127.0.0.1', port, path: '/sign-in/link', method: 'POST', headers }, (response) =>
        resolve(response.resume().headers['set-cookie']),
      )
      .on('error', reject)
      .end(body);
  });
  expect(cookies).toEqual([
    expect.stringMatching(/^__Host-viewer=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Strict$/),
  ]);
});

test('[R-2046] a browser is signed in at two viewers of a host at once', async () => {
  const [first, second] = [await start(), await start()];
  const browser = await signedIn(first);
  second.keyboard.emit('data', '\n');
  expect((await useLink(browser, linkOf(second))).status).toBe(200);
  for (const { url } of [first, second])
    expect(acts(await browser.get(new URL('/auditor/runs', url))).role).toBe('auditor');
});

test('[R-2046] a form without its token, or of another site, is refused', async () => {
  const viewer = await start();
  const [browser, other] = [await signedIn(viewer), await signedIn(viewer)];
  const to = new URL('/auditor/runs', viewer.url);
  const tokenOf = async (who: Browser, role: string) =>
    (read(await who.get(new URL(`/${role}/runs/admitted`, viewer.url)))['admitted'] as { formToken: string })
      .formToken;
  const own = await tokenOf(browser, 'auditor');
  expect((await browser.post(to, { form_token: own })).status).toBe(200);
  expect((await browser.post(to, {})).status).toBe(403);
  expect((await browser.post(to, { form_token: `${own}x` })).status).toBe(403);
  expect((await browser.post(to, { form_token: await tokenOf(other, 'auditor') })).status).toBe(403);
  expect((await browser.post(to, { form_token: await tokenOf(browser, 'reviewer') })).status).toBe(403);
  expect((await new Browser().post(to, { form_token: own })).status).toBe(401);
  const form = { form_token: own };
  expect((await browser.post(to, form, { 'sec-fetch-site': 'cross-site' })).status).toBe(403);
  expect((await browser.post(to, form, { 'sec-fetch-site': 'same-site' })).status).toBe(403);
  expect((await browser.post(to, form, { origin: 'https://evil.example' })).status).toBe(403);
  expect((await browser.post(to, form, { origin: 'null' })).status).toBe(200);
  const origin = viewer.url.origin;
  expect(await rawPost(to, { origin: 'null' }, browser, form)).toBe(403);
  expect(await rawPost(to, {}, browser, form)).toBe(403);
  expect(await rawPost(to, { origin }, browser, form)).toBe(200);
  expect(await rawPost(to, { origin, host: 'evil.example' }, browser, form)).toBe(421);
  expect(await rawPost(to, { origin, host: `127.0.0.1:1` }, browser, form)).toBe(421);
  expect(
    await rawPost(to, { origin: `http://localhost:${to.port}`, host: `localhost:${to.port}` }, browser, form),
  ).toBe(200);
});

/** A POST with exactly these headers. */
async function rawPost(
  to: URL,
  headers: Readonly<Record<string, string>>,
  browser: Browser,
  form: Readonly<Record<string, string>>,
): Promise<number | undefined> {
  const body = new URLSearchParams(form).toString();
  return await new Promise((resolve, reject) => {
    http
      .request(
        to,
        {
          method: 'POST',
          headers: {
            ...{ 'content-type': 'application/x-www-form-urlencoded', 'content-length': body.length },
            ...{ cookie: [...browser.cookies].map((pair) => pair.join('=')).join('; '), ...headers },
          },
        },
        (response) => resolve(response.resume().statusCode),
      )
      .on('error', reject)
      .end(body);
  });
}

test('[R-2048] break-glass needs a recorded reason and ends 15 minutes after it', async () => {
  const viewer = await start();
  const browser = await signedIn(viewer);
  const page = new URL('/break-glass/runs', viewer.url);
  const admitted = new URL('/break-glass/runs/admitted', viewer.url);
  expect(acts(await browser.get(page))).toMatchObject({ status: 403, why: 'reason' });
  expect((await browser.get(admitted)).headers.get('location')).toBe('/break-glass');
  const short = await grant(browser, viewer, '  too short ');
  expect([short.status, read(short)['reason']]).toEqual([400, '  too short ']);
  expect(read(short)['problem']).toContain('at least 10');
  viewer.recording = false;
  expect((await grant(browser, viewer, 'the patient cannot wait')).status).toBe(503);
  expect(acts(await browser.get(page))).toMatchObject({ why: 'reason' });
  viewer.recording = true;
  const reason = 'the patient cannot wait';
  expect((await grant(browser, viewer, ` ${reason} `)).headers.get('location')).toBe('/break-glass/runs');
  expect(viewer.looks).toMatchObject([{ role: 'break-glass', reason, person: { kind: 'os' } }]);
  expect(acts(await browser.get(page))).toMatchObject({ role: 'break-glass', reason });
  expect(read(await browser.get(admitted))['admitted']).toMatchObject({
    grantedUntil: new Date(viewer.now + 15 * MINUTE).toISOString(),
  });
  // Another role in another tab is as it was, without the reason.
  const auditor = acts(await browser.get(new URL('/auditor/runs', viewer.url)));
  expect([auditor.role, auditor.reason]).toEqual(['auditor', undefined]);
  for (const minutes of [7, 7]) {
    viewer.now += minutes * MINUTE;
    expect(acts(await browser.get(page)).role).toBe('break-glass');
  }
  viewer.now += MINUTE;
  expect(acts(await browser.get(page))).toMatchObject({ status: 403, why: 'reason' });
  expect(viewer.lines.join('\n')).not.toContain(reason);
});

test('[R-2048] a reason has 10 to 1,000 characters that can be seen', () => {
  for (const text of [
    '',
    '123456789',
    ' 123456789 ',
    'a\u200b\u200b\u200b\u200b\u200b\u200b\u200b\u200b\u200bb',
    `a${' '.repeat(20)}b`,
  ])
    expect(reasonFrom(text), text).toHaveProperty('problem');
  for (const text of ['1234567890\n', `${'x'.repeat(999)} y`.slice(0, 1000), '\u{1f600}'.repeat(1000)])
    expect(reasonFrom(text), text).toHaveProperty('reason');
  for (const text of ['12345\u001b67890', '12345\u000067890', 'x'.repeat(1001), undefined, ['1234567890']])
    expect(reasonFrom(text)).toHaveProperty('problem');
  expect(reasonFrom('a fall \r\n in ward 4\n')).toEqual({ reason: 'a fall in ward 4' });
});

test('[R-2046] signing out ends the session, and each login has a new id', async () => {
  const viewer = await start();
  const browser = await signedIn(viewer);
  const former = browser.cookies.get(viewer.cookie) ?? '';
  viewer.keyboard.emit('data', '\n');
  await useLink(browser, linkOf(viewer));
  expect(browser.cookies.get(viewer.cookie)).not.toBe(former);
  const page = new URL('/auditor/runs', viewer.url);
  const replayed = new Browser();
  replayed.cookies.set(viewer.cookie, former);
  expect(acts(await replayed.get(page))).toMatchObject({ status: 401 });
  const last = browser.cookies.get(viewer.cookie) ?? '';
  const { signOutToken } = read(await browser.get(viewer.url));
  expect(
    (await browser.post(new URL('/sign-out', viewer.url), { form_token: String(signOutToken) })).status,
  ).toBe(200);
  expect(browser.cookies.has(viewer.cookie)).toBe(false);
  replayed.cookies.set(viewer.cookie, last);
  expect(acts(await replayed.get(page))).toMatchObject({ status: 401 });
});

test('[R-2046] attempts to sign in are limited for each address, in bounded memory', () => {
  let now = 0;
  const attempts = new Attempts(() => now);
  const taken = Array.from({ length: 200 }, () => attempts.take('10.0.0.1')).filter(Boolean);
  expect(taken).toHaveLength(120);
  expect(attempts.take('10.0.0.2')).toBe(true);
  now += 1000;
  expect([attempts.take('10.0.0.1'), attempts.take('10.0.0.1'), attempts.take('10.0.0.1')]).toEqual([
    true,
    true,
    false,
  ]);
  for (let at = 0; at < 20_000; at++) attempts.take(`a${at}`);
  expect(attempts.size).toBe(10_000);
});
