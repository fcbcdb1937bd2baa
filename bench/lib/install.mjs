/** Installs what the peers need into bench/node_modules, when that is not what the lock file says. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';

const BENCH = path.dirname(import.meta.dirname);
const STAMP = path.join(BENCH, 'node_modules', '.bench-stamp');

export function installPeers() {
  const hash = createHash('sha256');
  for (const name of ['package.json', 'package-lock.json'])
    hash.update(fs.readFileSync(path.join(BENCH, name)));
  const wanted = hash.digest('hex');
  if (fs.existsSync(STAMP) && fs.readFileSync(STAMP, 'utf8') === wanted) return;
  process.stderr.write('bench: npm ci --prefix bench\n');
  const args = ['ci', '--prefix', BENCH, '--no-audit', '--no-fund'];
  const npm = process.env.npm_execpath;
  const [file, argv] = npm ? [process.execPath, [npm, ...args]] : ['npm', args];
  const { status } = spawnSync(file, argv, { cwd: BENCH, stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error('npm ci --prefix bench failed');
  fs.writeFileSync(STAMP, wanted);
}
