// One side of the comparison: a built checkout, a directory to work in, and the answers of its commands.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { PROGRAM, portsIn, signedEntriesIn, wordsOf } from './sides.mjs';

const PRELOAD = pathToFileURL(path.join(import.meta.dirname, 'preload.mjs')).href;
/** 24 January 2026: no step depends on the date. */
const FIRST_INSTANT = Date.UTC(2026, 0, 24);

export class Side {
  /** Answers by the name of the comparison: a file, and how it is compared. */
  answers = new Map();
  /** Exit codes and standard error by name, in the order of the steps. */
  exits = [];
  now = FIRST_INSTANT;
  #names = new Set();
  #running = new Set();

  /** @param name base or tree. @param checkout is built. @param directory is empty; commands run in it. */
  constructor(name, checkout, directory) {
    Object.assign(this, { name, program: path.join(checkout, PROGRAM), directory });
    fs.mkdirSync(this.path('answers'), { recursive: true });
    this.advance(0);
  }

  path(...names) {
    return path.join(this.directory, ...names);
  }

  write(file, text) {
    fs.writeFileSync(this.path(file), text);
  }

  /** To be called when no request is under way. */
  advance(ms) {
    this.now += ms;
    const clock = this.path('clock');
    // In place: processes hold it open. The digits stay as many.
    fs.writeFileSync(clock, String(this.now), { flag: fs.existsSync(clock) ? 'r+' : 'w' });
  }

  /** @param what is an answer: a file of this side, or its text. @param how see comparing.mjs. */
  keep(name, what, how = 'text') {
    if (this.answers.has(name)) throw new Error(`two answers are called ${name}`);
    const file = what.file ?? `answers/${name.replaceAll(/[^\w.-]+/g, '_')}`;
    if (what.text !== undefined) this.write(file, what.text);
    this.answers.set(name, { file: this.path(file), how });
  }

  /**
   * Runs a command to its end. Its exit code is an answer, and so is its output if `how` states the comparison.
   * @param command of the tree, with its arguments. @returns its output.
   */
  async run(name, command, { how, input, environment = {} } = {}) {
    const file = `answers/${name.replaceAll(/[^\w.-]+/g, '_')}.out`;
    const out = fs.openSync(this.path(file), 'w');
    const { child, ended } = this.#spawn(name, command, ['pipe', out, 'pipe'], environment);
    child.stdin.on('error', () => undefined).end(input ?? '');
    await ended;
    fs.closeSync(out);
    if (how !== undefined) this.keep(name, { file }, how);
    return fs.statSync(this.path(file)).size < 1 << 24 ? fs.readFileSync(this.path(file), 'utf8') : '';
  }

  /**
   * Starts a collector. On return it listens.
   * @param interval between checkpoints, and between heads of the access log: with the long one there is none but at the
   *   start and at the end, so that their places in the log are certain.
   */
  async serve(name, options, environment = {}, interval = '1h') {
    const command = `serve ${options} --port 0 --management-port 0 --checkpoint-interval-ms ${interval}`;
    const { child, ended, log } = this.#spawn(name, command, ['ignore', 'ignore', 'pipe'], environment);
    while (portsIn(log()) == null) {
      if (child.exitCode !== null) throw new Error(`${this.name}: ${name} has ended: ${log()}`);
      await sleep(20);
    }
    const { port, management } = portsIn(log());
    const stop = () => {
      child.kill('SIGTERM');
      return ended;
    };
    /** On return a checkpoint covers as many entries. */
    const signed = async (entries) => {
      for (;;) {
        const metrics = await (await fetch(`http://127.0.0.1:${management}/metrics`)).text();
        if (signedEntriesIn(metrics) >= entries) return;
        await sleep(200);
      }
    };
    return { port, management, signed, stop };
  }

  #spawn(name, command, stdio, environment) {
    if (this.#names.has(name)) throw new Error(`two steps are called ${name}`);
    this.#names.add(name);
    const child = spawn(process.execPath, [this.program, ...wordsOf(this.name, command)], {
      cwd: this.directory,
      stdio,
      env: {
        ...{ PATH: process.env.PATH, HOME: this.directory, LC_ALL: 'C.UTF-8', TZ: 'UTC' },
        ...{ NODE_OPTIONS: `--import=${PRELOAD}`, NET_CLOCK: this.path('clock'), NET_SEED: name },
        ...environment,
      },
    });
    this.#running.add(child);
    let log = '';
    child.stderr.setEncoding('utf8').on('data', (text) => (log += text));
    const ended = new Promise((resolve) =>
      child.once('close', (status, signal) => {
        this.#running.delete(child);
        this.exits.push({ name, code: status ?? signal, log });
        resolve();
      }),
    );
    return { child, ended, log: () => log };
  }

  /** Ends the processes that still run. */
  kill() {
    for (const child of this.#running) child.kill('SIGKILL');
  }
}

/** `file: SHA-256` of all files under a directory. */
export function listing(directory) {
  return fs
    .readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .sort()
    .map((file) => {
      const digest = createHash('sha256').update(fs.readFileSync(file)).digest('hex');
      return `${path.relative(directory, file)}: ${digest}\n`;
    })
    .join('');
}
