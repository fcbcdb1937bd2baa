/** The console in a real browser, before a real collector. */
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { faultsOf } from '../../../../../test/accessibility.js';
import { launchBrowser } from '../../../../../test/chromium.js';
import { freePort } from '../../../../../test/free-port.js';
import type { ConsoleState } from '../../../src/operate/console/console-state.js';
import { get, managementPort } from '../managed.js';
import { start, temporaryDirectory } from '../../running/collector-process.js';
import { issueKey } from '../../running/issued-keys.js';
import { post } from '../../running/load.js';
import { oneCollector } from '../../running/one-collector.js';
import { sampleEvent } from '../../running/sample-events.js';
import { busy, fresh, wrong } from './sample-state.js';

const HOSTILE = `"><img src=x onerror="document.title='taken'"><script>alert(1)</script>&lt;b&gt;`;
/** Some looks of the page. */
const collector = oneCollector([], async (dataDir) => {
  await issueKey(dataDir, { note: HOSTILE, organisation: 'a-clinic' });
});
let browser: Browser;

beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser.close());

interface Opened {
  readonly page: Page;
  /** What the browser found wrong, and what it asked for elsewhere. */
  readonly complaints: string[];
}

/** @param state the state that the page gets instead of the collector's own. */
async function open(
  url: string,
  options: BrowserContextOptions = {},
  state?: () => ConsoleState,
): Promise<Opened> {
  const context = await browser.newContext(options);
  onTestFinished(() => context.close());
  if (state !== undefined)
    await context.route('**/console/state.json', (route) => route.fulfill({ json: state() }));
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('dialog', (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    dialog.dismiss().catch(() => undefined);
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(new URL(url).origin) && !request.url().startsWith('data:'))
      complaints.push(`request: ${request.url()}`);
  });
  await page.goto(url);
  return { page, complaints };
}

const origin = () => `http://127.0.0.1:${managementPort(collector.running)}`;
const isLive = (page: Page) => page.getByText('live', { exact: true }).waitFor();

/** The console as it shows this state. */
async function openWith(state: () => ConsoleState, options: BrowserContextOptions = {}): Promise<Page> {
  const { page } = await open(`${origin()}/console`, options, state);
  await page.getByText(`version ${state().version}`).waitFor();
  await page.getByText('live', { exact: true }).waitFor();
  return page;
}

/** A row of a table by its heading, its cells in plain spaces. */
async function cells(page: Page, heading: string): Promise<string[]> {
  const row = page.locator('tr', { has: page.getByRole('rowheader', { name: heading, exact: true }) });
  const texts = await row.first().getByRole('cell').allInnerTexts();
  return texts.map((text) => text.replaceAll('\u00a0', ' ').trim());
}

test('[R-835] the console updates the accepted and refused events by itself', async () => {
  const { page, complaints } = await open(origin());
  await isLive(page);
  expect(await page.title()).not.toBe('taken');
  await page.evaluate('globalThis.sameDocument = true');
  const sent: Readonly<Record<EventKind, number>> = {
    ...{ 'inference-start': 7, 'internal-artifact': 5, 'human-output': 4 },
    ...{ outcome: 3, 'user-feedback': 1 },
  };
  const { port, key } = collector;
  for (const kind of EVENT_KINDS) {
    for (let i = 0; i < sent[kind]; i++)
      expect((await post(port, key, JSON.stringify(sampleEvent(kind)), { kind })).status).toBe(201);
  }
  const twice = JSON.stringify(sampleEvent());
  for (let i = 0; i < 2; i++) expect((await post(port, key, twice)).status).toBe(201);
  for (let i = 0; i < 6; i++) await post(port, 'nobody', '{}');
  for (let i = 0; i < 2; i++) await post(port, key, '{}');
  await expect.poll(() => cells(page, 'outcome')).toEqual(['5', '23 %']);
  await expect.poll(() => cells(page, 'validation_failed')).toEqual(['2', '25 %']);
  expect(await cells(page, 'inference-start')).toEqual(['7', '32 %']);
  expect(await cells(page, 'user-feedback')).toEqual(['1', '4.5 %']);
  expect(await cells(page, 'key_invalid')).toEqual(['6', '75 %']);
  await page.getByText('1 repeat of stored events included').waitFor();
  await expect.poll(() => page.locator('#overview').innerText()).toMatch(/Events stored\s+21\s/);
  await expect
    .poll(() =>
      page.evaluate("[...document.querySelectorAll('.plot path')].map((path) => path.getAttribute('d'))"),
    )
    .toEqual(Array.from({ length: 4 }, () => expect.stringMatching(/^M.*\d$|Z$/) as unknown));
  // The sending key is shown as used, and the other one with its note as written.
  const keyId = key.slice(4, 16);
  await expect.poll(async () => (await cells(page, keyId)).slice(4, 5)).toEqual(['24']);
  expect(await page.getByText(HOSTILE, { exact: true }).count()).toBe(1);
  expect(await page.locator('img, #console script').count()).toBe(0);
  expect(await page.evaluate('globalThis.sameDocument')).toBe(true);
  expect(complaints).toEqual([]);
});

test('[R-835] the page may load only its own files, by a strict policy', async () => {
  for (const at of ['/', '/console']) {
    const { status, headers, body } = await get(managementPort(collector.running), at);
    expect([status, headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expect(headers['content-security-policy']).toMatch(
      /^default-src 'none'; script-src 'self'; style-src 'self'/,
    );
    expect(headers['content-security-policy']).not.toContain('unsafe');
    // Nothing inline, and nothing by an absolute address.
    expect(body).not.toMatch(/ style=| on\w+="|<style|https?:\/\/(?!www\.w3\.org)/);
  }
});

test('[R-835] without scripts the numbers are shown, and the page is reloaded', async () => {
  await post(collector.port, collector.key, JSON.stringify(sampleEvent('human-output')), {
    kind: 'human-output',
  });
  await sleep(300);
  const { page, complaints } = await open(origin(), { javaScriptEnabled: false });
  const [number] = await cells(page, 'human-output');
  expect(Number(number)).toBeGreaterThanOrEqual(1);
  expect(await page.locator('noscript meta[http-equiv=refresh]').count()).toBe(1);
  await page.getByText(/^as of \d\d:\d\d:\d\d UTC$/).waitFor();
  expect(complaints).toEqual([]);
});

test('[R-835] when the collector is down the page keeps its content, says since when, and recovers', async () => {
  const dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
  const { text: key } = await issueKey(dataDir);
  const args = ['--management-port', String(await freePort())];
  const first = await start(dataDir, args);
  onTestFinished(() => first.kill());
  const { page } = await open(`http://127.0.0.1:${managementPort(first)}`);
  await post(first.port, key, JSON.stringify(sampleEvent()));
  await expect.poll(() => cells(page, 'outcome')).toEqual(['1', '100 %']);
  await first.kill();
  const status = page.getByRole('status');
  await expect.poll(() => status.innerText()).toMatch(/^No answer since \d\d:\d\d:\d\d/);
  expect(await page.title()).toMatch(/^No answer/);
  expect(await page.locator('.page.stale').count()).toBe(1);
  expect(await cells(page, 'outcome')).toEqual(['1', '100 %']);
  const second = await start(dataDir, args);
  onTestFinished(() => second.kill());
  await expect.poll(() => status.innerText()).toMatch(/^Taking events/);
  expect(await page.locator('.page.stale').count()).toBe(0);
  expect(await page.locator('#accepted').innerText()).toContain('No requests.');
  expect(await page.locator('#overview').innerText()).toMatch(/Events stored\s+1\s/);
});

test('[R-835] a browser with the operator token sees the console, another one does not', async () => {
  const directory = temporaryDirectory();
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  const token = randomBytes(24).toString('base64url');
  const file = path.join(directory, 'token');
  fs.writeFileSync(file, token, { mode: 0o600 });
  const guarded = await start(path.join(directory, 'data'), ['--management-token-file', file]);
  onTestFinished(() => guarded.kill());
  const port = managementPort(guarded);
  const { page, complaints } = await open(`http://127.0.0.1:${port}/console`, {
    httpCredentials: { username: 'operator', password: token },
  });
  await isLive(page);
  expect(complaints.filter((complaint) => !complaint.includes('401'))).toEqual([]);
  for (const at of ['/', '/console', '/console/live.js', '/console/console.css', '/console/state.json'])
    expect((await get(port, at)).status, at).toBe(401);
});

test('[R-835] a hidden tab sends no requests, and sends one at once when it is visible', async () => {
  const { page } = await open(origin());
  await isLive(page);
  let asked = 0;
  page.on('request', () => asked++);
  const hide = (hidden: boolean) =>
    page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${hidden}, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));`);
  await hide(true);
  // One may have been under way. A tab that continued would send one each second, and this would not end.
  for (let before = -1; asked !== before;) {
    before = asked;
    await sleep(2500);
  }
  asked = 0;
  const since = performance.now();
  await hide(false);
  await expect.poll(() => asked).toBeGreaterThan(0);
  await sleep(2000);
  expect(asked).toBeLessThanOrEqual(2 + (performance.now() - since) / 1000);
});

test('[R-835] opened details and the focus remain while the page is updated', async () => {
  let accepted = 1200;
  const state = () => {
    const { traffic } = busy();
    return wrong(8, { traffic: { ...traffic, accepted_per_second: accepted } });
  };
  const page = await openWith(state);
  await page.locator('.hints summary, .alert summary').first().click();
  const scrolled = page.locator('#keys .scroll');
  await scrolled.focus();
  accepted = 1300;
  await page.getByText('1,300').first().waitFor();
  expect(await page.locator('.alert details[open]').count()).toBe(1);
  expect(await scrolled.evaluate((element) => element === element.ownerDocument.activeElement)).toBe(true);
});

describe('[R-835] on every screen, in both themes', () => {
  test.each([
    ['a busy collector', busy],
    ['a new collector', fresh],
    ['a collector with every fault', () => wrong(8)],
  ])('%s is accessible', async (_name, state) => {
    const page = await openWith(state);
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      for (const width of [390, 1440]) {
        await page.setViewportSize({ width, height: 900 });
        expect(await faultsOf(page), `${colorScheme} ${width}`).toEqual([]);
      }
    }
  });

  test('a page that stays open loads the script of a new build', async () => {
    let build = { version: '1.0.0', commit: 'a'.repeat(40) };
    const page = await openWith(() => busy(build));
    for (const change of [{ version: '1.0.1' }, { commit: 'b'.repeat(40) }]) {
      await page.evaluate('globalThis.sameDocument = true');
      build = { ...build, ...change };
      await page.getByText(`version 1.0.1, commit ${build.commit.slice(0, 12)}`).waitFor();
      expect(await page.evaluate('globalThis.sameDocument')).toBeUndefined();
    }
  });
});
