import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launchBrowser } from '../../../../test/chromium.js';
import type { ProofVerdict } from '../../src/verify/index.js';
import { sampleCheckpoint, sampleEvent, sampleEvents, sampleKey, sampleProof } from './sample-log.js';

const DIST = new URL('../../dist/', import.meta.url);
const PAGE = `<!doctype html><script type="module">
  import * as verifier from '/verify/index.js';
  globalThis.verifier = verifier;
</script>`;
const MODULE = /^\/([a-z-]+\/)?[a-z0-9-]+\.js$/;

/** Serves the built package, as it is published, and a page that imports the verifier. */
function serveDist(): Server {
  return createServer((request, response) => {
    const url = request.url ?? '/';
    if (url === '/') {
      response.setHeader('Content-Type', 'text/html').end(PAGE);
    } else if (MODULE.test(url)) {
      readFile(new URL(`.${url}`, DIST)).then(
        (source) => response.setHeader('Content-Type', 'text/javascript').end(source),
        () => response.writeHead(404).end(),
      );
    } else {
      response.writeHead(404).end();
    }
  });
}

interface Given {
  readonly proof: string;
  readonly body: string;
  readonly keys: readonly string[];
}

/** Runs in the page. */
async function checkInPage({ proof, body, keys }: Given): Promise<string> {
  const { verifier } = globalThis as unknown as { verifier: typeof import('../../src/verify/index.js') };
  return JSON.stringify(await verifier.checkProof({ proof, body: new TextEncoder().encode(body), keys }));
}

describe('the verifier in a browser', () => {
  const server = serveDist();
  let browser: Browser;
  let address: string;

  beforeAll(async () => {
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    browser = await launchBrowser();
  });

  afterAll(async () => {
    await browser.close();
    await new Promise((closed) => server.close(closed));
  });

  async function verdictOf(given: Given): Promise<ProofVerdict> {
    const page = await browser.newPage();
    await page.goto(address);
    const verdict = JSON.parse(await page.evaluate(checkInPage, given)) as ProofVerdict;
    await page.close();
    return verdict;
  }

  const events = sampleEvents(5);
  const key = sampleKey();
  const proof = sampleProof(events, 2, sampleCheckpoint(events, key));
  const body = sampleEvent(2).body.toString();
  const keys = [key.vkey];

  it('[R-908] proves an event that is in the log', async () => {
    expect(await verdictOf({ proof, body, keys })).toMatchObject({
      valid: true,
      index: 2,
      signedBy: key.vkey,
    });
  });

  it('[R-908] refuses a body with one character changed', async () => {
    const changed = body.replace('09:31:44', '09:31:45');
    expect(await verdictOf({ proof, body: changed, keys })).toMatchObject({ reason: 'event-differs' });
  });

  it('[R-908] refuses a checkpoint with a forged signature', async () => {
    const forged = proof.replace('\n5\n', '\n4\n');
    expect(await verdictOf({ proof: forged, body, keys })).toMatchObject({ reason: 'signature-forged' });
  });
});
