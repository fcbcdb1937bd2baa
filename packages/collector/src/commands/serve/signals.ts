/** What ends a running collector, or has it read its configuration again: signals, and parts that fail. */
import { isatty } from 'node:tty';
import type { Logger } from 'pino';
import { STRAY } from '../../stray-signals.js';
import { EXIT, type ExitCode } from '../exit-codes.js';

const STOPPING = ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const;

/**
 * What the process does on a signal. SIGHUP: a service reloads; on a terminal it says that the terminal is gone, and ends
 * the collector (docs/internals/adr/0010-signals.md). SIGTERM, SIGINT and SIGQUIT end it: as the first process of a
 * container it gets no default action.
 */
export class Signals {
  readonly #onTerminal = [0, 1, 2].some((descriptor) => isatty(descriptor));
  /** Nothing is begun yet that could be finished. */
  readonly #exit = () => process.exit(EXIT.ok);
  #reload: (() => void) | undefined;
  #isReloadAsked = false;

  constructor(
    private readonly end: (signal: NodeJS.Signals) => void,
    log: Logger,
  ) {
    for (const signal of STRAY)
      process.on(signal, () => log.info({ signal }, 'a signal without a use was ignored'));
    if (!this.#onTerminal) process.on('SIGHUP', () => this.#askReload());
    for (const signal of STOPPING) process.on(signal, this.#exit);
  }

  /** From now on a signal to stop asks for an orderly end. */
  endInOrder(): void {
    for (const signal of STOPPING) process.off(signal, this.#exit).on(signal, this.end);
    if (this.#onTerminal) process.on('SIGHUP', this.end);
  }

  /** From now on a signal to reload calls `reload`; at once if one has come before. */
  reloadBy(reload: () => void): void {
    this.#reload = reload;
    if (this.#isReloadAsked) reload();
  }

  #askReload(): void {
    this.#isReloadAsked = true;
    this.#reload?.();
  }
}

/** Why the collector ends; a failure overrules an orderly stop. */
export class Shutdown {
  code: ExitCode | undefined;
  readonly #begun = Promise.withResolvers<{ readonly code: ExitCode; readonly reason: string }>();

  get begun(): Promise<{ readonly code: ExitCode; readonly reason: string }> {
    return this.#begun.promise;
  }

  begin(code: ExitCode, reason: string): void {
    if (this.code === undefined || code !== EXIT.ok) this.code = code;
    this.#begun.resolve({ code, reason });
  }
}
