/**
 * The reload on SIGHUP: reads the configuration again, applies what a running collector can apply, and
 * reports what needs a restart. An invalid configuration changes nothing. Other sources, such as keys and
 * certificates, are read again in any case. The last line in the log reports the outcome.
 */
import type { Logger } from 'pino';
import { type Config, ConfigError, reloaded } from '../../config.js';
import { messageOf } from '../../system-code.js';

export interface ReloadOptions {
  /** Reads the configuration as at the start. @throws ConfigError with every fault. */
  readonly read: () => Config;
  /** Applies the new values. Called only if a reloadable option has changed. */
  readonly apply: (config: Config) => void;
  /**
   * Other sources to read again, by their name in the log. A source that throws, or resolves with false after
   * logging the reason, keeps its previous content.
   */
  readonly sources: Readonly<Record<string, () => Promise<boolean>>>;
  readonly onBegin: () => void;
  readonly onEnd: () => void;
  readonly log: Logger;
}

/** The configuration in force, from the start or from the last reload. */
export interface Settings {
  current: Config;
}

export class Reload {
  #last: Promise<void> = Promise.resolve();
  #ended = false;
  #givenUp = false;

  constructor(
    private readonly settings: Settings,
    private readonly options: ReloadOptions,
  ) {}

  /** Requests a reload, which follows any earlier one. */
  ask(): void {
    this.#last = this.#last.then(() => (this.#ended ? undefined : this.#once()));
  }

  /** Resolves when all requested reloads are done. Never rejects. */
  get done(): Promise<void> {
    return this.#last;
  }

  /**
   * Prevents further reloads. Resolves when none is in progress or the time is over, since reading from a
   * lost mount may never end; such a reload logs nothing more.
   */
  async end(timeoutMs: number): Promise<void> {
    this.#ended = true;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(() => {
        this.#givenUp = true;
        this.options.log.warn('a reload is stuck, most likely in a file system that does not respond');
        resolve();
      }, timeoutMs);
    });
    await Promise.race([this.#last, late]);
    clearTimeout(timer);
  }

  async #once(): Promise<void> {
    const { log, sources, onBegin, onEnd } = this.options;
    onBegin();
    const report = this.#readConfig();
    const kept: string[] = [];
    for (const [source, readAgain] of Object.entries(sources)) {
      try {
        if (!(await readAgain())) kept.push(source);
      } catch (error) {
        kept.push(source);
        log.error(
          { source, reason: messageOf(error) },
          'cannot be read again; the previous content stays in use',
        );
      }
    }
    if (this.#givenUp) return;
    report(kept);
    onEnd();
  }

  /** @returns a function that logs the outcome, given the other sources that could not be read again. */
  #readConfig(): (kept: readonly string[]) => void {
    const { read, apply, log } = this.options;
    let found: Config;
    try {
      found = read();
    } catch (error) {
      const faults =
        error instanceof ConfigError
          ? error.faults
          : [{ source: 'configuration', message: messageOf(error) }];
      return () => log.error({ faults }, 'the configuration is invalid; the previous one stays in force');
    }
    const { config, taken, waiting } = reloaded(this.settings.current, found);
    this.settings.current = config;
    if (taken.length > 0) apply(config);
    return (kept) => {
      if (waiting.length > 0)
        log.warn({ options: waiting }, 'changed in the configuration; a restart is needed');
      if (kept.length === 0) log.info({ options: taken }, 'configuration reloaded');
      else log.error({ options: taken, kept }, 'configuration reloaded, except the sources listed in kept');
    };
  }
}
