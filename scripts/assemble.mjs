// Assembles an installation in a directory that can be copied to a host or into an image:
//
//   npm ci && npm run build
//   node scripts/assemble.mjs <directory>
//
// It has the packages as npm would publish them, their runtime dependencies as npm ci has installed them, the documents,
// deploy/ and the commands in bin/. It needs no network.
import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, globSync, mkdirSync, readdirSync } from 'node:fs';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const [, , target] = process.argv;
if (target === undefined) throw new Error('usage: node scripts/assemble.mjs <directory>');
if (existsSync(target) && readdirSync(target).length > 0) throw new Error(`${target} is not empty`);

const root = path.dirname(import.meta.dirname);
const read = (file) => JSON.parse(readFileSync(path.join(root, file), 'utf8'));
const manifest = read('package.json');
const { workspaces } = manifest;
const { packages } = read('package-lock.json');

/** Files that the user of deploy/compose*.yaml makes there. */
const SECRETS = ['deploy/operator-token', 'deploy/secrets'].map((file) => path.join(root, file));

function copy(file) {
  const to = path.join(target, file);
  mkdirSync(path.dirname(to), { recursive: true });
  cpSync(path.join(root, file), to, { recursive: true, filter: (source) => !SECRETS.includes(source) });
}

/** The files of each package that npm would pack, by the name of the package. */
function packed() {
  const pack = ['pack', '--workspaces', '--dry-run', '--json', '--ignore-scripts'];
  const { status, stdout } = spawnSync('npm', pack, {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
    stdio: ['ignore', 'pipe', 2],
  });
  if (status !== 0) throw new Error(`npm pack ended with ${status}`);
  return new Map(JSON.parse(stdout).map(({ name, files }) => [name, files.map((file) => file.path)]));
}

/** The directory in which Node.js finds a dependency of the package in `from`, by the lock file. */
function placeOf(name, from) {
  for (let parent = from; ; parent = parent.slice(0, Math.max(0, parent.lastIndexOf('/node_modules/')))) {
    const place = path.posix.join(parent, 'node_modules', name);
    if (packages[place] !== undefined) return place;
    if (parent === '') return undefined;
  }
}

/**
 * Adds the directories of all packages that the package in `from` needs when it runs. Optional ones are left out: they
 * depend on the platform, and none is used.
 */
function addDependencies(from, found) {
  const { dependencies, peerDependencies, peerDependenciesMeta: meta = {} } = packages[from];
  for (const name of Object.keys({ ...peerDependencies, ...dependencies })) {
    const place = placeOf(name, from);
    if (place === undefined && meta[name]?.optional) continue;
    if (place === undefined) throw new Error(`package-lock.json does not have ${name}, which ${from} needs`);
    if (found.has(place)) continue;
    found.add(place);
    if (!packages[place].link) addDependencies(place, found);
  }
  return found;
}

function copyInstalled(place) {
  const from = path.join(root, place);
  const { version } = read(path.join(place, 'package.json'));
  if (version !== packages[place].version)
    throw new Error(`${place} has version ${version}, not that of package-lock.json: run npm ci`);
  // A package in a package has its own place.
  const filter = (source) => source !== path.join(from, 'node_modules');
  cpSync(from, path.join(target, place), { recursive: true, filter });
}

function link(file, to) {
  const from = path.join(target, file);
  mkdirSync(path.dirname(from), { recursive: true });
  symlinkSync(path.relative(path.dirname(from), path.join(target, to)), from);
}

for (const file of ['package-lock.json', 'LICENSE']) copy(file);
for (const key of ['scripts', 'dependencies', 'devDependencies', 'allowScripts', 'overrides'])
  delete manifest[key];
manifest.engines = { node: '>=24' };
writeFileSync(path.join(target, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
for (const file of ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'docs', 'deploy'])
  copy(file);
/** Files to which the documents link. */
const LINKED = ['bench/RESULTS.md', 'clients/python/README.md', 'packages/*/src/**/README.md'];
for (const file of globSync([...LINKED, 'examples/*/*.{md,mjs,py,txt}'], { cwd: root })) copy(file);
const files = packed();
const needed = new Set();
for (const workspace of workspaces) {
  const { name } = packages[workspace];
  for (const file of files.get(name)) copy(path.join(workspace, file));
  link(path.join('node_modules', name), workspace);
  addDependencies(workspace, needed);
}
for (const place of needed) if (!packages[place].link) copyInstalled(place);
for (const name of ['collector', 'viewer']) {
  const { bin } = read(`packages/${name}/package.json`);
  for (const [command, file] of Object.entries(bin)) {
    const main = path.join('packages', name, file);
    chmodSync(path.join(target, main), 0o755);
    link(path.join('bin', command), main);
  }
}
