// Builds every artifact of a release into release/, without a network:
//
//   npm run release:dry-run [-- --without-python]
//
// The same sources, commit, time, Node.js and, for the wheel, zlib of Python give the same bytes. SOURCE_COMMIT and
// SOURCE_DATE_EPOCH replace what git says. Versions must agree.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { sourceCommit } from './commit.mjs';
import * as bundle from './release/bundle.mjs';
import * as guide from './release/guide.mjs';
import * as image from './release/image.mjs';
import * as kubernetes from './release/kubernetes.mjs';
import * as licences from './release/licences.mjs';
import * as npm from './release/npm.mjs';
import * as python from './release/python.mjs';
import * as sbom from './release/sbom.mjs';

const ROOT = path.dirname(import.meta.dirname);
const OUT = path.join(ROOT, 'release');
/** In this order: Python may be missing, and the list of licences reads the SBOMs. */
const PARTS = { python, npm, bundle, image, kubernetes, guide, sbom, licences };
/** 2026-01-01: the time of sources without git and without SOURCE_DATE_EPOCH. */
const UNKNOWN_TIME = 1_767_225_600;

function committedAt() {
  if (!existsSync(path.join(ROOT, '.git'))) return undefined;
  const { status, stdout } = spawnSync('git', ['log', '-1', '--format=%ct'], { cwd: ROOT, encoding: 'utf8' });
  return status === 0 ? stdout.trim() : undefined;
}

/** The commit and its time in seconds. */
function origin() {
  const commit = sourceCommit();
  const epoch = Number(process.env.SOURCE_DATE_EPOCH ?? committedAt() ?? UNKNOWN_TIME);
  if (!Number.isSafeInteger(epoch) || epoch < 0)
    throw new Error('SOURCE_DATE_EPOCH is not a number of seconds');
  if (commit.endsWith('-modified'))
    process.stderr.write('release: this checkout has changes that its commit does not have\n');
  return { commit, epoch };
}

/** The version, which each manifest states, the Python client's included. */
function commonVersion() {
  const stated = npm.workspaces().map(({ manifest }) => [manifest.name, manifest.version]);
  const project = readFileSync(path.join(ROOT, 'clients/python/pyproject.toml'), 'utf8');
  stated.push(['clients/python', /^version = "(.*)"$/m.exec(project)?.[1]]);
  const { name, version, dependencies } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'));
  const other = stated.find((each) => each[1] !== version);
  if (other) throw new Error(`${other[0]} has version ${other[1]}, ${name} has ${version}`);
  if (process.versions.node !== dependencies.node)
    throw new Error(`A release needs Node.js ${dependencies.node}: start it by npm run release:dry-run`);
  return version;
}

/** Compiles into empty directories: files of sources that no longer exist would be packed. */
function compile(commit) {
  for (const { directory } of npm.workspaces())
    rmSync(path.join(directory, 'dist'), { recursive: true, force: true });
  const { status } = spawnSync(process.execPath, [path.join(ROOT, 'scripts/build.mjs')], {
    cwd: ROOT,
    stdio: ['ignore', 2, 2],
    env: { ...process.env, SOURCE_COMMIT: commit },
  });
  if (status !== 0) throw new Error('the build failed');
}

const sha256 = (file) => createHash('sha256').update(readFileSync(file)).digest('hex');

async function release() {
  const about = { version: commonVersion(), ...origin() };
  rmSync(OUT, { recursive: true, force: true });
  mkdirSync(OUT);
  for (const [part, { build }] of Object.entries(PARTS)) {
    if (part === 'python' && process.argv.includes('--without-python')) continue;
    if (part === 'npm') compile(about.commit);
    process.stderr.write(`release: ${part}\n`);
    await build(OUT, about);
  }
  const files = readdirSync(OUT, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(OUT, path.join(entry.parentPath, entry.name)))
    .sort();
  const sums = files.map((name) => `${sha256(path.join(OUT, name))}  ${name}\n`);
  writeFileSync(path.join(OUT, 'SHA256SUMS'), sums.join(''));
  process.stderr.write(`release: ${files.length} files of ${about.version} (${about.commit}) in release/\n`);
}

try {
  await release();
} catch (error) {
  process.stderr.write(`release: ${error.message}\n`);
  process.exitCode = 1;
}
