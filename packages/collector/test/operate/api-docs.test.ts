import fs from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser, ConsoleMessage } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser } from '../../../../test/chromium.js';
import { oneCollector } from '../running/one-collector.js';
import { managementPort } from './managed.js';

const collector = oneCollector();
let browser: Browser;

beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser.close());

test('[R-831] a browser shows the interface only from files of the collector, within a strict policy', async () => {
  const origin = `http://127.0.0.1:${managementPort(collector.running)}`;
  const page = await browser.newPage();
  const elsewhere: string[] = [];
  const complaints: string[] = [];
  page.on('request', (request) => {
    if (!request.url().startsWith(origin) && !request.url().startsWith('data:'))
      elsewhere.push(request.url());
  });
  page.on('console', (message: ConsoleMessage) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  await page.goto(`${origin}/docs`);
  await page.getByText('/event/inference-start').first().waitFor();
  expect(await page.locator('.opblock').count()).toBe(5);
  await page.getByText('/event/inference-start').first().click();
  await page.getByText('event_id_conflict').first().waitFor();
  // Events are sent to another port, so there is nothing to try here.
  expect(await page.getByText('Try it out').count()).toBe(0);
  expect(await page.getByText('Authorize').count()).toBe(0);
  expect(elsewhere).toEqual([]);
  expect(complaints).toEqual([]);
});

test('[R-831] the interface is readable on a phone and in the dark, with an open operation', async () => {
  const axe = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  const page = await browser.newPage({ viewport: { width: 390, height: 900 } });
  await page.goto(`http://127.0.0.1:${managementPort(collector.running)}/docs`);
  await page.getByText('/event/outcome').first().click();
  await page.getByText('event_id_conflict').first().waitFor();
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390);
  const ground = () => page.evaluate('getComputedStyle(document.documentElement).backgroundColor');
  const light = await ground();
  await page.emulateMedia({ colorScheme: 'dark' });
  await expect.poll(ground).not.toBe(light);
  // Swagger UI lets its colours change slowly: between two themes the text is unreadable for a moment.
  await page.evaluate('Promise.allSettled(document.getAnimations().map(({ finished }) => finished))');
  const contrast = `axe.run({ runOnly: ['color-contrast'] }).then(({ violations }) =>
    violations.flatMap(({ nodes }) => nodes.map(({ html }) => html)))`;
  expect(await page.evaluate(`${axe}; ${contrast}`)).toEqual([]);
});
