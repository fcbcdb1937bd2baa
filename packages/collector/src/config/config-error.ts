/** What is wrong with a configuration: every fault at once. */

/** What is wrong, and where it was said: an option, a variable, or a file with the name in it. */
export interface ConfigFault {
  readonly source: string;
  readonly message: string;
}

/** The configuration cannot be used. Tells every fault, not just the first. */
export class ConfigError extends Error {
  override name = 'ConfigError';
  constructor(readonly faults: readonly ConfigFault[]) {
    super(faults.map(({ source, message }) => `${source}: ${message}`).join('\n'));
  }
}
