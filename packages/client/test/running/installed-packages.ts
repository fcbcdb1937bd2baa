/** Our packages as an application elsewhere installs them. */
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '../../../..');
const run = promisify(execFile);

/** What the client depends on, packed from this checkout. */
const DEPENDENCY = './node_modules/aws4fetch';

/** An empty directory into which these were packed and installed, without a registry. */
export async function applicationWith(...names: readonly string[]): Promise<string> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'installed-'));
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  const workspaces = names.flatMap((name) => ['-w', `packages/${name}`]);
  // The build is done before this test: a set-up would install into this checkout.
  const packed = ['--silent', '--ignore-scripts', ...workspaces, '--pack-destination', directory];
  await run('npm', ['pack', ...packed], { cwd: ROOT });
  await run('npm', ['pack', '--silent', '--ignore-scripts', DEPENDENCY, '--pack-destination', directory], {
    cwd: ROOT,
  });
  const tarballs = fs.readdirSync(directory).map((name) => `./${name}`);
  expect(tarballs).toHaveLength(names.length + 1);
  const quiet = ['--no-audit', '--no-fund', '--cache', path.join(directory, 'cache')];
  await run('npm', ['install', '--offline', ...quiet, ...tarballs], { cwd: directory });
  return directory;
}
