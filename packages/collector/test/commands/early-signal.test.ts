import fs from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { run, temporaryDirectory } from '../running/collector-process.js';

test.each(['SIGTERM', 'SIGINT'])('[R-609] %s before the collector listens ends it with 0', async (signal) => {
  const directory = temporaryDirectory();
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  const early = path.join(directory, 'early.mjs');
  // Once it handles signals and before it can have opened its ledger. A signal without a handler does not end the
  // first process of a container, so that a handler has to do it.
  fs.writeFileSync(
    early,
    `process.on('newListener', (name) => name === '${signal}' && setImmediate(() => process.kill(process.pid, name)));`,
  );
  const { code, stderr } = await run(['serve', '--port', '0', '--data-dir', path.join(directory, 'data')], {
    env: { NODE_OPTIONS: `--import=${early}` },
  });
  expect(code, stderr).toBe(0);
  expect(stderr).not.toContain('"listening"');
});
