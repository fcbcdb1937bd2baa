/** A disk of a few MiB under a PostgreSQL server, where the host allows a mount in a namespace of the tests. */
import { spawn, spawnSync, type ChildProcessByStdio } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { type PostgresServer, USER } from './postgres-server.js';

/** Mounts a file system with the content of the directory, and keeps it while its standard input is open. */
const MOUNT = `
mount -t tmpfs -o "size=$2,mode=700" small "$1.small" && cp -a "$1/." "$1.small" && mount --bind "$1.small" "$1" &&
echo ready && exec cat`;
const NAMESPACE = ['--user', '--map-root-user', '--mount'];

/** Why this host cannot have one; undefined if it can. */
export function whyNoSmallDisk(): string | undefined {
  const script = 'mount -t tmpfs small /mnt && nsenter --version && exec unshare --user --map-user=1 true';
  const { status, stderr, error } = spawnSync('unshare', [...NAMESPACE, 'sh', '-c', script], {
    ...USER,
    encoding: 'utf8',
  });
  return status === 0 ? undefined : `no small disk can be mounted here: ${error?.message ?? stderr.trim()}`;
}

export class SmallDisk {
  private constructor(
    private readonly holder: ChildProcessByStdio<Writable, Readable, null>,
    private readonly prefix: readonly string[],
    private readonly ballast: string,
  ) {}

  /** Moves a directory of a stopped server there. */
  static async under(server: PostgresServer, name: 'base' | 'pg_wal', megabytes: number): Promise<SmallDisk> {
    const directory = path.join(server.directory, 'data', name);
    fs.mkdirSync(`${directory}.small`);
    if (USER.uid !== undefined) fs.chownSync(`${directory}.small`, USER.uid, USER.gid);
    const mount = [...NAMESPACE, 'sh', '-c', MOUNT, 'sh', directory, `${megabytes}m`];
    const holder = spawn('unshare', mount, { ...USER, stdio: ['pipe', 'pipe', 'inherit'] });
    await new Promise((resolve, reject) => {
      holder.stdout.once('data', resolve);
      holder.once('exit', () => reject(new Error(`nothing was mounted on ${directory}`)));
    });
    const enter = ['nsenter', '--target', String(holder.pid), '--user', '--mount', '--preserve-credentials'];
    // Inside, the user is root, whom a server of PostgreSQL refuses.
    const prefix = [...enter, 'unshare', '--user', '--map-user=1', '--map-group=1'];
    server.prefix = prefix;
    return new SmallDisk(holder, prefix, `${directory}.small/ballast`);
  }

  /** On return it is full to the last byte. */
  fill(): void {
    this.#run('! dd if=/dev/zero of="$1" bs=4k status=none oflag=append conv=notrunc 2>/dev/null');
  }

  relieve(): void {
    this.#run('rm "$1"');
  }

  remove(): void {
    this.holder.stdin.end();
  }

  #run(script: string): void {
    const [command, ...rest] = [...this.prefix, 'sh', '-c', script, 'sh', this.ballast];
    const { status, stderr } = spawnSync(command, rest, { ...USER, encoding: 'utf8' });
    if (status !== 0) throw new Error(`${script}: ${stderr}`);
  }
}
