/** A file system of 1 MiB for one command, where this host lets the tests mount one that only they see. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { scratchDirectory } from './spool-processes.js';

const NAMESPACE = ['--user', '--map-root-user', '--mount'];

export const canMount = spawnSync('unshare', [...NAMESPACE, 'true']).status === 0;

/** What to put in front of the command: it finds itself in the empty file system. */
export function inSmallFileSystem(): string[] {
  const directory = path.join(scratchDirectory(), 'small');
  fs.mkdirSync(directory, { recursive: true, mode: 0o700 });
  const script = 'mount -t tmpfs -o size=1m,mode=700 small "$1" && cd "$1" && shift && exec "$@"';
  return ['unshare', ...NAMESPACE, 'sh', '-c', script, 'sh', directory];
}
