/** The pages as a real browser reads them, under their own headers. */
import fs from 'node:fs';
import fc from 'fast-check';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { faultsOf } from '../../../../test/accessibility.js';
import { launchBrowser } from '../../../../test/chromium.js';
import { runs } from '../../../../test/property-runs.js';
import { parseExact } from '../../../collector/src/records/raw-json.js';
import { anyRun } from '../../../collector/test/records/any-run.js';
import { REPORT_HEADERS, SECURITY_HEADERS } from '../../src/pages/headers.js';
import type { MadePage } from '../../src/pages/page-types.js';
import { logPages, peoplePages } from '../../src/pages/pages.js';
import { marked } from '../../src/pages/text.js';
import { textOfMarkup } from './markup.js';
import {
  demoRuns,
  foundRun,
  frame,
  HOSTILE,
  PROOF,
  reportShown,
  runOfText,
  runShown,
  runsShown,
} from './sample.js';

let browser: Browser;
beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser.close());

const OPEN_ALL = `document.querySelectorAll('.viewer details').forEach((each) => (each.open = true))`;
const STYLE = fs.readFileSync(new URL('../../src/pages/viewer.css', import.meta.url), 'utf8');
const ORIGIN = 'http://localhost';

/** @returns the page, and what the browser refused or asked for besides it. */
async function open(
  made: MadePage,
  options: BrowserContextOptions = {},
): Promise<{ page: Page; complaints: string[] }> {
  const context = await browser.newContext(options);
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => complaints.push(message.text()));
  page.on('dialog', (dialog) => {
    complaints.push(dialog.message());
    dialog.dismiss().catch(() => undefined);
  });
  const headers = { ...SECURITY_HEADERS, ...made.headers };
  await page.route('**/*', (route) => {
    const url = route.request().url();
    if (url === `${ORIGIN}/viewer.css`) return route.fulfill({ contentType: 'text/css', body: STYLE });
    if (url !== `${ORIGIN}/page`) complaints.push(url);
    return route.fulfill({
      headers: { ...headers, 'Content-Type': 'text/html; charset=utf-8' },
      body: made.html,
    });
  });
  await page.goto(`${ORIGIN}/page`);
  return { page, complaints };
}

const found = demoRuns();
const [anyFound = runOfText('')] = found.filter(({ summary }) => summary.feedback.survey > 0);
const person = { name: 'reviewer-7', signOutToken: 'token' };
const PAGES: Readonly<Record<string, MadePage>> = {
  'the list': logPages.runs(runsShown('reviewer', found.slice(0, 20))),
  'an empty list': logPages.runs(runsShown('clinician', [], { list: { runs: [], hasMore: false } })),
  'the runs of a person': logPages.runs(
    runsShown('break-glass', found.slice(0, 3), { form: { target: 'patient-0010' }, page: 2 }),
  ),
  'a refused filter': logPages.runs(
    runsShown('auditor', [], { list: undefined, problem: 'since: not a time' }),
  ),
  'a run': logPages.run(runShown('reviewer', anyFound)),
  'a run for an auditor': logPages.run(runShown('auditor', anyFound)),
  'a hostile run': logPages.run(runShown('break-glass', runOfText(HOSTILE))),
  'a proof': logPages.proof({ ...frame('reviewer'), proof: PROOF, organisation: 'st-anne-hospital' }),
  'a report': logPages.report(reportShown()),
  'the form of a report': logPages.report(reportShown({ numbers: undefined })),
  'a refusal': logPages.refusal({
    ...frame('reviewer'),
    title: 'No such run',
    sentences: ['There is none.'],
  }),
  'signing in': { html: peoplePages.signIn({ how: 'oidc', provider: 'login.example', problem: 'Too late' }) },
  'signing in by a link': { html: peoplePages.signIn({ how: 'link', token: 'token' }) },
  roles: {
    html: peoplePages.roles({
      ...person,
      roles: [
        {
          role: 'reviewer',
          path: '/reviewer/runs',
          organisations: ['north-clinic'],
          applications: undefined,
        },
      ],
      notes: ['You are not a clinician here: your login states no id of a caller.'],
    }),
  },
  'break-glass': {
    html: peoplePages.breakGlass({
      ...{
        ...person,
        formToken: 'token',
        problem: 'The reason is too short.',
        reason: '\nshort',
        minutes: 15,
      },
      ...{ leastCharacters: 10, mostCharacters: 500, grantedUntil: '2026-11-24T08:29:00Z' },
    }),
  },
  'a message': {
    html: peoplePages.message({ title: 'Signed out', sentences: ['You signed out.'], link: 'sign-in' }),
  },
};

describe('[R-2049] every page, to people with and without aids', () => {
  test.each(Object.keys(PAGES))('%s', async (name) => {
    const made = PAGES[name] as MadePage;
    for (const [width, colorScheme] of [
      [1280, 'light'],
      [390, 'light'],
      [1280, 'dark'],
      [390, 'dark'],
    ] as const) {
      const { page, complaints } = await open(made, { viewport: { width, height: 800 }, colorScheme });
      await page.evaluate(OPEN_ALL);
      expect(await faultsOf(page)).toEqual([]);
      expect(complaints).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
      expect(await page.evaluate('document.querySelectorAll("h1").length')).toBe(1);
    }
  });

  test('the keyboard reaches the contents first, and each part of a run opens by it', async () => {
    const { page } = await open(PAGES['a run'] as MadePage);
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to the contents');
    await page.keyboard.press('Enter');
    expect(await page.evaluate('document.activeElement.id')).toBe('main');
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.localName')).toBe('summary');
    await page.keyboard.press('Enter');
    expect(await page.evaluate('document.activeElement.parentElement.open')).toBe(true);
  });
});

/** The elements of a document without marks, and the names of all attributes. */
const OUTLINE = `(html) => {
  const parsed = new DOMParser().parseFromString(html, 'text/html');
  for (const mark of parsed.querySelectorAll('.mark')) mark.replaceWith('');
  const all = [...parsed.querySelectorAll('*')];
  return {
    elements: all.map(({ localName }) => localName).join(' '),
    attributes: [...new Set(all.flatMap((each) => each.getAttributeNames()))].sort(),
  };
}`;
interface Outline {
  readonly elements: string;
  readonly attributes: readonly string[];
}
const ATTRIBUTES = new Set(
  (
    'action aria-current aria-describedby aria-label aria-labelledby autocapitalize autocomplete charset class content ' +
    'data-name datetime dir href id label lang list method name rel role scope spellcheck start tabindex type value selected'
  ).split(' '),
);

function outlineOf(page: Page, html: string): Promise<Outline> {
  return page.evaluate(`(${OUTLINE})(${JSON.stringify(html)})`);
}

describe('[R-2049] text is never markup', () => {
  // As long as the hostile text, and with half a character, which the record remarks on.
  const harmless = 'x'.repeat(HOSTILE.length - 1) + '\ud800';

  test.each([
    ['a run', (text: string) => logPages.run(runShown('reviewer', runOfText(text)))],
    [
      'a list',
      (text: string) =>
        logPages.runs(runsShown('reviewer', [runOfText(text)], { form: { target: text, model: text } })),
    ],
    [
      'a refusal',
      (text: string) => logPages.refusal({ ...frame('reviewer'), title: text, sentences: [text] }),
    ],
  ])('hostile texts give %s with the elements of harmless ones', async (_, made) => {
    const { page, complaints } = await open(made(HOSTILE));
    const hostile = await outlineOf(page, made(HOSTILE).html);
    expect(hostile).toEqual(await outlineOf(page, made(harmless).html));
    expect(hostile.attributes.filter((name) => !ATTRIBUTES.has(name))).toEqual([]);
    expect(await page.locator('script, img, style, iframe, object').count()).toBe(0);
    expect(complaints).toEqual([]);
    const text = await page.locator('body').innerText();
    expect(text).toContain('<script>alert(1)</script>');
    for (const mark of ['U+202E', 'U+200B', 'U+0000', 'U+001B', 'U+2028', 'U+061C U+200E U+2066'])
      expect(text).toContain(mark);
    const links: string[] = await page.evaluate('[...document.links].map((link) => link.href)');
    for (const link of links) expect(link).toMatch(/^http:\/\/localhost\//);
  });

  test('any run is a document with all that was sent, and without unexpected elements', async () => {
    const { page } = await open({ html: '<!doctype html><title>empty</title>' });
    await fc.assert(
      fc.asyncProperty(anyRun, async (sent) => {
        const { html } = logPages.run(runShown('reviewer', foundRun(sent.map(({ event }) => event))));
        const { elements, attributes } = await outlineOf(page, html);
        expect(elements).not.toMatch(/\b(?:script|img|style|iframe|object|svg|base)\b/);
        expect(attributes.filter((name) => !ATTRIBUTES.has(name))).toEqual([]);
        const text: string = await page.evaluate(
          `new DOMParser().parseFromString(${JSON.stringify(html)}, 'text/html').body.textContent`,
        );
        for (const { text: body, event } of sent) {
          if (event.body === undefined) continue;
          for (const leaf of leavesOf(parseExact(body)))
            if (!isShown(text, leaf)) throw new Error(`${leaf} of ${body}`);
        }
      }),
      { numRuns: runs(300) },
    );
  });
});

/** The members of an event that the page shows in words of its own. */
const IN_WORDS = new Set(
  (
    'event_id run_id parent_event_id timestamp protocol_version system_metadata model_instance user_identity ' +
    'target_identity inputs artifact output outcome feedback'
  ).split(' '),
);
const IDS = /^(?:event|run|parent_event)_id$/;

/** Names and values of an event, apart from its ids. */
function leavesOf(value: unknown, isEvent = true): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return [JSON.stringify(value)];
  if (Array.isArray(value)) return value.flatMap((each) => leavesOf(each, false));
  return Object.entries(value).flatMap(([name, inner]) => {
    if (isEvent && IDS.test(name)) return [];
    return [...(isEvent && IN_WORDS.has(name) ? [] : [name]), ...leavesOf(inner, false)];
  });
}

/** As a text of its own, or as a part of a JSON text. */
function isShown(text: string, leaf: string): boolean {
  const whole = leaf.toWellFormed();
  return [whole, JSON.stringify(whole).slice(1, -1)].some((each) =>
    text.includes(textOfMarkup(marked(each).text)),
  );
}

describe('[R-2049] on paper', () => {
  test('everything is open, and navigation and forms are left out', async () => {
    const { page } = await open(PAGES['a hostile run'] as MadePage);
    await page.emulateMedia({ media: 'print' });
    const seen = (selector: string): Promise<boolean[]> =>
      page.evaluate(`[...document.querySelectorAll('${selector}')].map((each) =>
        each.checkVisibility({ contentVisibilityAuto: true }) && each.getBoundingClientRect().height > 0)`);
    expect(new Set(await seen('.long .text, .origin .facts, .alarm, .on-paper'))).toEqual(new Set([true]));
    expect(new Set(await seen('nav, form, .off-paper, .skip'))).toEqual(new Set([false]));
    expect(await page.locator('.on-paper').innerText()).toMatch(
      /Shown to reviewer-7@st-anne\.example as break-glass on \d+ \w+ \d{4}, /,
    );
  });
});

test('[R-2049] the policy of each page refuses scripts, and that of a report adds its style alone', () => {
  for (const headers of [SECURITY_HEADERS, REPORT_HEADERS]) {
    const policy = headers['Content-Security-Policy'] ?? '';
    expect(policy).toMatch(/^default-src 'none'; style-src 'self'/);
    expect(policy).toContain("form-action 'self'; base-uri 'none'; frame-ancestors 'none'; img-src 'none'");
    expect(policy).not.toMatch(/script-src|unsafe/);
  }
  expect(SECURITY_HEADERS).toMatchObject({
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'no-referrer',
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
  });
});
