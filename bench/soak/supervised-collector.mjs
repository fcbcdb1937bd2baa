/**
 * A collector as a service manager runs it: started again some seconds after it ended, unless no start fixes
 * that.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Child } from '../lib/children.mjs';
import { MAIN } from '../lib/collector.mjs';
import { treeOf, usageOf } from '../lib/procfs.mjs';

const RESTART_MS = 2000;
/** Characters of what a start wrote last. */
const LAST_WORDS = 2000;
/** The configuration is wrong; stored data is damaged. */
const NO_START_MENDS = new Set([2, 3]);
/** So much worse than it should be that a person is to look at it: pino's `warn`. */
const WARN = 40;
/** The console counts these. */
const REFUSALS = /^(refused|more refused)/;

export class SupervisedCollector {
  /**
   * Of each start: `{ at, pid, listeningMs, endedAt, code, last, rss: [{ at, rss }] }`. Wall clock,
   * milliseconds.
   */
  starts = [];
  /** What it logged that someone should look at, refusals aside: `{ at, level, msg, reason }`. */
  complaints = [];
  /** Resolves when it ends as no start fixes, or cannot be started. */
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

  /** Resolves when the newest start listens. */
  get listening() {
    return this.#listening.promise;
  }

  signal(name) {
    this.#child.signal(name);
  }

  /**
   * kill -9; resolves with the processes that it had, when it is gone.
   * @param seen it is not started again before this resolves.
   */
  async kill(seen) {
    const tree = treeOf(this.pid);
    this.#seen = seen;
    this.#listening = Promise.withResolvers();
    this.#child.signal('SIGKILL');
    await this.#child.exited;
    return tree;
  }

  /** SIGTERM; resolves with the exit code. It is not started again. */
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
