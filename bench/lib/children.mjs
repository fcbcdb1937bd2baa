/** Child processes and temporary directories. None of them outlives the bench. */
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isSameProcess, treeOf } from './procfs.mjs';

const running = new Set();
const directories = new Set();
let closing = false;
const OUTPUT_KEPT = 64 << 10;
const STOP_WITHIN_MS = 20_000;

/** The environment of every peer, without variables that the caller's shell or npm has set. */
function plainEnvironment() {
  const changes = /^(COLLECTOR_|npm_|PG|NODE_)/;
  const plain = Object.entries(process.env).filter(([name]) => !changes.test(name));
  return { ...Object.fromEntries(plain), NODE_ENV: 'production' };
}

export class Child {
  /** The last OUTPUT_KEPT characters of each stream. */
  output = { stdout: '', stderr: '' };
  /** Resolves with the exit code, or null when a signal ended it. */
  exited;
  #name;
  #child;
  #watchers = new Set();

  constructor(name, file, args, options = {}) {
    if (closing) throw new Error(`${name} is not started: the bench is ending`);
    this.#name = name;
    this.#child = spawn(file, args, { env: plainEnvironment(), ...options, stdio: ['pipe', 'pipe', 'pipe'] });
    running.add(this);
    this.#child.stdin.on('error', () => undefined);
    for (const stream of ['stdout', 'stderr']) {
      let line = '';
      this.#child[stream].setEncoding('utf8').on('data', (text) => {
        this.output[stream] = (this.output[stream] + text).slice(-OUTPUT_KEPT);
        const lines = (line + text).split('\n');
        line = lines.pop();
        for (const each of lines) for (const watch of this.#watchers) watch(stream, each);
      });
    }
    this.exited = new Promise((resolve, reject) => {
      this.#child.on('error', reject).on('close', resolve);
    }).finally(() => running.delete(this));
    this.exited.catch(() => undefined);
  }

  get pid() {
    return this.#child.pid;
  }

  /** Calls `watch(stream, line)` for each line from now on. */
  onLine(watch) {
    this.#watchers.add(watch);
  }

  /**
   * Resolves with the first matching line of JSON. Rejects with the output of the child if it ends before.
   */
  async json(stream, fits) {
    let watch;
    const found = new Promise((resolve) => {
      watch = (from, line) => {
        if (from !== stream || !line.startsWith('{')) return;
        const value = JSON.parse(line);
        if (fits(value)) resolve(value);
      };
    });
    this.#watchers.add(watch);
    const ended = this.exited.then((code) => {
      throw new Error(`${this.#name} ended (${code}): ${this.output.stderr || this.output.stdout}`);
    });
    ended.catch(() => undefined);
    try {
      return await Promise.race([found, ended]);
    } finally {
      this.#watchers.delete(watch);
    }
  }

  /** Writes to its standard input. */
  write(text) {
    this.#child.stdin.write(text);
  }

  signal(name) {
    this.#child.kill(name);
  }

  /** Sends SIGTERM, and SIGKILL after STOP_WITHIN_MS and to remaining descendants. */
  async stop() {
    const tree = treeOf(this.pid);
    this.signal('SIGTERM');
    await Promise.race([this.exited, sleep(STOP_WITHIN_MS, undefined, { ref: false })]);
    for (const member of tree) if (isSameProcess(member)) kill(member.pid);
    return this.exited;
  }
}

function kill(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    // It has ended in the meantime.
    if (error.code !== 'ESRCH') throw error;
  }
}

/** Runs a command to its end and resolves with what it wrote to standard output. */
export async function run(name, file, args, options) {
  const child = new Child(name, file, args, options);
  let stdout = '';
  child.onLine((stream, line) => {
    if (stream === 'stdout') stdout += `${line}\n`;
  });
  const code = await child.exited;
  if (code !== 0) throw new Error(`${name} ended (${code}): ${child.output.stderr || child.output.stdout}`);
  return stdout;
}

export function temporaryDirectory(scratch, name) {
  fs.mkdirSync(scratch, { recursive: true });
  const directory = fs.mkdtempSync(path.join(scratch, `bench-${name}-`));
  directories.add(directory);
  return directory;
}

export function removeDirectory(directory) {
  if (!directories.delete(directory)) return;
  fs.rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
}

/** Ends every child and removes every temporary directory. Nothing can be started afterwards. */
export async function cleanUp() {
  closing = true;
  await Promise.allSettled([...running].map((child) => child.stop()));
  for (const directory of directories) removeDirectory(directory);
}
