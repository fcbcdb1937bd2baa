/**
 * What SIGHUP does: reads the configuration again and takes what a running collector can take; says what needs a restart.
 * A configuration with a fault changes nothing. What is read from other places than the configuration, such as keys and
 * certificates, is read again in any case. The last line in the log says what has come of it all.
 */
import type { Logger } from 'pino';
import { type Config, ConfigError, reloaded } from '../../config.js';
import { messageOf } from '../../system-code.js';

export interface ReloadOptions {
  /** Reads the configuration as at the start. @throws ConfigError with every fault. */
  readonly read: () => Config;
  /** Puts the new values to use. Called only when some option that can be reloaded has changed. */
  readonly apply: (config: Config) => void;
  /**
   * What else is read again, by what it is called in the log. One that throws, or resolves with false and has said why,
   * leaves what was there.
   */
  readonly sources: Readonly<Record<string, () => Promise<boolean>>>;
  readonly onBegin: () => void;
  readonly onEnd: () => void;
  readonly log: Logger;
}

/** The configuration that is in force: as the collector was started with, or as it was reloaded. */
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

  /** Has everything read again, after what was asked for before. */
  ask(): void {
    this.#last = this.#last.then(() => (this.#ended ? undefined : this.#once()));
  }

  /** Resolves when all that was asked for is done. Never rejects. */
  get done(): Promise<void> {
    return this.#last;
  }

  /**
   * From now on no reload begins. Resolves when none is under way, or when the time is over, because a file on a lost
   * mount may never be read; the reload then logs nothing more.
   */
  async end(timeoutMs: number): Promise<void> {
    this.#ended = true;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(() => {
        this.#givenUp = true;
        this.options.log.warn('a reload hangs, most likely at a file system that does not answer');
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
          'cannot be read again; what was read before stays in use',
        );
      }
    }
    if (this.#givenUp) return;
    report(kept);
    onEnd();
  }

  /** @returns logs the outcome, given the other sources that could not be read again. */
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
      return () => log.error({ faults }, 'the configuration cannot be used; the one before stays in force');
    }
    const { config, taken, waiting } = reloaded(this.settings.current, found);
    this.settings.current = config;
    if (taken.length > 0) apply(config);
    return (kept) => {
      if (waiting.length > 0)
        log.warn({ options: waiting }, 'changed in the configuration, and needs a restart');
      if (kept.length === 0) log.info({ options: taken }, 'configuration reloaded');
      else log.error({ options: taken, kept }, 'configuration reloaded, but not what is listed as kept');
    };
  }
}
