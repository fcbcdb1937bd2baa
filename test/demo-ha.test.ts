/** `npm run demo:ha`: acknowledged events survive the loss of the primary. */
import { spawn } from 'node:child_process';
import path from 'node:path';
import { expect, test } from 'vitest';

test('[R-1250] the demonstration loses and doubles no event, and log and mirror are intact', async () => {
  const script = path.resolve(import.meta.dirname, '../scripts/demo-ha.mjs');
  const child = spawn(process.execPath, [script, '--seconds', '2', '--json'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [out, log] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (log += text));
  const code = await new Promise((resolve) => child.on('close', resolve));
  expect(log).toBe('');
  const result = JSON.parse(out) as Record<string, number>;
  expect(result).toMatchObject({ lost: 0, doubled: 0, intact: [true, true] });
  expect(result['since_failover']).toBeGreaterThan(0);
  expect(result['stored']).toBeGreaterThanOrEqual(result['acknowledged'] ?? Infinity);
  expect(code).toBe(0);
});
