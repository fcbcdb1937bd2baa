// Generates sources of packages/protocol, then compiles every installed package into its dist/ with `tsc -b`, and
// writes the commit there.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { writeCommit } from './commit.mjs';

const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
const generate = ['packages/protocol/scripts/generate.mjs', '--sources'];
const generated = spawnSync(process.execPath, generate, { stdio: 'inherit' });
if (generated.status !== 0) process.exit(generated.status ?? 1);
const { workspaces } = JSON.parse(readFileSync('package.json', 'utf8'));
/** Whether the package is installed: scripts/setup.mjs leaves some out. */
function isInstalled(directory) {
  const { name } = JSON.parse(readFileSync(path.join(directory, 'package.json'), 'utf8'));
  return existsSync(path.join('node_modules', name));
}
const packages = workspaces.filter(isInstalled);
const { status } = spawnSync(process.execPath, [tsc, '-b', ...packages], { stdio: 'inherit' });
if (status === 0) writeCommit();
process.exit(status ?? 1);
