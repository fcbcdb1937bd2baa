/** The soak (bench/soak) at a low rate; nothing in it depends on how fast the machine is. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFailed, onTestFinished, test } from 'vitest';
import { runs } from './property-runs.js';
import { soak } from '../bench/soak/soak.mjs';

test('[R-601] a kill, a full disk, a new certificate and a revoked key under load lose nothing, and the console shows each', async () => {
  const scratch = mkdtempSync(path.join(tmpdir(), 'soak-test-'));
  onTestFinished(() => rmSync(scratch, { recursive: true, force: true }));
  const said: string[] = [];
  onTestFailed(() => console.error(said.join('\n')));
  const result = await soak({
    ...{ minutes: runs(10, 0.6), rate: 120, load: 1, connections: 16, scratch, timesCount: false },
    say: (text: string) => said.push(text),
  });
  const left = [
    result.browser ? '' : 'no browser could be started: the page itself was not looked at',
    result.disk.startsWith('a limit')
      ? 'nothing could be mounted: a limit on files stood in for a full disk'
      : '',
  ].filter((text) => text !== '');
  if (left.length > 0) console.warn(`\n*** LEFT OUT OF THE SOAK: ${left.join('; ')}\n`);
  const failed = result.checks.filter(({ ok, isNoGate = false }) => !ok && !isNoGate);
  expect(failed).toEqual([]);
  expect(result.checks.length).toBeGreaterThan(30);
  // At the least, each of it took place.
  expect(result.starts.map(({ code }) => code)).toEqual([null, 0]);
  expect(result.lives[2]?.refused).toMatchObject({
    key_revoked: expect.any(Number) as unknown,
    storage_unavailable: expect.any(Number) as unknown,
  });
  expect(result.ledger.acknowledged).toBeGreaterThan(1000);
  expect(result.console.compared).toBeGreaterThan(10);
});
