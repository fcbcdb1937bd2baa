/** A small file system with blocks of 1 KiB, on which a byte in 4 KiB allocates no room for the others. Needs root. */
import { spawn, spawnSync, type ChildProcessByStdio } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';

/** Mounted visible only to the holder and to processes in its namespace, for as long as its standard input is open. */
const MOUNT = 'mount -o loop "$1/image" "$1/disk" && echo ready && exec cat';

function makeImage(directory: string): ReturnType<typeof spawnSync> {
  fs.mkdirSync(path.join(directory, 'disk'));
  fs.writeFileSync(path.join(directory, 'image'), '');
  fs.truncateSync(path.join(directory, 'image'), 48 << 20);
  return spawnSync('mkfs.ext4', ['-q', '-b', '1024', '-m', '0', path.join(directory, 'image')]);
}

/** Whether the host allows one. */
export function canMakeSmallBlocks(scratch: string): boolean {
  if (makeImage(scratch).status !== 0) return false;
  const script = MOUNT.replace('exec cat', 'true');
  return spawnSync('unshare', ['--mount', 'sh', '-c', script, 'sh', scratch]).status === 0;
}

export class SmallBlocks {
  /** The prefix of a command that sees the disk. */
  readonly prefix: readonly string[];
  readonly directory: string;

  private constructor(
    private readonly holder: ChildProcessByStdio<Writable, Readable, null>,
    directory: string,
  ) {
    this.prefix = ['nsenter', `--mount=/proc/${holder.pid}/ns/mnt`];
    this.directory = path.join(directory, 'disk');
  }

  /** @param scratch an empty directory. */
  static async make(scratch: string): Promise<SmallBlocks> {
    makeImage(scratch);
    const holder = spawn('unshare', ['--mount', 'sh', '-c', MOUNT, 'sh', scratch], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    await new Promise((resolve, reject) => {
      holder.stdout.once('data', resolve);
      holder.once('exit', () => reject(new Error(`nothing was mounted on ${scratch}`)));
    });
    return new SmallBlocks(holder, scratch);
  }

  /** On return exactly this many KiB are free. */
  leave(kibibytes: number): void {
    this.run(
      `rm -f "$1/ballast"; dd if=/dev/zero of="$1/spare" bs=1k count=${kibibytes} conv=fsync status=none &&
       ! dd if=/dev/zero of="$1/ballast" bs=1k conv=fsync status=none 2>/dev/null; sync -f "$1"
       ! dd if=/dev/zero bs=1k oflag=append conv=notrunc,fsync of="$1/ballast" status=none 2>/dev/null
       rm "$1/spare" && sync -f "$1"`,
    );
  }

  /** As root, who sees the mount. @param script has the directory as `$1`. */
  run(script: string): string {
    const [command, ...rest] = [...this.prefix, 'sh', '-c', script, 'sh', this.directory];
    const { status, stdout, stderr } = spawnSync(command, rest, { encoding: 'utf8' });
    if (status !== 0) throw new Error(`${script}: ${stderr}`);
    return stdout;
  }

  remove(): void {
    this.holder.stdin.end();
  }
}
