/** What only a browser decides: cookies between sites, the origin of a form, the content policy. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser } from '../../../../test/chromium.js';
import { SECURITY_HEADERS } from '../../src/pages/headers.js';
import { peoplePages } from '../../src/pages/people-pages.js';
import { type TestProvider, startProvider } from './provider.js';
import { type TestViewer, startViewer } from './viewer.js';

let browser: Browser;
let provider: TestProvider | undefined;
let viewer: TestViewer;
/** Violations of the policy, as the console of the pages reports them. */
const complaints: string[] = [];

beforeAll(async () => {
  browser = await launchBrowser();
  viewer = await startViewer(
    async (url) => {
      const accounts = { ada: { groups: ['audit', 'on-call'] } };
      provider = await startProvider({ viewer: url, accounts, host: 'localhost' });
      const { issuer, clientId, clientSecret } = provider;
      return { kind: 'oidc', issuer, clientId, clientSecret, groupsClaim: 'groups' };
    },
    { pages: peoplePages, headers: SECURITY_HEADERS },
  );
});
afterAll(async () => {
  await browser.close();
  await viewer.close();
  await provider?.close();
});

async function signedIn(): Promise<Page> {
  const page = await (await browser.newContext()).newPage();
  page.on('console', (message) => {
    if (message.text().includes('Content Security Policy')) complaints.push(message.text());
  });
  await page.goto(viewer.url.href);
  await page.getByRole('link', { name: 'Sign in' }).click();
  await page.getByLabel('Name').fill('ada');
  await page.getByLabel('Password').fill('x');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL(viewer.url.href);
  return page;
}

test('[R-2046] a browser signs in at a provider of another site, and signs out there', async () => {
  const page = await signedIn();
  expect(await page.getByRole('heading').first().textContent()).toBe('Your roles');
  const [cookie] = (await page.context().cookies(viewer.url.href)).filter(
    ({ name }) => name === viewer.cookie,
  );
  expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict' });
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL((url) => url.hostname === 'localhost');
  const names = (await page.context().cookies(viewer.url.href)).map(({ name }) => name);
  expect(names).not.toContain(viewer.cookie);
  await page.goto(viewer.url.href);
  expect(new URL(page.url()).pathname).toBe('/sign-in');
  expect(complaints).toEqual([]);
});

test('[R-2048] a browser states a reason, and two tabs have two roles', async () => {
  const page = await signedIn();
  await page.goto(new URL('/break-glass', viewer.url).href);
  await page.getByRole('textbox').fill('the patient\ncannot wait');
  await page.getByRole('button', { name: /Show everything/ }).click();
  await page.waitForURL('**/break-glass/runs');
  expect(viewer.looks.at(-1)?.reason).toBe('the patient cannot wait');
  expect(await page.textContent('body')).toContain('"role":"break-glass"');
  const tab = await page.context().newPage();
  await tab.goto(new URL('/auditor/runs', viewer.url).href);
  expect(await tab.textContent('body')).toContain('"role":"auditor"');
  expect(await tab.textContent('body')).not.toContain('cannot wait');
  expect(complaints).toEqual([]);
});

test('[R-2046] a form on another site reaches the viewer without a session', async () => {
  const page = await signedIn();
  await page.route('http://localhost:1/', (route) =>
    route.fulfill({
      contentType: 'text/html',
      body: `<form method="post" action="${new URL('/break-glass', viewer.url).href}">
<input name="reason" value="a reason of the attacker"><button>Win</button></form>`,
    }),
  );
  await page.goto('http://localhost:1/');
  const looks = viewer.looks.length;
  const [response] = await Promise.all([
    page.waitForResponse((answer) => answer.request().method() === 'POST'),
    page.getByRole('button').click(),
  ]);
  expect(response.status()).toBe(403);
  expect((await response.request().allHeaders())['cookie'] ?? '').not.toContain('viewer');
  expect(viewer.looks.length).toBe(looks);
});
