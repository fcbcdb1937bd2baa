/** People in each role, in a real browser, signed in at a real OpenID provider, on runs that a collector stored. */
import fs from 'node:fs';
import path from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser } from '../../../test/chromium.js';
import { faultsOf } from '../../../test/accessibility.js';
import { freePort } from '../../../test/free-port.js';
import { issueKey } from '../../collector/test/running/issued-keys.js';
import {
  run,
  type Running,
  start,
  temporaryDirectory,
} from '../../collector/test/running/collector-process.js';
import { startProvider, type TestProvider } from './people/provider.js';
import {
  looksIn,
  rolesFile,
  type RunningViewer,
  sendRun,
  type SentRun,
  startViewer,
} from './running/viewer-process.js';

const directory = temporaryDirectory();
const dataDir = path.join(directory, 'data');
const SUMMARY = 'Order an ECG.';
/** Markup, a link, a direction override, an escape sequence and a NUL, in every text that an event has. */
const HOSTILE =
  '<script>document.title="owned"</script><img src=x onerror=alert(1)>\u202egnp.exe\u001b[2J\u0000';
let browser: Browser;
let provider: TestProvider;
let collector: Running;
let viewer: RunningViewer;
let url: URL;
let own: SentRun;
let hostile: SentRun;
/** What a page asked of others, and what its policy blocked. */
const complaints: string[] = [];

beforeAll(async () => {
  fs.mkdirSync(dataDir);
  const { text: key } = await issueKey(dataDir, { organisation: 'st-mary' });
  collector = await start(dataDir);
  own = await sendRun(collector.url, key, {
    more: {
      'inference-start': { user_identity: { caller_id: 'ben' }, target_identity: { target_id: 'patient-1' } },
    },
  });
  hostile = await sendRun(collector.url, key, {
    app: HOSTILE,
    more: {
      'inference-start': {
        model_instance: { model_id: HOSTILE, model_version: HOSTILE },
        user_identity: { caller_id: HOSTILE, caller_type: HOSTILE },
        target_identity: { target_id: HOSTILE },
        inputs: { prompt: HOSTILE, [HOSTILE]: { [HOSTILE]: [HOSTILE] } },
        [HOSTILE]: HOSTILE,
      },
      'human-output': { output: { summary: HOSTILE, output_uri: `javascript:${HOSTILE}` } },
      outcome: { outcome: { outcome_type: HOSTILE, description: HOSTILE } },
      'user-feedback': { feedback: { comment: HOSTILE, feedback_type: HOSTILE } },
    },
  });
  const port = await freePort();
  url = new URL(`http://127.0.0.1:${port}/`);
  provider = await startProvider({
    viewer: url,
    host: 'localhost',
    accounts: {
      ada: { groups: ['safety', 'on-call'] },
      ben: { groups: ['doctors'] },
      cleo: { groups: ['audit'] },
    },
  });
  const secret = path.join(directory, 'client-secret');
  fs.writeFileSync(secret, provider.clientSecret, { mode: 0o600 });
  const organisations = ['st-mary'];
  viewer = await startViewer([
    ...['--port', String(port), '--data-dir', dataDir, '--state-dir', path.join(directory, 'state')],
    ...['--auth', `oidc:${provider.issuer.origin}`, '--client-id', provider.clientId],
    ...['--client-secret', `@${secret}`],
    '--roles',
    rolesFile(directory, [
      { role: 'reviewer', groups: ['safety'], organisations },
      { role: 'clinician', groups: ['doctors'], organisations },
      { role: 'auditor', groups: ['audit'], organisations },
      { role: 'break-glass', groups: ['on-call'], organisations: '*' },
    ]),
  ]);
  await viewer.logged('the catalogue is ready');
  browser = await launchBrowser();
});

afterAll(async () => {
  await browser.close();
  await viewer.stop();
  await provider.close();
  await collector.stop();
  fs.rmSync(directory, { recursive: true, force: true });
});

async function signedIn(name: string): Promise<Page> {
  const page = await (await browser.newContext()).newPage();
  page.on('console', (message) => complaints.push(message.text()));
  page.on('dialog', (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    dialog.dismiss().catch(() => undefined);
  });
  page.on('request', (request) => {
    const { origin } = new URL(request.url());
    if (![url.origin, provider.issuer.origin].includes(origin)) complaints.push(`request: ${request.url()}`);
  });
  await page.goto(url.href);
  await page.getByRole('link', { name: 'Sign in' }).click();
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Password').fill('x');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL((at) => at.origin === url.origin && !at.pathname.startsWith('/sign-in'));
  return page;
}

const textOf = (page: Page) => page.locator('body').innerText();

test('[R-2042] [R-2046] a reviewer finds a run, reads it, takes its proof, and the access log has it', async () => {
  const page = await signedIn('ada');
  await page
    .getByRole('link', { name: /reviewer/i })
    .first()
    .click();
  await page.getByLabel('Last outcome').selectOption('validated');
  await page.getByRole('button', { name: 'Show runs' }).click();
  await page.locator(`a[href*="${own.run}"]`).first().click();
  expect(await textOf(page)).toContain(SUMMARY);
  expect(await textOf(page)).toContain('patient-1');
  await page.locator('summary').first().click();
  await page.locator('a[href*="/proof/"]').first().click();
  expect(await textOf(page)).toMatch(/verified/);
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.locator('a[href*="download"]').click(),
  ]);
  const file = path.join(directory, 'event.tlog-proof');
  await download.saveAs(file);
  expect(fs.readFileSync(file, 'utf8')).toContain('c2sp.org/tlog-proof');
  const looks = looksIn(dataDir).filter(({ state }) => state === 'begun');
  const ofAda = looks.filter(({ actor }) => (actor as { name: string }).name === 'ada');
  expect(ofAda.map(({ command }) => command)).toEqual([
    ...['viewer runs', 'viewer runs', 'viewer run', 'viewer proof', 'viewer proof'],
  ]);
  expect(ofAda[2]).toMatchObject({ actor: { kind: 'oidc', role: 'reviewer' }, filter: { run: own.run } });
});

test('[R-2047] a clinician sees the own run, and another one counts as missing', async () => {
  const page = await signedIn('ben');
  const listed = await page.locator('a[href*="/clinician/runs/"]').evaluateAll((links) => links.map(String));
  expect(listed.some((href) => href.includes(own.run))).toBe(true);
  expect(listed.some((href) => href.includes(hostile.run))).toBe(false);
  const answer = await page.goto(`${url.href}clinician/runs/${hostile.run}?organisation=st-mary`);
  expect(answer?.status()).toBe(404);
});

test('[R-2047] an auditor sees times and the proof of a run, and no contents', async () => {
  const page = await signedIn('cleo');
  await page.locator(`a[href*="${own.run}"]`).first().click();
  const text = await textOf(page);
  for (const content of [SUMMARY, 'patient-1', 'ben']) expect(text).not.toContain(content);
  expect(text).toContain(own.run);
  expect(await page.locator('a[href*="/proof/"]').count()).toBeGreaterThan(0);
});

test('[R-2048] [R-2044] break-glass needs a reason; the collector counts it and the access log has the reason', async () => {
  const page = await signedIn('ada');
  await page.goto(`${url.href}break-glass/runs`);
  await page.getByLabel(/reason/i).fill('The patient is in the emergency room.');
  await page.locator('main button').click();
  await page.waitForURL('**/break-glass/runs');
  expect(await textOf(page)).toContain('The patient is in the emergency room.');
  const look = looksIn(dataDir).find(({ command }) => command === 'viewer break-glass');
  expect(look).toMatchObject({ break_glass: true, actor: { name: 'ada', role: 'break-glass' } });
  const [, management] =
    /"port":(\d+),[^\n]*"msg":"management listening"/.exec(collector.output.stderr) ?? [];
  await expect
    .poll(async () => (await fetch(`http://127.0.0.1:${management}/metrics`)).text())
    .toMatch(/^collector_break_glass_total [1-9]/m);
});

test('[R-2049] hostile text is text: no script runs, nothing is requested, and marks show what hides', async () => {
  const page = await signedIn('ada');
  const before = complaints.length;
  for (const address of [
    `reviewer/runs/${hostile.run}?organisation=st-mary`,
    'reviewer/runs',
    'reviewer/report?show=1',
  ]) {
    const answer = await page.goto(url.href + address);
    expect(answer?.status()).toBe(200);
    expect(await page.title()).not.toBe('owned');
    expect(await page.locator('script, img, iframe, object, a[href^="javascript"]').count()).toBe(0);
    const text = await textOf(page);
    for (const hidden of ['\u202e', '\u001b', '\0']) expect(text).not.toContain(hidden);
  }
  await page.goto(`${url.href}reviewer/runs/${hostile.run}?organisation=st-mary`);
  const text = await textOf(page);
  expect(text).toContain('<script>document.title="owned"</script>');
  for (const mark of ['202E', '1B', 'U+0000']) expect(text).toContain(mark);
  expect(complaints.slice(before)).toEqual([]);
});

test('[R-2049] axe finds nothing on the pages of a role, narrow and wide, dark and light', async () => {
  const page = await signedIn('ada');
  const pages = ['reviewer/runs', `reviewer/runs/${own.run}?organisation=st-mary`, 'reviewer/report', ''];
  for (const colorScheme of ['light', 'dark'] as const)
    for (const width of [390, 1280]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 900 });
      for (const address of pages) {
        await page.goto(url.href + address);
        expect([address, width, colorScheme, await faultsOf(page)]).toEqual([
          address,
          width,
          colorScheme,
          [],
        ]);
        const wide = await page.evaluate('document.documentElement.scrollWidth');
        expect(wide).toBeLessThanOrEqual(width);
      }
    }
});

test('[R-2043] the collector answers who looked at the runs of a patient', async () => {
  const file = path.join(directory, 'patient.txt');
  fs.writeFileSync(file, 'patient-1\n');
  const { code, stdout } = await run(['access-log', '--data-dir', dataDir, '--subject-file', file]);
  expect(code).toBe(0);
  for (const word of ['ada', 'cleo', 'reviewer', 'auditor', 'viewer run']) expect(stdout).toContain(word);
  expect(stdout).not.toContain('patient-1');
});

test('[R-2046] a group that is taken away takes the role away within the session', async () => {
  const page = await signedIn('cleo');
  provider.accounts['cleo'] = { groups: [] };
  // The provider is asked again after five minutes of use; a new login asks at once.
  await page.context().clearCookies();
  const again = await signedIn('cleo');
  expect(await textOf(again)).toMatch(/no role/i);
  expect((await again.goto(`${url.href}auditor/runs`))?.status()).toBe(403);
});
