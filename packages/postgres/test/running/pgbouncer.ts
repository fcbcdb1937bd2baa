/** PgBouncer in transaction mode in front of a server, where it is installed. */
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { freePort } from '../../../../test/free-port.js';
import { type PostgresServer, USER } from './postgres-server.js';

export const hasPgBouncer = spawnSync('pgbouncer', ['--version']).status === 0;

export interface PgBouncer {
  readonly port: number;
  stop(): Promise<void>;
}

/**
 * Ends with the server's directory, which its files are in.
 * @param users who may log in, without a password.
 * @param ignored parameters of a session that it drops; it refuses other unknown ones.
 */
export async function startPgBouncer(
  server: PostgresServer,
  { users, ignored }: { users: readonly string[]; ignored: string },
): Promise<PgBouncer> {
  const port = await freePort();
  const write = (name: string, text: string) => {
    const file = path.join(server.directory, name);
    fs.writeFileSync(file, text, { mode: 0o644 });
    return file;
  };
  const list = write(`users-${port}`, users.map((user) => `"${user}" ""\n`).join(''));
  const config = write(
    `pgbouncer-${port}.ini`,
    `[databases]
* = host=127.0.0.1 port=${server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${list}
pool_mode = transaction
default_pool_size = 8
server_idle_timeout = 1
ignore_startup_parameters = ${ignored}
`,
  );
  const child = spawn('pgbouncer', ['--quiet', config], { ...USER, stdio: ['ignore', 'ignore', 'inherit'] });
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  while (!(await listens(port))) {
    if (child.exitCode !== null) throw new Error(`pgbouncer ended with ${child.exitCode}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return {
    port,
    stop: () => {
      child.kill('SIGKILL');
      return exited;
    },
  };
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
