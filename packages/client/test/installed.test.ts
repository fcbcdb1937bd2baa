/** The client as an application elsewhere installs it, and what the READMEs show, against a real collector. */
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { applicationWith } from './running/installed-packages.js';
import { realCollector } from './running/real-collector.js';

const ROOT = path.resolve(import.meta.dirname, '../../..');
const run = promisify(execFile);

/** The first program of a README that makes a client. */
function programOf(readme: string): string {
  const programs = [...fs.readFileSync(path.join(ROOT, readme), 'utf8').matchAll(/^```js\n([^]*?)^```$/gm)];
  return programs.map(([, code = '']) => code).find((code) => code.includes('createClient(')) ?? '';
}

test('[R-1400] the packed client installs in an empty directory, and the programs of both READMEs run', async () => {
  const collector = await realCollector();
  const { url, apiKey } = collector;
  const directory = await applicationWith('protocol', 'client');
  for (const readme of ['README.md', 'packages/client/README.md']) {
    const code = programOf(readme);
    expect(code).toContain("'http://127.0.0.1:8080'");
    fs.writeFileSync(path.join(directory, 'app.mjs'), code.replace('http://127.0.0.1:8080', url));
    const ended = run(process.execPath, ['app.mjs'], {
      ...{ cwd: directory, env: { ...process.env, COLLECTOR_KEY: apiKey } },
    });
    ended.child.stdin?.end('How do I start metoprolol?\n');
    expect((await ended).stderr).toBe('');
  }
  const kinds = [...(await collector.stored()).values()].map((body) => {
    const event = JSON.parse(body) as Readonly<Record<string, unknown>>;
    return ['inputs', 'artifact', 'output', 'feedback'].find((field) => field in event);
  });
  expect(kinds.sort()).toEqual(['artifact', 'feedback', 'inputs', 'inputs', 'output', 'output']);
  const { stdout } = await run('npx', ['--offline', 'collector-spool', 'show', './spool', '--json'], {
    cwd: directory,
  });
  expect(JSON.parse(stdout)).toMatchObject({ waiting: 0 });
});
