// The npm tarballs: the files that npm would pack, in an archive of our own, since npm takes modes from the umask.
import { spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { archive } from './archives.mjs';
import { withoutLinks } from './guide.mjs';

const ROOT = path.resolve(import.meta.dirname, '../..');

/** The workspaces as directory and manifest. */
export function workspaces() {
  const manifestOf = (directory) => JSON.parse(readFileSync(path.join(directory, 'package.json'), 'utf8'));
  return manifestOf(ROOT).workspaces.map((name) => {
    const directory = path.join(ROOT, name);
    return { directory, manifest: manifestOf(directory) };
  });
}

/** The name of a package's tarball without its ending, as npm forms it. */
export const tarballName = ({ name, version }) => `${name.replace(/^@/, '').replace('/', '-')}-${version}`;

/** The files that npm would pack, by the name of the package. npm reaches no network. */
export function packed() {
  const pack = ['pack', '--workspaces', '--dry-run', '--json', '--ignore-scripts'];
  const { status, stdout, error } = spawnSync('npm', pack, {
    ...{ cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 26, stdio: ['ignore', 'pipe', 2] },
    env: { ...process.env, npm_config_offline: 'true', npm_config_update_notifier: 'false' },
  });
  if (status !== 0) throw new Error(`npm pack ended with ${status}`, { cause: error });
  return new Map(JSON.parse(stdout).map(({ name, files }) => [name, files.map((file) => file.path)]));
}

/** The README, which names what is not in the package by its place in the server bundle. */
function readme(directory) {
  const placeOf = (target) => `\`${path.relative(ROOT, path.join(directory, target))}\` in the server bundle`;
  return withoutLinks(readFileSync(path.join(directory, 'README.md'), 'utf8'), placeOf);
}

function entries({ directory, manifest }, files) {
  const programs = Object.values(manifest.bin ?? {}).map((file) => path.posix.normalize(file));
  return files.map((name) => {
    const file = path.join(directory, name);
    const isProgram = programs.includes(name) || (statSync(file).mode & 0o100) !== 0;
    if (name === 'README.md') return { name: `package/${name}`, data: readme(directory) };
    return { name: `package/${name}`, path: file, mode: isProgram ? 0o755 : 0o644 };
  });
}

export async function build(out, { epoch }) {
  const files = packed();
  for (const workspace of workspaces().filter(({ manifest }) => !manifest.private)) {
    const file = path.join(out, `${tarballName(workspace.manifest)}.tgz`);
    await archive(file, entries(workspace, files.get(workspace.manifest.name)), epoch);
  }
}
