// Makes a checkout ready to run. Does nothing when it is ready.
//
// Runs before `npm start`, `npm test` and `npm pack`, on Node 20 and newer, before anything is installed, so it imports
// only Node itself and commit.mjs, which does the same. It has two steps, each with a stamp that holds the SHA-256 of
// the step's inputs:
//   node_modules/.setup-stamp   package-lock.json and every package.json  ->  npm ci
//   .build-stamp                the sources and compiler settings         ->  npm run build
// With --all it also installs the dependencies of tests and benches, and installs and builds the PostgreSQL driver.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { writeCommit } from './commit.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
process.chdir(root);
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'];
const GENERATED = path.join('src', 'generated');
// Installed packages of an earlier --all are kept: npm ci without them would remove them.
const isAll = process.argv.includes('--all') || existsSync(path.join('node_modules', 'vitest'));

/** Packages that a log in files never loads. */
const ONLY_WITH_ALL = ['packages/postgres'];
const { workspaces } = JSON.parse(readFileSync('package.json', 'utf8'));
const packages = isAll ? workspaces : workspaces.filter((dir) => !ONLY_WITH_ALL.includes(dir));
const manifests = [
  'package-lock.json',
  'package.json',
  ...workspaces.map((dir) => path.join(dir, 'package.json')),
];
const selection = isAll
  ? ['--include=dev']
  : ['--omit=dev', '--include-workspace-root', ...packages.map((dir) => `--workspace=${dir}`)];

/** Settings of an `npm pack` that runs this script, which must not reach the npm that installs and builds. */
const NOT_PASSED_ON = /^npm_config_(workspaces?|include_workspace_root|dry_run|json|pack_destination)$/i;
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !NOT_PASSED_ON.test(name)));

function filesUnder(dir) {
  if (!existsSync(dir)) return [];
  return readdirSync(dir, { withFileTypes: true })
    .flatMap((entry) => {
      const file = path.join(dir, entry.name);
      return entry.isDirectory() ? filesUnder(file) : [file];
    })
    .sort();
}

function fingerprint(files) {
  const hash = createHash('sha256');
  for (const file of files) hash.update(`${file}\0`).update(readFileSync(file)).update('\0');
  return hash.digest('hex');
}

/** @param what the step and its usual time, printed first, since npm prints nothing until it is done. */
async function step(stamp, wanted, outputs, what, args) {
  // A set-up with --all includes the one without it.
  const good = [wanted, `${wanted} all`];
  const fresh =
    existsSync(stamp) &&
    good.includes(readFileSync(stamp, 'utf8')) &&
    outputs.every((file) => existsSync(file));
  if (fresh) return;
  rmSync(stamp, { force: true });
  const command = `npm ${args.filter((arg) => !arg.startsWith('--')).join(' ')}`;
  process.stderr.write(`setup: ${what} (${command}) …\n`);
  const since = Date.now();
  // npm's output goes to standard error, so that standard output of `npm start --silent` is the program's alone.
  // npm_execpath avoids a shell on Windows.
  const npm = process.env.npm_execpath;
  const [file, argv] = npm ? [process.execPath, [npm, ...args]] : ['npm', args];
  const child = spawn(file, argv, { stdio: ['ignore', 2, 2], env });
  // A signal reaches only this process, so it ends npm too: nothing may install or build afterwards.
  const passOn = (signal) => child.kill(signal);
  for (const signal of SIGNALS) process.on(signal, passOn);
  const [code, signal] = await once(child, 'exit').catch((error) => [error.message]);
  for (const each of SIGNALS) process.off(each, passOn);
  if (code !== 0) {
    process.stderr.write(`setup: ${command} ended with ${signal ?? code}\n`);
    process.exit(1);
  }
  writeFileSync(stamp, wanted);
  process.stderr.write(`setup: done in ${Math.round((Date.now() - since) / 1000)} s\n`);
}

const installed = fingerprint(manifests);
await step(
  path.join('node_modules', '.setup-stamp'),
  isAll ? `${installed} all` : installed,
  [path.join('node_modules', '.bin', 'tsc')],
  'installing what it needs, which takes half a minute or more',
  ['ci', '--no-audit', '--no-fund', '--loglevel=error', ...selection],
);
// Without the sources that the build generates.
const sources = packages
  .flatMap((dir) => [
    path.join(dir, 'tsconfig.json'),
    ...['src', 'schemas', 'examples', 'scripts'].flatMap((name) => filesUnder(path.join(dir, name))),
  ])
  .filter((file) => !file.includes(GENERATED));
await step(
  '.build-stamp',
  fingerprint(['tsconfig.base.json', ...manifests, ...sources]),
  packages.map((dir) => path.join(dir, 'dist')),
  'compiling the sources, which takes some ten seconds',
  ['run', '--silent', 'build'],
);
// The commit is not an input of the build: a new one alone compiles nothing.
writeCommit();
