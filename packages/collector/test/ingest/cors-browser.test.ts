/** What a real browser lets a page do, which is what CORS is for. */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser } from '../../../../test/chromium.js';
import { oneCollector } from '../running/one-collector.js';
import { sampleEvent } from '../running/sample-events.js';

/** Two origins: the same host on two ports. Both ports are taken before the collector is told of one. */
const [named, other] = [1, 2].map(() =>
  http.createServer((_request, response) => response.setHeader('Content-Type', 'text/html').end('<p>a page')),
) as [http.Server, http.Server];
const originOf = (server: http.Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
for (const server of [named, other]) {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
}
const collector = oneCollector(['--cors-origins', originOf(named)]);
let browser: Browser;

beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(async () => {
  await browser.close();
  for (const server of [named, other]) server.close();
});

/** What the script of a page at this origin gets to know of its request. */
async function fetched(origin: string, key: string, body: string): Promise<unknown> {
  const page = await browser.newPage();
  await page.goto(origin);
  const script = async ([url, apiKey, text]: readonly [string, string, string]) => {
    const headers = { 'Content-Type': 'application/json', 'X-API-Key': apiKey };
    try {
      const answer = await fetch(url, { method: 'POST', headers, body: text });
      return [answer.status, await answer.json()] as unknown;
    } catch {
      return 'kept from it';
    }
  };
  const result = await page.evaluate(script, [`${collector.running.url}/event/outcome`, key, body] as const);
  await page.close();
  return result;
}

test('a page of an origin that is named sends events and reads the answers [R-824]', async () => {
  const origin = originOf(named);
  expect(await fetched(origin, collector.key, JSON.stringify(sampleEvent()))).toEqual([
    201,
    { status: 'accepted' },
  ]);
  expect(await fetched(origin, 'cek', '{}')).toMatchObject([401, { code: 'key_invalid' }]);
  expect(await fetched(origin, collector.key, '{}')).toMatchObject([400, { code: 'validation_failed' }]);
});

test('a page of another origin is kept from it by the browser [R-824]', async () => {
  expect(await fetched(originOf(other), collector.key, JSON.stringify(sampleEvent()))).toBe('kept from it');
});
