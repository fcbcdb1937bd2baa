/**
 * A collector as a service manager runs it: restarted some seconds after its end, unless no restart fixes the
 * cause.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Child } from '../lib/children.mjs';
import { MAIN } from '../lib/collector.mjs';
import { treeOf, usageOf } from '../lib/procfs.mjs';

const RESTART_MS = 2000;
/** Characters of the last output that are kept. */
const LAST_WORDS = 2000;
/** Exit codes that no restart fixes: wrong configuration, damaged data. */
const NO_START_MENDS = new Set([2, 3]);
/** pino's level `warn`. */
const WARN = 40;
/** Refusals, which the console counts. */
const REFUSALS = /^(refused|more refused)/;

export class SupervisedCollector {
  /**
   * The starts: `{ at, pid, listeningMs, endedAt, code, last, rss: [{ at, rss }] }`. Wall clock,
   * milliseconds.
   */
  starts = [];
  /** Its warnings and errors, without refusals: `{ at, level, msg, reason }`. */
  complaints = [];
  /** Resolves when it ends with a code that no restart fixes, or cannot be started. */
  failed;
  #args;
  #child;
  #wanted = true;
  #seen;
  #listening = Promise.withResolvers();
  #fail;
  #sampler;

  constructor(args) {
    this.#args = args;
    const failed = Promise.withResolvers();
    this.failed = failed.promise;
    this.#fail = failed.resolve;
    this.#start();
    this.#sampler = setInterval(() => {
      const { rss } = usageOf(this.pid);
      if (rss > 0) this.starts.at(-1).rss.push({ at: Date.now(), rss });
    }, 1000);
  }

  get pid() {
    return this.#child.pid;
  }

  /** Resolves when the newest start accepts connections. */
  get listening() {
    return this.#listening.promise;
  }

  signal(name) {
    this.#child.signal(name);
  }

  /**
   * Sends SIGKILL. Resolves with its processes when it has ended.
   * @param seen delays the restart until it resolves.
   */
  async kill(seen) {
    const tree = treeOf(this.pid);
    this.#seen = seen;
    this.#listening = Promise.withResolvers();
    this.#child.signal('SIGKILL');
    await this.#child.exited;
    return tree;
  }

  /** Sends SIGTERM. Resolves with the exit code, without a restart. */
  async stop() {
    this.#wanted = false;
    clearInterval(this.#sampler);
    return this.#child.stop();
  }

  #start() {
    const start = { at: Date.now(), rss: [] };
    const child = new Child('the collector', process.execPath, [MAIN, 'serve', ...this.#args]);
    start.pid = child.pid;
    this.starts.push(start);
    this.#child = child;
    child.onLine((stream, line) => {
      if (stream !== 'stderr' || !line.startsWith('{')) return;
      const { level, msg, reason } = JSON.parse(line);
      if (level >= WARN && !REFUSALS.test(msg)) this.complaints.push({ at: Date.now(), level, msg, reason });
      if (msg !== 'listening') return;
      start.listeningMs = Date.now() - start.at;
      this.#listening.resolve();
    });
    child.exited.then(
      (code) => this.#ended(start, code, child),
      (error) => this.#fail(error.message),
    );
  }

  async #ended(start, code, child) {
    Object.assign(start, { endedAt: Date.now(), code, last: child.output.stderr.slice(-LAST_WORDS) });
    if (!this.#wanted) return;
    if (NO_START_MENDS.has(code))
      return this.#fail(`the collector ended with ${code}: ${child.output.stderr}`);
    await Promise.all([sleep(RESTART_MS), this.#seen]);
    if (this.#wanted) this.#start();
  }
}
