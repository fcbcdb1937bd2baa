/**
 * What SIGHUP does: reads the configuration anew and takes what a running collector can take; says what needs a restart.
 * A configuration with a fault changes nothing. What is read from other places than the configuration, such as keys and
 * certificates, is read anew in any case.
 */
import type { Logger } from 'pino';
import { type Config, ConfigError, reloaded } from '../config.js';

export interface ReloadOptions {
  /** Reads the configuration as at the start. @throws ConfigError with every fault. */
  readonly read: () => Config;
  /** Puts the new values to use. Called only when some option that can be reloaded has changed. */
  readonly apply: (config: Config) => void;
  /** What else is read anew, by what it is called in the log. One that fails leaves what was there. */
  readonly sources: Readonly<Record<string, () => unknown>>;
  readonly onBegin: () => void;
  readonly onEnd: () => void;
  readonly log: Logger;
}

export class Reload {
  /** In force now. */
  config: Config;
  #last: Promise<void>;
  #ended = false;

  /** @param started a reload that is asked for earlier waits for it. */
  constructor(
    running: Config,
    started: Promise<void>,
    private readonly options: ReloadOptions,
  ) {
    this.config = running;
    this.#last = started;
  }

  /** Has everything read anew, after what was asked for before. */
  ask(): void {
    this.#last = this.#last.then(() => (this.#ended ? undefined : this.#once()));
  }

  /** Resolves when all that was asked for is done. Never rejects. */
  get done(): Promise<void> {
    return this.#last;
  }

  /** From now on nothing more is begun. Resolves when nothing is under way. */
  async end(): Promise<void> {
    this.#ended = true;
    await this.#last;
  }

  async #once(): Promise<void> {
    const { log, sources, onBegin, onEnd } = this.options;
    onBegin();
    this.#readConfig();
    for (const [source, readAnew] of Object.entries(sources)) {
      try {
        await readAnew();
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        log.error({ source, reason }, 'cannot be read anew; what was read before stays in use');
      }
    }
    onEnd();
  }

  #readConfig(): void {
    const { read, apply, log } = this.options;
    let found: Config;
    try {
      found = read();
    } catch (error) {
      const faults =
        error instanceof ConfigError
          ? error.faults
          : [{ source: 'configuration', message: error instanceof Error ? error.message : String(error) }];
      log.error({ faults }, 'the configuration cannot be used; the one before stays in force');
      return;
    }
    const { config, taken, waiting } = reloaded(this.config, found);
    this.config = config;
    if (taken.length > 0) apply(config);
    if (waiting.length > 0)
      log.warn({ options: waiting }, 'changed in the configuration, and needs a restart');
    log.info({ options: taken }, 'configuration reloaded');
  }
}
