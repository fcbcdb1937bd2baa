/** The tests of the client for Python that need its standard library alone. */
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const CLIENT = path.resolve(import.meta.dirname, '../clients/python');
const MODULES = fs
  .readdirSync(path.join(CLIENT, 'tests'))
  .flatMap((name) => (/^test_\w+\.py$/.test(name) ? [name.slice(0, -'.py'.length)] : []));

const { status } = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 10))']);
if (status !== 0) console.log('skipped: there is no python3 of version 3.10 or newer');

test.runIf(status === 0).each(MODULES)('the Python client passes tests/%s.py', async (name) => {
  const args = ['-B', '-W', 'error::ResourceWarning', '-m', 'unittest', `tests.${name}`];
  // A test that fails says so on standard error; a key of whoever runs this is none of the client's.
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'], TMPDIR: process.env['TMPDIR'] };
  const child = spawn('python3', args, { cwd: CLIENT, env, stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  expect(code, said).toBe(0);
});
