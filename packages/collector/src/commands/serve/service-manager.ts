/**
 * Reports the state of the collector to the service manager (sd_notify(3)): ready, reloading, stopping,
 * alive.
 *
 * Messages go through the program systemd-notify: Node cannot send datagrams to the manager's socket, and
 * packages that can need a native build. The unit must set NotifyAccess=all, since it is not the main process
 * that sends.
 *
 * A shell, started first, runs the program repeatedly. Spawning it from the collector would block all
 * requests for 60 ms on a busy machine with 400 MiB in memory; writing a line to a pipe does not block.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import type { Logger } from 'pino';
import type { ServiceManagement } from '../../config.js';

/**
 * Reads one message per line, with one or two words separated by a tab; prints an exit code for each failure.
 */
const SHELL = `tab=$(printf '\\t'); while IFS="$tab" read -r state more; do
  systemd-notify "$state" \${more:+"$more"} >/dev/null 2>&1 || echo $?
done`;
/** How long the last message may take, in milliseconds: the program waits until the manager has read it. */
const LAST_WORDS_MS = 5000;
/** Number of watchdog messages per watchdog period. */
const SIGNS = 4;

export class ServiceManager {
  readonly #management: ServiceManagement;
  readonly #log: Logger;
  readonly #shell: ChildProcess | undefined;
  readonly #gone: Promise<unknown>;
  #watching: NodeJS.Timeout | undefined;
  #warned = false;

  constructor(management: ServiceManagement, log: Logger) {
    this.#management = management;
    this.#log = log;
    if (!management.listens) {
      this.#gone = Promise.resolve();
      return;
    }
    const shell = spawn('/bin/sh', ['-c', SHELL], { stdio: ['pipe', 'pipe', 'ignore'] });
    this.#gone = new Promise((resolve) => shell.once('close', resolve).once('error', resolve));
    shell.on('error', (error) => this.#warn(error.message));
    shell.stdin.on('error', (error) => this.#warn(error.message));
    shell.stdout.on('data', (codes: Buffer) =>
      this.#warn(`exit code ${codes.toString().split('\n', 1).join()}`),
    );
    this.#shell = shell;
  }

  /** Connections are accepted, so dependent services may start. Also ends a reload. */
  ready(status: string): void {
    this.#say('READY=1', `STATUS=${status}`);
  }

  /** The configuration is being read again; {@link ready} must follow. */
  reloading(): void {
    this.#say('RELOADING=1', `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`);
  }

  stopping(): void {
    this.#say('STOPPING=1', 'STATUS=finishing pending requests');
  }

  /**
   * Sends watchdog messages, if the manager wants them, while the event loop runs and `livesSince` returns
   * true. Without them the manager kills and restarts the process.
   * @param livesSince whether all threads have reported within the given milliseconds.
   */
  watch(livesSince: (milliseconds: number) => boolean): void {
    const { watchdogMs } = this.#management;
    if (watchdogMs === undefined) return;
    const everyMs = watchdogMs / SIGNS;
    let lived = true;
    this.#watching = setInterval(() => {
      const lives = livesSince(2 * everyMs);
      if (lives) this.#say('WATCHDOG=1');
      else if (lived) this.#log.error('a thread does not respond; watchdog messages are withheld');
      lived = lives;
    }, everyMs).unref();
  }

  /** Resolves when all messages have been read, or the time is over. */
  async close(): Promise<void> {
    clearInterval(this.#watching);
    const timer = setTimeout(() => this.#shell?.kill('SIGKILL'), LAST_WORDS_MS);
    this.#shell?.stdin?.end();
    await this.#gone;
    clearTimeout(timer);
  }

  #say(...words: readonly string[]): void {
    this.#shell?.stdin?.write(`${words.join('\t')}\n`);
  }

  #warn(reason: string): void {
    if (!this.#warned)
      this.#log.warn({ reason }, 'systemd-notify cannot report the state to the service manager');
    this.#warned = true;
  }
}
