/** The tests of the client for Python that need its standard library alone. */
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { hasPython } from './python.js';

const CLIENT = path.resolve(import.meta.dirname, '../clients/python');
const MODULES = fs
  .readdirSync(path.join(CLIENT, 'tests'))
  .flatMap((name) => (/^test_\w+\.py$/.test(name) ? [name.slice(0, -'.py'.length)] : []));

test.runIf(hasPython).each(MODULES)('the Python client passes tests/%s.py', async (name) => {
  const args = ['-B', '-W', 'error::ResourceWarning', '-m', 'unittest', `tests.${name}`];
  // Failures are on standard error. Keys in the environment of the person who runs this are left out.
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'], TMPDIR: process.env['TMPDIR'] };
  const child = spawn('python3', args, { cwd: CLIENT, env, stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  expect(code, said).toBe(0);
});
