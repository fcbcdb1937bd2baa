/**
 * Which process writes the catalogue, in a file beside it. SQLite decides who does; the file is only read while it says
 * that another one does, and believed only while the process that it names runs: a process id alone is given out again.
 */
import fs from 'node:fs';
import path from 'node:path';

const NAME = 'updating';
const MOST_BYTES = 256;
/** No link is followed, and a pipe under that name is not waited for. */
const NO_OTHER = fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK;

/** Notes this process. What cannot be noted is not: it is only for a message. */
export function noteHolder(directory: string): void {
  try {
    const { O_WRONLY, O_CREAT, O_TRUNC } = fs.constants;
    const fd = fs.openSync(path.join(directory, NAME), O_WRONLY | O_CREAT | O_TRUNC | NO_OTHER, 0o600);
    fs.writeSync(fd, markOf(process.pid) ?? '');
    fs.closeSync(fd);
  } catch {
    // A file of another user.
  }
}

/** @returns in words who writes the catalogue. */
export function holderOf(directory: string): string {
  let noted = '';
  try {
    const fd = fs.openSync(path.join(directory, NAME), fs.constants.O_RDONLY | NO_OTHER);
    const bytes = Buffer.alloc(MOST_BYTES);
    noted = bytes.toString('latin1', 0, fs.readSync(fd, bytes, 0, MOST_BYTES, 0));
    fs.closeSync(fd);
  } catch {
    // Nothing is noted.
  }
  const pid = Number.parseInt(noted, 10);
  return pid > 0 && markOf(pid) === noted ? `process ${pid}` : 'another process';
}

/** The process by its id, its id space and when it was started, in the clock ticks of the kernel (proc(5)). */
function markOf(pid: number): string | undefined {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name stands in brackets and may have anything in it; the start is field 22, and the state is field 3.
    const started = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
    return `${pid} ${fs.readlinkSync('/proc/self/ns/pid')} ${started}`;
  } catch {
    return undefined;
  }
}
