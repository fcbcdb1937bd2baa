/** The reasons for which a running collector ends or reloads: signals, and failing parts. */
import { isatty } from 'node:tty';
import type { Logger } from 'pino';
import { STRAY } from '../../stray-signals.js';
import { EXIT, type ExitCode } from '../exit-codes.js';

const STOPPING = ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const;

/**
 * Signal handlers. SIGHUP reloads a service; on a terminal it means that the terminal has closed, and ends
 * the collector (docs/internals/adr/0010-signals.md). SIGTERM, SIGINT and SIGQUIT end it explicitly, because
 * the first process of a container has no default actions.
 */
export class Signals {
  readonly #onTerminal = [0, 1, 2].some((descriptor) => isatty(descriptor));
  /** Used until there is anything to finish. */
  readonly #exit = () => process.exit(EXIT.ok);
  #reload: (() => void) | undefined;
  #isReloadAsked = false;

  constructor(
    private readonly end: (signal: NodeJS.Signals) => void,
    log: Logger,
  ) {
    for (const signal of STRAY) process.on(signal, () => log.info({ signal }, 'ignored an unused signal'));
    if (!this.#onTerminal) process.on('SIGHUP', () => this.#askReload());
    for (const signal of STOPPING) process.on(signal, this.#exit);
  }

  /** From now on, stop signals lead to an orderly end. */
  endInOrder(): void {
    for (const signal of STOPPING) process.off(signal, this.#exit).on(signal, this.end);
    if (this.#onTerminal) process.on('SIGHUP', this.end);
  }

  /** From now on, reload signals call `reload`; called immediately if one arrived earlier. */
  reloadBy(reload: () => void): void {
    this.#reload = reload;
    if (this.#isReloadAsked) reload();
  }

  #askReload(): void {
    this.#isReloadAsked = true;
    this.#reload?.();
  }
}

/** Why the collector ends; a failure overrides an orderly stop. */
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
