/**
 * Reports the state of the collector to the service manager, as sd_notify(3) has it: ready, reloading, stopping, alive.
 *
 * What is said goes through the program systemd-notify. The socket takes datagrams, which Node cannot send to it, and
 * every package that can brings native code to be built. The program comes with systemd, so that it is there wherever
 * someone listens. The unit has to say NotifyAccess=all, because it is not the main process that speaks.
 *
 * One shell, started before anything else, runs it again and again: to start a process from this one would hold up all
 * requests, by 60 ms on a busy machine with 400 MiB in memory, while a line in a pipe holds up nothing.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import type { Logger } from 'pino';
import type { ServiceManagement } from '../../config.js';

/** A line for each thing said, its one or two words with a tab between; an exit code for each that could not be. */
const SHELL = `tab=$(printf '\\t'); while IFS="$tab" read -r state more; do
  systemd-notify "$state" \${more:+"$more"} >/dev/null 2>&1 || echo $?
done`;
/** How long the last words may take, in milliseconds: the program waits until the manager has read them. */
const LAST_WORDS_MS = 5000;
/** Signs of life in the time that the manager grants. */
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

  /** Connections are accepted: what depends on the collector may start. Also ends a reload. */
  ready(status: string): void {
    this.#say('READY=1', `STATUS=${status}`);
  }

  /** The configuration is read again; {@link ready} must follow. */
  reloading(): void {
    this.#say('RELOADING=1', `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`);
  }

  stopping(): void {
    this.#say('STOPPING=1', 'STATUS=finishing what was begun');
  }

  /**
   * From now on shows that the collector lives, if the manager wants to know, as long as the event loop turns and
   * `livesSince` agrees: else the manager ends the process and starts it again.
   * @param livesSince whether all threads have reported within that time, in milliseconds.
   */
  watch(livesSince: (milliseconds: number) => boolean): void {
    const { watchdogMs } = this.#management;
    if (watchdogMs === undefined) return;
    const everyMs = watchdogMs / SIGNS;
    let lived = true;
    this.#watching = setInterval(() => {
      const lives = livesSince(2 * everyMs);
      if (lives) this.#say('WATCHDOG=1');
      else if (lived) this.#log.error('a thread does not answer; the service manager is told of no life');
      lived = lives;
    }, everyMs).unref();
  }

  /** On return all that was said has been read, or never will be. */
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
      this.#log.warn({ reason }, 'systemd-notify cannot tell the service manager how it goes');
    this.#warned = true;
  }
}
