// The Python wheel and sdist, built by hatchling from a virtual environment in .venv/, which `--install` makes.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';

const ROOT = path.resolve(import.meta.dirname, '../..');
const CLIENT = path.join(ROOT, 'clients/python');
const REQUIREMENTS = path.join(CLIENT, 'scripts/release.txt');
const ENVIRONMENT = path.join(ROOT, '.venv');
const PYTHON = path.join(ENVIRONMENT, 'bin/python');
const STAMP = path.join(ENVIRONMENT, 'release.txt');
const SUITABLE = 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))';
const MISSING =
  'The wheel and the sdist need python3 of version 3.10 or newer with venv when `npm run release:dry-run` installs; ' +
  '--without-python leaves them out.';

function run(program, args, options = {}) {
  const { status } = spawnSync(program, args, { stdio: ['ignore', 2, 2], ...options });
  if (status !== 0) throw new Error(`${path.basename(program)} ${args.slice(0, 3).join(' ')} failed`);
}

function isInstalled() {
  return existsSync(STAMP) && readFileSync(STAMP, 'utf8') === readFileSync(REQUIREMENTS, 'utf8');
}

/** Makes the virtual environment. Needs the network, unlike the build. */
function install() {
  if (isInstalled()) return;
  // The build reports it, unless the wheel is not wanted.
  if (spawnSync('python3', ['-c', SUITABLE], { stdio: 'ignore' }).status !== 0) return;
  run('python3', ['-m', 'venv', '--clear', ENVIRONMENT]);
  run(PYTHON, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '-r', REQUIREMENTS]);
  writeFileSync(STAMP, readFileSync(REQUIREMENTS));
}

export function build(out, { epoch }) {
  if (!isInstalled()) throw new Error(MISSING);
  const built = mkdtempSync(path.join(os.tmpdir(), 'release-python-'));
  try {
    run(PYTHON, ['-I', '-B', '-m', 'hatchling', 'build', '--directory', built], {
      cwd: CLIENT,
      env: { ...process.env, SOURCE_DATE_EPOCH: String(epoch), PYTHONDONTWRITEBYTECODE: '1' },
    });
    for (const name of readdirSync(built)) {
      const bytes = readFileSync(path.join(built, name));
      // The bytes of Python's gzip depend on the zlib of the system.
      writeFileSync(
        path.join(out, name),
        name.endsWith('.tar.gz') ? gzipSync(gunzipSync(bytes), { level: 9 }) : bytes,
      );
    }
  } finally {
    rmSync(built, { recursive: true, force: true });
  }
}

if (process.argv[1] === import.meta.filename && process.argv[2] === '--install') install();
