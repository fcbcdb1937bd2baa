// Assembles an installation in a directory that can be copied to a host or into an image:
//
//   npm ci && npm run build
//   node scripts/assemble.mjs <directory>
//
// It holds the packages as npm would publish them, their runtime dependencies from the lock file, the documents and
// deploy/. No install script of a package is run, since none needs one.
import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

const [, , target] = process.argv;
if (target === undefined) throw new Error('usage: node scripts/assemble.mjs <directory>');
if (existsSync(target) && readdirSync(target).length > 0) throw new Error(`${target} is not empty`);

const root = path.dirname(import.meta.dirname);
const { workspaces } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));

/** Files that the user of deploy/compose*.yaml makes there. */
const SECRETS = ['deploy/operator-token', 'deploy/secrets'].map((file) => path.join(root, file));

function copy(file) {
  const to = path.join(target, file);
  mkdirSync(path.dirname(to), { recursive: true });
  cpSync(path.join(root, file), to, { recursive: true, filter: (source) => !SECRETS.includes(source) });
}

/** The files of a package that npm would pack. */
function packed(workspace) {
  const pack = ['pack', '--dry-run', '--json', '--ignore-scripts'];
  const { status, stdout } = spawnSync('npm', pack, {
    cwd: path.join(root, workspace),
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 2],
  });
  if (status !== 0) throw new Error(`npm pack of ${workspace} ended with ${status}`);
  return JSON.parse(stdout)[0].files.map((file) => file.path);
}

for (const file of ['package.json', 'package-lock.json', '.npmrc', 'LICENSE']) copy(file);
for (const file of ['README.md', 'CHANGELOG.md', 'SECURITY.md', 'docs', 'deploy']) copy(file);
for (const workspace of workspaces) {
  for (const file of packed(workspace)) copy(path.join(workspace, file));
}
// Links in PATH to these files are the commands `collector` and `collector-viewer`.
for (const name of ['collector', 'viewer'])
  chmodSync(path.join(target, `packages/${name}/dist/main.js`), 0o755);
const npm = [
  'ci',
  '--workspaces',
  '--omit=dev',
  '--ignore-scripts',
  '--prefer-offline',
  '--no-audit',
  '--no-fund',
];
const { status } = spawnSync('npm', npm, { cwd: target, stdio: ['ignore', 2, 2] });
process.exit(status ?? 1);
