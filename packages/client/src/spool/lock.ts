/**
 * A lock that goes when its holder goes, however that ends, without native code: the holder listens on a Unix socket
 * in its directory, and whoever wants to know tries to connect. The kernel answers for it, also while the holder's
 * event loop is busy, and refuses the connection once nobody listens.
 *
 * What lost. A file with a process id and the start time from /proc: a container does not see the processes of another
 * one, takes its living neighbour for dead, and has never seen the process of which it is the restart. A file touched
 * again and again: a holder that is stopped, or whose clock is set, seems dead. Node has no flock, and node:sqlite is
 * not in Node 20.
 *
 * The kernel answers for its own processes only. Of directories shared between hosts see process-directory.ts.
 */
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { errorCode } from './error-code.js';

/** `free`: nobody listens. `missing`: there is no such socket. Whatever else the system answers is `held`. */
export type LockState = 'held' | 'free' | 'missing';

export interface HeldLock {
  release(): Promise<void>;
}

/** sun_path of the systems that Node runs on holds 103 bytes at least, with the zero that ends it. */
const LONGEST_PATH = 103;

/**
 * A path of any length for the calls on sockets: through the descriptor of its directory, where there is a /proc.
 * @throws RangeError where there is none.
 */
function reachable(file: string): { name: string; fd: number | undefined } {
  if (Buffer.byteLength(file) <= LONGEST_PATH) return { name: file, fd: undefined };
  if (process.platform !== 'linux') {
    throw new RangeError(`the path of the spool is too long: ${LONGEST_PATH} bytes are left for ${file}`);
  }
  const fd = fs.openSync(path.dirname(file), 'r');
  return { name: `/proc/self/fd/${fd}/${path.basename(file)}`, fd };
}

/** On return this thread holds the lock until `release` or its end. Does not keep the process running. */
export async function holdLock(file: string): Promise<HeldLock> {
  const { name, fd } = reachable(file);
  // Only now: Node removes the socket by its name when it stops listening.
  const closeDirectory = () => {
    if (fd !== undefined) fs.closeSync(fd);
  };
  const server = net.createServer((socket) => socket.destroy());
  try {
    await new Promise<void>((resolve, reject) => {
      // Exclusive, or in a worker of node:cluster the primary would listen, and outlive it.
      server.once('error', reject).listen({ path: name, exclusive: true }, resolve);
    });
  } catch (error) {
    closeDirectory();
    throw error;
  }
  // Running out of descriptors while accepting does not end the listening.
  server.on('error', () => undefined).unref();
  return {
    release: () =>
      new Promise((resolve) => {
        server.close(() => {
          closeDirectory();
          resolve();
        });
      }),
  };
}

export async function lockState(file: string): Promise<LockState> {
  const { name, fd } = reachable(file);
  try {
    return await new Promise<LockState>((resolve) => {
      const socket = net.connect(name);
      socket.once('connect', () => {
        socket.destroy();
        resolve('held');
      });
      socket.once('error', (error) => {
        const code = errorCode(error);
        resolve(code === 'ECONNREFUSED' ? 'free' : code === 'ENOENT' ? 'missing' : 'held');
      });
    });
  } finally {
    if (fd !== undefined) fs.closeSync(fd);
  }
}

/** What tells this host from others with which it may share a directory: its boot, on Linux; elsewhere its name. */
export const HOST = hostIdentity();

function hostIdentity(): string {
  try {
    return fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return os.hostname();
  }
}
