import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { faultsOf } from '../../../test/accessibility.js';
import { launchBrowser } from '../../../test/chromium.js';
import { run, start, temporaryDirectory } from '../../collector/test/running/collector-process.js';
import { issueKey } from '../../collector/test/running/issued-keys.js';
import { reportPage } from '../src/page/report-page.js';
import { reported, type WantedRun } from './report-runs.js';

const scratch = temporaryDirectory();
const report = path.join(scratch, 'report.html');
const events = path.join(scratch, 'demo.ndjson');

/** Shorter texts occur in the page by chance. */
const LONG_ENOUGH = 8;

/** The texts of the demo's payloads, except the ids of models. */
function payloadTexts(): Set<string> {
  const texts = new Set<string>();
  const models = new Set<string>();
  const collect = (value: unknown, name: string) => {
    if (typeof value === 'string') {
      if (name === 'model_id') models.add(value);
      else if (value.length >= LONG_ENOUGH && name !== 'kind' && !name.endsWith('_type')) texts.add(value);
    } else if (typeof value === 'object' && value !== null) {
      for (const [member, inner] of Object.entries(value)) collect(inner, member);
    }
  };
  for (const line of fs.readFileSync(events, 'utf8').trimEnd().split('\n')) collect(JSON.parse(line), '');
  for (const model of models) texts.delete(model);
  return texts;
}

/** A string, because the tests are compiled without the types of a browser. */
function styleOf(page: Page, name: string, selector = 'body'): Promise<string> {
  return page.evaluate(`getComputedStyle(document.querySelector('${selector}')).getPropertyValue('${name}')`);
}

async function pagesOf(page: Page): Promise<number> {
  const pdf = await page.pdf({ preferCSSPageSize: true });
  return pdf.toString('latin1').match(/\/Type\s*\/Page\b/g)?.length ?? 0;
}

/** A call of the next model; some fail. */
function further(i: number, k: number) {
  const done = { ending: 'complete', usage: { input_tokens: 123_456, output_tokens: 789 } };
  const ended = k % 9 === 0 ? { ending: 'failed', status: 429 } : done;
  return { model: `model-of-${((i >> 1) + 1) % 8}`, version: '2.0.0', ended };
}

/** Two versions each, all kinds of findings, further calls, and events of no run. */
function eightModels(): WantedRun[] {
  const versions = Array.from({ length: 16 }, (_, i) => i);
  const runs = versions.flatMap((i): Omit<WantedRun, 'n'>[] => {
    const isNew = i % 2 === 1;
    return Array.from({ length: 40 }, (_, k) => ({
      ...{
        model: `model-of-${i >> 1}`,
        version: isNew ? '2.0.0' : '1.0.0',
        day: (isNew ? 12 : 0) + (k % 12),
      },
      outcomes: k % 5 === 0 ? [] : [k % (isNew ? 2 : 4) === 0 ? 'contradicted' : 'validated'],
      feedback: [{ feedback_type: 'thumbs', direction: k % 3 === 0 ? 'down' : 'up' }],
      latencyMs: k % 11 === 0 ? -500 : (isNew ? 900 : 300) + k,
      ...(k % 3 === 0 && { calls: [further(i, k)] }),
      ...(k % 13 === 0 && { withoutStart: true as const }),
      ...(k % 17 === 0 && { ofNoRun: true as const }),
    }));
  });
  return runs.map((run, i) => ({ ...run, n: i + 1 }));
}

describe('a report in a browser [R-715]', () => {
  let browser: Browser;

  beforeAll(async () => {
    const until = ['--until', '2026-06-01'];
    await run(['demo', '--runs', '600', '--days', '60', ...until, '--out', events]);
    const dataDir = path.join(scratch, 'data');
    const data = ['--data-dir', dataDir];
    fs.mkdirSync(dataDir, { mode: 0o700 });
    const { text } = await issueKey(dataDir, { organisation: 'demo' });
    const collector = await start(dataDir);
    const env = { COLLECTOR_URL: collector.url, COLLECTOR_KEY: text };
    await run(['import', events, '--organisation', 'demo'], { env });
    await collector.stop();
    const made = await run([
      ...['report', '--clock', 'sender', '--since', '2026-04-02', ...until, '--out', report, ...data],
    ]);
    expect(made.code, made.stderr).toBe(0);
    browser = await launchBrowser();
  });

  afterAll(async () => {
    await browser.close();
    fs.rmSync(scratch, { recursive: true, force: true });
  });

  /** @param seen collects the requests, messages and errors of the page. */
  async function opened(width: number, colorScheme: 'light' | 'dark', seen: string[] = []): Promise<Page> {
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
    page.on('request', (request) => seen.push(request.url()));
    page.on('console', (message) => seen.push(message.text()));
    page.on('pageerror', (error) => seen.push(error.message));
    await page.goto(pathToFileURL(report).href);
    return page;
  }

  test('makes no request, runs no script and has no error', async () => {
    const seen: string[] = [];
    const page = await opened(1280, 'light', seen);
    expect(seen).toEqual([pathToFileURL(report).href]);
    expect(await page.locator('script').count()).toBe(0);
    // The policy also stops a script that is added.
    await page.evaluate(`
      const script = document.createElement('script');
      script.textContent = 'document.title = "ran"';
      document.head.append(script);
    `);
    expect(await page.title()).not.toBe('ran');
    await page.close();
  });

  test('has landmarks, headings, captions, and a text for every chart', async () => {
    const page = await opened(1280, 'light');
    for (const landmark of ['banner', 'navigation', 'main', 'contentinfo'] as const) {
      expect(await page.getByRole(landmark).count(), landmark).toBe(1);
    }
    expect(await page.getByRole('heading', { level: 1 }).allTextContents()).toEqual(['Clinical AI in use']);
    const names = await page.getByRole('heading', { level: 2 }).allTextContents();
    expect(names).toEqual(expect.arrayContaining(['All runs', 'Each model', 'How it is counted']));
    const models = await page.getByRole('heading', { level: 3 }).allTextContents();
    expect(models).toEqual(expect.arrayContaining(['ct-triage', 'sepsis-abstractor']));
    expect(await page.locator('table:not(:has(caption))').count()).toBe(0);
    expect(await page.locator('th:not([scope])').count()).toBe(0);
    expect(
      await page.locator('svg:not([role=img][aria-label]):not([aria-hidden=true]):not(svg svg)').count(),
    ).toBe(0);
    for (const link of await page.locator('nav a').all()) {
      const target = (await link.getAttribute('href')) ?? '';
      expect(await page.locator(target).count(), target).toBe(1);
    }
    expect(await page.getByText('First seen on').count()).toBeGreaterThan(3);
    await page.close();
  });

  test('fits a narrow screen and has dark colours', async () => {
    const contrasts: string[] = [];
    for (const scheme of ['light', 'dark'] as const) {
      const page = await opened(390, scheme);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390);
      contrasts.push(`${await styleOf(page, 'color')} on ${await styleOf(page, 'background-color')}`);
      await page.close();
    }
    expect(contrasts).toEqual([
      'rgb(23, 33, 43) on rgb(255, 255, 255)',
      'rgb(230, 236, 240) on rgb(17, 23, 28)',
    ]);
  });

  test('the part on each model opens by the keyboard [R-715]', async () => {
    const page = await opened(1280, 'light');
    const part = page.locator('.model > details').first();
    const table = part.getByRole('table').first();
    expect(await page.locator('details[open]').count()).toBe(0);
    expect(await table.isVisible()).toBe(false);
    expect(await part.locator('summary').first().textContent()).toMatch(/\d runs, \d versions/);
    await part.locator('summary').first().focus();
    await page.keyboard.press('Enter');
    await table.waitFor();
    await page.close();
  });

  test('is accessible, closed and open [R-715]', async () => {
    for (const scheme of ['light', 'dark'] as const) {
      for (const width of [390, 1280]) {
        const page = await opened(width, scheme);
        expect(await faultsOf(page), `${scheme} ${width}`).toEqual([]);
        await page.evaluate('for (const each of document.querySelectorAll("details")) each.open = true');
        expect(await faultsOf(page), `${scheme} ${width}, open`).toEqual([]);
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
        await page.close();
      }
    }
  });

  test('for eight models takes four pages of paper, and more when one is open [R-715]', async () => {
    const page = await browser.newPage();
    await page.setContent(reportPage(reported(eightModels()), (options) => options.join(' ')));
    // One is for the runs without a known model.
    expect(await page.locator('.model').count()).toBe(9);
    expect(await page.locator('.findings .compared').count()).toBeGreaterThan(20);
    expect(await pagesOf(page)).toBeLessThanOrEqual(4);
    const pages = await pagesOf(page);
    await page.locator('.model summary').first().click();
    expect(await pagesOf(page)).toBeGreaterThan(pages);
    await page.close();
  });

  test('has no text of the events', () => {
    const page = fs.readFileSync(report, 'utf8');
    const texts = payloadTexts();
    expect(texts.size).toBeGreaterThan(5000);
    const shown = [...texts].filter((text) => page.includes(text));
    expect(shown).toEqual([]);
  });
});
