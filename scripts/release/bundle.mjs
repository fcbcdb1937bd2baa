// The server bundle: collector-<version>.tar.gz, from which a host with Node.js 24 runs collector and viewer offline.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { archive, entriesOf } from './archives.mjs';

const ASSEMBLE = path.join(import.meta.dirname, '../assemble.mjs');
/** In the bundle, and the one of the image. */
export const DOCKERFILE = 'deploy/docker/Dockerfile';
let directory;

function withLabels(dockerfile, { version, commit }) {
  const label = (name, value) => [
    `org.opencontainers.image.${name}=""`,
    `org.opencontainers.image.${name}="${value}"`,
  ];
  return dockerfile.replace(...label('version', version)).replace(...label('revision', commit));
}

/** The directory that scripts/assemble.mjs makes, once in a process and until its end. */
export function assembled(about) {
  if (directory !== undefined) return directory;
  const scratch = mkdtempSync(path.join(tmpdir(), 'collector-release-'));
  process.once('exit', () => rmSync(scratch, { recursive: true, force: true }));
  const made = path.join(scratch, 'collector');
  const { status, stderr } = spawnSync(process.execPath, [ASSEMBLE, made], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`scripts/assemble.mjs ended with ${status}: ${stderr}`);
  const dockerfile = path.join(made, DOCKERFILE);
  writeFileSync(dockerfile, withLabels(readFileSync(dockerfile, 'utf8'), about));
  directory = made;
  return directory;
}

export async function build(out, about) {
  const { version, epoch } = about;
  const name = `collector-${version}`;
  await archive(path.join(out, `${name}.tar.gz`), entriesOf(assembled(about), name), epoch);
}
