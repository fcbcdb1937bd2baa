/** A file system of 1 MiB for one command, where the host allows a mount that only the tests see. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { scratchDirectory } from './spool-processes.js';

const NAMESPACE = ['--user', '--map-root-user', '--mount'];

export const canMount = spawnSync('unshare', [...NAMESPACE, 'true']).status === 0;

/** The prefix of the command, which then runs in the empty file system. */
export function inSmallFileSystem(): string[] {
  const directory = path.join(scratchDirectory(), 'small');
  fs.mkdirSync(directory, { recursive: true, mode: 0o700 });
  const script = 'mount -t tmpfs -o size=1m,mode=700 small "$1" && cd "$1" && shift && exec "$@"';
  return ['unshare', ...NAMESPACE, 'sh', '-c', script, 'sh', directory];
}
