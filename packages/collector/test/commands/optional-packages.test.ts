import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { temporaryDirectory } from '../running/collector-process.js';

const PACKAGE = path.resolve(import.meta.dirname, '../..');
const MODULES = path.resolve(PACKAGE, '../../node_modules');
/** What `collector` finds where no optional package is installed. */
const installation = temporaryDirectory();
const modules = path.join(installation, 'node_modules');
const collector = (...args: readonly string[]) =>
  spawnSync(process.execPath, [path.join(modules, '@clinical-events/collector/dist/main.js'), ...args], {
    encoding: 'utf8',
  });

beforeAll(() => {
  const own = path.join(modules, '@clinical-events/collector');
  fs.cpSync(path.join(PACKAGE, 'dist'), path.join(own, 'dist'), { recursive: true });
  fs.copyFileSync(path.join(PACKAGE, 'package.json'), path.join(own, 'package.json'));
  fs.symlinkSync(path.resolve(PACKAGE, '../protocol'), path.join(modules, '@clinical-events/protocol'));
  for (const name of fs.readdirSync(MODULES)) {
    if (name === '@clinical-events' || name.startsWith('.')) continue;
    fs.symlinkSync(path.join(MODULES, name), path.join(modules, name));
  }
});

afterAll(() => fs.rmSync(installation, { recursive: true, force: true }));

test('[R-1400] the help lists commands whose package is missing', () => {
  const { status, stdout } = collector('--help');
  expect(status).toBe(0);
  for (const name of ['store', 'mirror', 'report', 'demo'])
    expect(stdout).toMatch(new RegExp(`^  ${name} +\\S`, 'm'));
});

const STORE = 'postgres://collector@localhost/collector';

test.each([
  ['', ['store', 'check', '--store', STORE]],
  ['', ['mirror', '--help']],
  ['--store: ', ['serve', '--store', STORE]],
  ['--store: ', ['verify', '--store', STORE]],
  ['--store: ', ['keys', 'list', '--store', STORE]],
] as const)(
  '[R-1400] a missing package is reported in one sentence, with exit code 2: %s%j',
  (option, args) => {
    const { status, stdout, stderr } = collector(...args);
    expect([status, stdout]).toEqual([2, '']);
    expect(stderr).toBe(
      `collector: ${option}this needs the package @clinical-events/postgres, which is not installed: ` +
        'install it beside the collector, or use the server bundle of a release, which has it\n',
    );
  },
);

test('[R-1400] without the demo, which is not on npm, the message names the server bundle alone', () => {
  const { status, stderr } = collector('demo');
  expect(status).toBe(2);
  expect(stderr).toBe(
    'collector: this needs the package @clinical-events/demo, which is not installed: ' +
      'use the server bundle of a release, which has it\n',
  );
});

test('[R-1400] in a clone, the message of a missing package names the command that installs it', () => {
  const clone = path.join(installation, 'clone');
  const at = path.join(clone, 'packages/collector');
  fs.cpSync(path.join(modules, '@clinical-events/collector'), at, { recursive: true });
  fs.symlinkSync(modules, path.join(clone, 'node_modules'));
  fs.mkdirSync(path.join(clone, 'scripts'));
  fs.writeFileSync(path.join(clone, 'scripts/setup.mjs'), '');
  const { stderr } = spawnSync(process.execPath, [path.join(at, 'dist/main.js'), 'demo'], {
    encoding: 'utf8',
  });
  expect(stderr).toBe(
    'collector: this needs the package @clinical-events/demo, which is not installed: ' +
      'run node scripts/setup.mjs --all\n',
  );
});
