/** What a running collector takes of a configuration that was read anew. */
import { camelCase, ENTRIES, type Config } from './options.js';

/** What a running collector can take of a configuration that was read anew. */
export interface Reloaded {
  /** The running one, with the new values of all options that can be reloaded. */
  readonly config: Config;
  /** Options that have a new value now. */
  readonly taken: readonly string[];
  /** Options that were said to be otherwise, and need a restart. */
  readonly waiting: readonly string[];
}

/** Sound when both configurations are: no option that can be reloaded is bound to one that cannot. */
export function reloaded(running: Config, read: Config): Reloaded {
  const changed = ENTRIES.filter(([name]) => {
    const key = camelCase(name) as keyof Config;
    return running[key] !== read[key];
  });
  const [taken, waiting] = [true, false].map((wanted) =>
    changed.filter(([, option]) => (option.reloadable === true) === wanted).map(([name]) => name),
  ) as [string[], string[]];
  const values = taken.map((name) => [camelCase(name), read[camelCase(name) as keyof Config]]);
  const config = { ...running, ...Object.fromEntries(values) } as Config;
  return { config: Object.freeze(config), taken, waiting };
}
