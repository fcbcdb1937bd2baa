// Makes a checkout ready to run, and does nothing when it already is.
//
// Runs before `npm start` and `npm test`, on any Node from 20, before anything is installed: it may use
// nothing but Node itself. Two steps, each with a stamp that holds the SHA-256 of what the step reads:
//   node_modules/.setup-stamp   package-lock.json and every package.json  ->  npm ci
//   .build-stamp                the sources and compiler settings         ->  npm run build
// Without --all they install and build what runs the collector; with it, what tests and benches need too.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
process.chdir(root);
const GENERATED = path.join('src', 'generated');
const isAll = process.argv.includes('--all');

const packages = readdirSync('packages').map((name) => path.join('packages', name));
const manifests = [
  'package-lock.json',
  'package.json',
  ...packages.map((dir) => path.join(dir, 'package.json')),
];

/** The client is compiled against the libraries that it captures, which only tests need. */
const built = packages.filter((dir) => isAll || path.basename(dir) !== 'client');

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

/** @param what and how long it takes, said before it begins: npm says nothing until it is done. */
function step(stamp, files, outputs, what, args) {
  const wanted = fingerprint(files);
  // What was made with --all has all that is needed without it.
  const good = isAll ? [`${wanted} all`] : [wanted, `${wanted} all`];
  const fresh =
    existsSync(stamp) &&
    good.includes(readFileSync(stamp, 'utf8')) &&
    outputs.every((file) => existsSync(file));
  if (fresh) return;
  rmSync(stamp, { force: true });
  const command = `npm ${args.filter((arg) => !arg.startsWith('--')).join(' ')}`;
  process.stderr.write(`setup: ${what} (${command}) …\n`);
  const since = Date.now();
  // What npm prints goes to standard error, so that `npm start --silent` leaves standard output to the program.
  // npm tells its scripts where it lives; starting it by that path spares Windows a shell.
  const npm = process.env.npm_execpath;
  const [file, argv] = npm ? [process.execPath, [npm, ...args]] : ['npm', args];
  const { status, error } = spawnSync(file, argv, { stdio: ['ignore', 2, 2] });
  if (status !== 0) {
    process.stderr.write(`setup: npm ${args[0]} failed${error ? `: ${error.message}` : ''}\n`);
    process.exit(1);
  }
  writeFileSync(stamp, isAll ? `${wanted} all` : wanted);
  process.stderr.write(`setup: done in ${Math.round((Date.now() - since) / 1000)} s\n`);
}

step(
  path.join('node_modules', '.setup-stamp'),
  manifests,
  [path.join('node_modules', '.bin', 'tsc')],
  'installing what it needs, which takes half a minute or more',
  ['ci', '--no-audit', '--no-fund', '--loglevel=error', ...(isAll ? ['--include=dev'] : ['--omit=dev'])],
);
// Not what the build itself generates.
const sources = packages
  .flatMap((dir) => [
    path.join(dir, 'tsconfig.json'),
    ...['src', 'schemas', 'examples', 'scripts'].flatMap((name) => filesUnder(path.join(dir, name))),
  ])
  .filter((file) => !file.includes(GENERATED));
step(
  '.build-stamp',
  ['tsconfig.base.json', ...manifests, ...sources],
  built.map((dir) => path.join(dir, 'dist')),
  'compiling the sources, which takes some ten seconds',
  ['run', '--silent', 'build', '--', ...built],
);
