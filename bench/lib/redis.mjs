/** A Redis server that flushes every write, for one peer. */
import { spawnSync } from 'node:child_process';
import { Child } from './children.mjs';

const PROGRAM = process.env.REDIS_SERVER ?? 'redis-server';
const SOCKET = 'redis.sock';

/** @returns the version of the server, or undefined if it is not installed. */
export function redisVersion() {
  const { status, stdout } = spawnSync(PROGRAM, ['--version'], { encoding: 'utf8' });
  return status === 0 ? /v=(\S+)/.exec(stdout)?.[1] : undefined;
}

export async function startRedis(directory) {
  const files = ['--dir', directory, '--unixsocket', SOCKET, '--port', '0', '--save', ''];
  const child = new Child('redis', PROGRAM, [...files, '--appendonly', 'yes', '--appendfsync', 'always'], {
    cwd: directory,
  });
  await new Promise((resolve, reject) => {
    child.onLine((_, line) => {
      if (/eady to accept connections/.test(line)) resolve();
    });
    child.exited.then((code) => reject(new Error(`redis-server ended (${code})`)), reject);
  });
  return {
    socket: SOCKET,
    stop() {
      child.signal('SIGTERM');
      return child.exited;
    },
  };
}
