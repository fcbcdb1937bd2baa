/**
 * Reads the configuration. A value is taken from the command line, else from the environment, else from the file, else it
 * is the default.
 */
import path from 'node:path';
import { ConfigError, type ConfigFault } from './config-error.js';
import { contradictions } from './contradictions.js';
import { fromEnvironment, fromFile, type GivenInFile } from './given.js';
import { parse, shown } from './option-value.js';
import { camelCase, ENTRIES, type Config } from './options.js';
import { CONFIG_VARIABLE } from './variable.js';

/** Where a value was said. */
type Origin = 'command line' | 'environment' | 'file' | 'default';

/** One option as it stands: what it is, and who said so. */
interface Setting {
  readonly name: string;
  readonly value: string | number;
  /** The value as a person writes it: `64MiB`, `10s`. Empty when nothing is chosen. */
  readonly shown: string;
  readonly from: Origin;
  /** The option, the variable, or the file and the name in it. */
  readonly source: string;
  readonly reloadable: boolean;
}

/** All that was given, read: the options that are sound, and what is wrong with the others or between them. */
export interface Reading {
  readonly settings: readonly Setting[];
  readonly faults: readonly ConfigFault[];
  /** What the sound options are, by their names in the configuration. */
  readonly sound: Partial<Config>;
  /** Only without a fault. */
  readonly config: Config | undefined;
  /** The configuration file, if one was named. */
  readonly file: string | undefined;
}

/**
 * Reads and checks the whole configuration, also the options that the command at hand does not use: a mistake in
 * what all commands share should not wait for the next start to be seen. Never throws.
 * @param commandLine the values given as options, by option name (`data-dir`), the `config` file among them.
 * @param env the environment.
 */
export function readConfig(
  commandLine: Readonly<Record<string, string>> = {},
  env: NodeJS.ProcessEnv = process.env,
): Reading {
  const faults: ConfigFault[] = [];
  const fromOptions = new Map(
    Object.entries(commandLine).map(([name, text]) => [name, { text, source: `--${name}` }]),
  );
  const fromVariables = fromEnvironment(env, faults);
  const configVariable = env[CONFIG_VARIABLE];
  const file =
    fromOptions.get('config') ??
    (configVariable === undefined ? undefined : { text: configVariable, source: CONFIG_VARIABLE });
  const inFile = fromFile(file, faults);
  const places: readonly (readonly [Origin, ReadonlyMap<string, GivenInFile>])[] = [
    ['command line', fromOptions],
    ['environment', fromVariables],
    ['file', inFile ?? new Map<string, GivenInFile>()],
  ];
  const values: Record<string, string | number> = {};
  const settings: Setting[] = [];
  const sourceOf = (name: string) =>
    places.map(([, given]) => given.get(name)?.source).find((source) => source !== undefined) ?? `--${name}`;
  for (const [name, option] of ENTRIES) {
    const [from, givenThere] = places.find(([, given]) => given.has(name)) ?? ['default' as const, undefined];
    const given = givenThere?.get(name);
    if (given !== undefined && given.text === undefined) continue;
    const parsed =
      given === undefined && option.default === ''
        ? { value: '' }
        : parse(option, given?.text ?? String(option.default));
    const source = sourceOf(name);
    if ('reason' in parsed) {
      faults.push({ source, message: parsed.reason });
      continue;
    }
    const { dataDir } = values;
    const value =
      name === 'signing-keys' && parsed.value === '' && dataDir !== undefined
        ? path.join(String(dataDir), 'signing-keys')
        : parsed.value;
    values[camelCase(name)] = value;
    const shownValue = value === '' ? '' : shown(option, value);
    settings.push({ name, value, shown: shownValue, from, source, reloadable: option.reloadable === true });
  }
  const config = values as Config;
  // Of a file that says nothing, what it was to say would seem to be missing.
  if (inFile !== undefined) faults.push(...contradictions(config, sourceOf));
  return {
    settings,
    faults,
    sound: config,
    config: faults.length === 0 ? Object.freeze(config) : undefined,
    file: file?.text,
  };
}

/**
 * The configuration, or every fault in it.
 * @throws {@link ConfigError} with every fault and its source.
 */
export function loadConfig(commandLine: Readonly<Record<string, string>> = {}, env = process.env): Config {
  const { config, faults } = readConfig(commandLine, env);
  if (config === undefined) throw new ConfigError(faults);
  return config;
}
