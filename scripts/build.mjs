// Writes the generated sources of packages/protocol, then compiles every package into its dist/. Plain `tsc -b`:
// incremental, in dependency order.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
const generate = ['packages/protocol/scripts/generate.mjs', '--sources'];
const generated = spawnSync(process.execPath, generate, { stdio: 'inherit' });
if (generated.status !== 0) process.exit(generated.status ?? 1);
const { workspaces: packages } = JSON.parse(readFileSync('package.json', 'utf8'));
const { status } = spawnSync(process.execPath, [tsc, '-b', ...packages], { stdio: 'inherit' });
process.exit(status ?? 1);
