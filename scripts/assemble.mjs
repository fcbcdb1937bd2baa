// Assembles an installation in a directory that can be copied to a host or into an image:
//
//   npm ci && npm run build
//   node scripts/assemble.mjs <directory>
//
// It has the packages as npm would publish them, their runtime dependencies as npm ci has installed them, the documents,
// deploy/ and the commands in bin/. It needs no network.
import { chmodSync, cpSync, existsSync, globSync, mkdirSync, readdirSync } from 'node:fs';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { packed } from './release/npm.mjs';
import { packages, runtimeOf } from './release/runtime.mjs';

const [, , target] = process.argv;
if (target === undefined) throw new Error('usage: node scripts/assemble.mjs <directory>');
if (existsSync(target) && readdirSync(target).length > 0) throw new Error(`${target} is not empty`);

const root = path.dirname(import.meta.dirname);
const read = (file) => JSON.parse(readFileSync(path.join(root, file), 'utf8'));
const manifest = read('package.json');
const { workspaces } = manifest;

/** Files that the user of deploy/compose*.yaml makes there. */
const SECRETS = ['deploy/operator-token', 'deploy/secrets'].map((file) => path.join(root, file));

function copy(file) {
  const to = path.join(target, file);
  mkdirSync(path.dirname(to), { recursive: true });
  cpSync(path.join(root, file), to, { recursive: true, filter: (source) => !SECRETS.includes(source) });
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

function write(file, data) {
  writeFileSync(path.join(target, file), `${JSON.stringify(data, null, 2)}\n`);
}

/** Writes manifests and a lock file that name only what is here: tools take every named package for installed. */
function describe() {
  for (const key of ['scripts', 'dependencies', 'devDependencies', 'allowScripts', 'overrides'])
    delete manifest[key];
  manifest.engines = { node: '>=24' };
  write('package.json', manifest);
  const { name, version, license, engines } = manifest;
  const locked = { '': { name, version, license, workspaces, engines } };
  for (const workspace of workspaces) {
    const its = read(path.join(workspace, 'package.json'));
    write(path.join(workspace, 'package.json'), { ...its, scripts: undefined, devDependencies: undefined });
    locked[path.posix.join('node_modules', its.name)] = { resolved: workspace, link: true };
  }
  for (const place of runtimeOf(workspaces))
    locked[place] = { ...packages[place], devDependencies: undefined };
  const sorted = Object.fromEntries(Object.entries(locked).sort());
  write('package-lock.json', { name, version, lockfileVersion: 3, requires: true, packages: sorted });
}

copy('LICENSE');
for (const file of ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'docs', 'deploy'])
  copy(file);
/** Files to which the documents link. */
const LINKED = ['bench/RESULTS.md', 'clients/python/README.md', 'packages/*/src/**/README.md'];
for (const file of globSync([...LINKED, 'examples/*/*.{md,mjs,py,txt}'], { cwd: root })) copy(file);
const files = packed();
for (const workspace of workspaces) {
  const { name } = packages[workspace];
  for (const file of files.get(name)) copy(path.join(workspace, file));
  link(path.join('node_modules', name), workspace);
}
for (const place of runtimeOf(workspaces)) if (!workspaces.includes(place)) copyInstalled(place);
describe();
for (const name of ['collector', 'viewer']) {
  const { bin } = read(`packages/${name}/package.json`);
  for (const [command, file] of Object.entries(bin)) {
    const main = path.join('packages', name, file);
    chmodSync(path.join(target, main), 0o755);
    link(path.join('bin', command), main);
  }
}
