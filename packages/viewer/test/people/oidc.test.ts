import { afterEach, expect, test } from 'vitest';
import { Browser } from './browser.js';
import { type ProviderSettings, type TestProvider, startProvider } from './provider.js';
import { type TestViewer, acts, read, startViewer } from './viewer.js';

const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of closing.splice(0)) await each.close();
});

const ACCOUNTS = {
  ada: { groups: ['ai-safety', 'audit'] },
  dora: { groups: ['doctors'] },
  olaf: { groups: ['on-call'] },
  nick: { groups: ['porters'] },
};

async function start(
  settings: Partial<ProviderSettings> & { readonly isDown?: boolean; readonly secret?: string } = {},
): Promise<{ viewer: TestViewer; provider: TestProvider }> {
  let provider: TestProvider | undefined;
  const viewer = await startViewer(async (url) => {
    provider = await startProvider({ accounts: ACCOUNTS, viewer: url, ...settings });
    if (settings.isDown === true) await provider.down();
    const { issuer, clientId } = provider;
    const clientSecret = settings.secret ?? provider.clientSecret;
    return { kind: 'oidc', issuer, clientId, clientSecret, groupsClaim: 'groups' };
  });
  if (provider === undefined) throw new Error('no provider');
  closing.push(viewer, provider);
  return { viewer, provider };
}

const MINUTE = 60_000;

test('[R-2046] a person signs in at a provider and has the roles of the groups', async () => {
  const { viewer } = await start();
  const browser = new Browser();
  expect((await browser.get(viewer.url)).headers.get('location')).toBe('/sign-in');
  expect(read(await browser.get(new URL('/sign-in', viewer.url)))).toMatchObject({
    page: 'signIn',
    how: 'oidc',
  });
  const answer = await browser.signIn(viewer.url, 'ada');
  expect(read(answer)).toMatchObject({ page: 'continueTo', to: '/' });
  const cookie = answer.headers.getSetCookie().find((line) => line.startsWith(`${viewer.cookie}=`));
  expect(cookie).toMatch(/^viewer-\d+=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/);
  const roles = read(await browser.get(viewer.url));
  expect(roles).toMatchObject({ page: 'roles', name: 'ada', notes: [] });
  expect(roles['roles']).toEqual([
    { role: 'reviewer', path: '/reviewer/runs', organisations: ['st-mary'], applications: ['sepsis'] },
    { role: 'auditor', path: '/auditor/runs' },
  ]);
  expect(acts(await browser.get(new URL('/reviewer/run', viewer.url)))).toEqual({
    person: { kind: 'oidc', name: 'ada', callerId: 'ada', groups: ['ai-safety', 'audit'] },
    role: 'reviewer',
    scope: { organisations: ['st-mary'], applications: ['sepsis'] },
  });
  expect(acts(await browser.get(new URL('/break-glass/runs', viewer.url)))).toMatchObject({
    status: 403,
    why: 'role',
  });
  expect(viewer.lines.join('\n')).not.toMatch(/ada|code=|state=/);
});

test('[R-2046] a person in no group of the file has no role, and one role is shown at once', async () => {
  const { viewer } = await start();
  const [nick, dora] = [new Browser(), new Browser()];
  await nick.signIn(viewer.url, 'nick');
  expect(read(await nick.get(viewer.url))).toMatchObject({ page: 'roles', roles: [] });
  await dora.signIn(viewer.url, 'dora');
  expect((await dora.get(viewer.url)).headers.get('location')).toBe('/clinician/runs');
  expect(acts(await dora.get(new URL('/clinician/runs', viewer.url)))).toMatchObject({
    scope: { organisations: ['st-mary'], caller: 'dora' },
  });
});

test('[R-2046] a forged, replayed, foreign or stolen answer is refused', async () => {
  const { viewer } = await start();
  const refused = async (browser: Browser, change: (url: URL) => void): Promise<string> => {
    const callback = await browser.callbackOf(viewer.url, 'ada');
    change(callback);
    const got = await browser.get(callback);
    expect(got.status).toBe(403);
    expect(read(got)['page']).toBe('message');
    expect(browser.cookies.has(viewer.cookie)).toBe(false);
    return viewer.lines.at(-1) ?? '';
  };
  expect(await refused(new Browser(), (url) => url.searchParams.set('state', 'forged'))).toContain(
    'unknown state',
  );
  expect(await refused(new Browser(), (url) => url.searchParams.append('state', 'second'))).toContain(
    'unknown state',
  );
  expect(await refused(new Browser(), (url) => url.searchParams.delete('state'))).toContain('unknown state');
  expect(await refused(new Browser(), (url) => url.searchParams.set('code', 'forged'))).toContain(
    'invalid_grant',
  );
  expect(
    await refused(new Browser(), (url) => url.searchParams.set('iss', 'https://evil.example')),
  ).toContain('OAUTH');
  expect(await refused(new Browser(), (url) => url.searchParams.delete('iss'))).toContain('OAUTH');
  const withoutCookie = new Browser();
  expect(
    await refused(withoutCookie, () => withoutCookie.cookies.delete(`${viewer.cookie}-login`)),
  ).toContain('other browser');

  const victim = new Browser();
  const stolen = await victim.callbackOf(viewer.url, 'ada');
  const thief = new Browser();
  await thief.callbackOf(viewer.url, 'nick');
  expect((await thief.get(stolen)).status).toBe(403);
  expect(thief.cookies.has(viewer.cookie)).toBe(false);

  const twice = new Browser();
  const callback = await twice.callbackOf(viewer.url, 'ada');
  const login = twice.cookies.get(`${viewer.cookie}-login`) ?? '';
  expect((await twice.get(callback)).status).toBe(200);
  twice.cookies.set(`${viewer.cookie}-login`, login);
  expect((await twice.get(callback)).status).toBe(403);
  expect(viewer.lines.at(-1)).toContain('unknown state');
  // The code of a login that is over, in a new one.
  const code = callback.searchParams.get('code') ?? '';
  expect(await refused(new Browser(), (url) => url.searchParams.set('code', code))).toContain(
    'invalid_grant',
  );
});

test('[R-2046] a login ends after ten minutes', async () => {
  const { viewer } = await start();
  const browser = new Browser();
  const callback = await browser.callbackOf(viewer.url, 'ada');
  viewer.now += 10 * MINUTE;
  expect((await browser.get(callback)).status).toBe(403);
  expect(viewer.lines.at(-1)).toContain('expired transaction');
});

test('[R-2046] an ID token with another nonce, issuer, audience or key is refused', async () => {
  const { viewer, provider } = await start();
  for (const forge of [
    { claims: { nonce: 'another' } },
    { claims: { iss: 'https://evil.example' } },
    { claims: { aud: 'another' } },
    { claims: { exp: 1 } },
    { otherKey: true },
  ]) {
    provider.forge = forge;
    const browser = new Browser();
    const got = await browser.signIn(viewer.url, 'ada');
    expect(got.status, JSON.stringify(forge)).toBe(403);
    expect(read(got)['sentences']).toEqual([expect.stringContaining('is not valid')]);
    expect(browser.cookies.has(viewer.cookie)).toBe(false);
  }
  provider.forge = { claims: { unrelated: true } };
  expect((await new Browser().signIn(viewer.url, 'ada')).status).toBe(200);
});

test('[R-2046] a person who cancels at the provider reads so, without text of the provider', async () => {
  const { viewer } = await start();
  const got = await new Browser().signIn(viewer.url, '');
  expect(got.status).toBe(403);
  expect(read(got)['sentences']).toEqual(['The login provider did not let you sign in.']);
});

test('[R-2046] more groups than Entra ID sends are refused with a way out', async () => {
  const { viewer, provider } = await start({ groupsInIdToken: true });
  provider.userinfoWithoutGroups = true;
  provider.accounts['ada'] = { groups: [], claims: { groups: undefined, _claim_names: { groups: 'src1' } } };
  const got = await new Browser().signIn(viewer.url, 'ada');
  expect(got.status).toBe(403);
  expect(read(got)['sentences']).toEqual([expect.stringContaining('app roles')]);
});

for (const refreshTokens of [true, false])
  test(`[R-2046] a group that is taken away ends its role (refresh tokens: ${refreshTokens})`, async () => {
    const { viewer, provider } = await start({ refreshTokens });
    const browser = new Browser();
    await browser.signIn(viewer.url, 'ada');
    provider.accounts['ada'] = { groups: ['audit'] };
    viewer.now += 4 * MINUTE;
    expect(acts(await browser.get(new URL('/reviewer/runs', viewer.url))).role).toBe('reviewer');
    viewer.now += MINUTE;
    expect(acts(await browser.get(new URL('/reviewer/runs', viewer.url)))).toMatchObject({
      status: 403,
      why: 'role',
    });
    expect(acts(await browser.get(new URL('/auditor/runs', viewer.url))).role).toBe('auditor');
    provider.accounts['ada'] = { groups: ['audit'], disabled: true };
    viewer.now += 5 * MINUTE;
    const got = await browser.get(new URL('/auditor/runs', viewer.url));
    expect(acts(got)).toMatchObject({ status: 401, why: 'signed-out' });
    provider.accounts['ada'] = { groups: ['audit'] };
    expect(acts(await browser.get(new URL('/auditor/runs', viewer.url)))).toMatchObject({ status: 401 });
  });

test('[R-2048] a person who lost the group cannot ask for break-glass by a form from before', async () => {
  const { viewer, provider } = await start();
  const browser = new Browser();
  await browser.signIn(viewer.url, 'olaf');
  const to = new URL('/break-glass', viewer.url);
  const form = {
    form_token: String(read(await browser.get(to))['formToken']),
    reason: 'a reason of some length',
  };
  expect((await browser.post(to, form)).status).toBe(303);
  const page = new URL('/break-glass/runs', viewer.url);
  expect(acts(await browser.get(page)).role).toBe('break-glass');
  provider.accounts['olaf'] = { groups: [] };
  viewer.now += 5 * MINUTE;
  expect(acts(await browser.get(page))).toMatchObject({ status: 403, why: 'role' });
  expect((await browser.post(to, form)).status).toBe(403);
  expect(viewer.looks).toHaveLength(1);
});

test('[R-2046] groups of an ID token are checked again, or the session ends', async () => {
  for (const refreshTokens of [true, false]) {
    const { viewer, provider } = await start({ groupsInIdToken: true, refreshTokens });
    provider.userinfoWithoutGroups = true;
    const browser = new Browser();
    await browser.signIn(viewer.url, 'ada');
    provider.accounts['ada'] = { groups: ['audit'] };
    expect(acts(await browser.get(new URL('/reviewer/runs', viewer.url))).role).toBe('reviewer');
    viewer.now += 5 * MINUTE;
    expect(acts(await browser.get(new URL('/reviewer/runs', viewer.url))).status).toBe(
      refreshTokens ? 403 : 401,
    );
    expect(acts(await browser.get(new URL('/auditor/runs', viewer.url))).status).toBe(
      refreshTokens ? undefined : 401,
    );
  }
});

test('[R-2046] an access token that expired is replaced by the refresh token', async () => {
  const { viewer, provider } = await start({ accessSeconds: 120 });
  const browser = new Browser();
  await browser.signIn(viewer.url, 'ada');
  provider.accounts['ada'] = { groups: ['audit'] };
  viewer.now += 5 * MINUTE;
  expect(acts(await browser.get(new URL('/reviewer/runs', viewer.url))).status).toBe(403);
  expect(acts(await browser.get(new URL('/auditor/runs', viewer.url))).role).toBe('auditor');
});

test('[R-2046] a provider that is away at the start is found later', async () => {
  const { viewer, provider } = await start({ isDown: true });
  const browser = new Browser();
  const away = await browser.get(new URL('/sign-in', viewer.url));
  expect(away.status).toBe(200);
  expect(read(away)['problem']).toContain('cannot be reached');
  expect((await browser.get(new URL('/sign-in/begin', viewer.url))).status).toBe(503);
  expect(viewer.lines[0]).toContain('ECONNREFUSED');
  await provider.up();
  viewer.now += 5000;
  expect(read(await browser.get(new URL('/sign-in', viewer.url)))['problem']).toBeUndefined();
  expect((await browser.signIn(viewer.url, 'ada')).status).toBe(200);
});

test('[R-2046] a wrong client secret is named on the page of the login', async () => {
  const { viewer } = await start({ secret: 'of-another-client' });
  const answer = await new Browser().signIn(viewer.url, 'ada');
  expect(answer.status).toBe(503);
  expect(answer.text).toContain('does not accept the viewer’s own id or secret');
  expect(viewer.lines.join('\n')).toContain('invalid_client');
});

test('[R-2046] while the provider is away a session stays for 15 minutes at most', async () => {
  const { viewer, provider } = await start();
  const browser = new Browser();
  await browser.signIn(viewer.url, 'ada');
  await provider.down();
  for (const minutes of [6, 8]) {
    viewer.now += minutes * MINUTE;
    expect(acts(await browser.get(new URL('/auditor/runs', viewer.url))).role).toBe('auditor');
  }
  viewer.now += MINUTE;
  expect(acts(await browser.get(new URL('/auditor/runs', viewer.url)))).toMatchObject({ status: 401 });
  await provider.up();
  expect(acts(await browser.get(new URL('/auditor/runs', viewer.url)))).toMatchObject({ status: 401 });
});

test('[R-2046] a person who signs out is signed out at the provider too', async () => {
  const { viewer, provider } = await start();
  const browser = new Browser();
  await browser.signIn(viewer.url, 'ada');
  const cookie = browser.cookies.get(viewer.cookie) ?? '';
  const { signOutToken } = read(await browser.get(viewer.url));
  const got = await browser.post(new URL('/sign-out', viewer.url), { form_token: String(signOutToken) });
  const to = new URL(String(read(got)['to']));
  expect([to.origin, to.searchParams.get('post_logout_redirect_uri')]).toEqual([
    provider.issuer.origin,
    new URL('/sign-in', viewer.url).href,
  ]);
  expect((await browser.get(to)).status).toBe(200);
  browser.cookies.set(viewer.cookie, cookie);
  expect(acts(await browser.get(new URL('/auditor/runs', viewer.url)))).toMatchObject({ status: 401 });
});
