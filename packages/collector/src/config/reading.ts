/**
 * Reads the configuration. A value is taken from the command line, else from the environment, else from the file,
 * else it is the default.
 */
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { didYouMean } from '@clinical-events/protocol';
import { jsonFaultAt, repeatedNames } from './json-fault.js';
import { isLoopback } from '../loopback.js';
import { formatByteSize, formatDuration } from '../quantity.js';
import { CLIENT_VARIABLES, CONFIG_VARIABLE, PREFIX, parse, shown, variable } from './option.js';
import { type Config, ENTRIES, type Names, camelCase } from './options.js';

/* What is wrong with a configuration: all faults in one run. */

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

/* What the environment and the configuration file say, by option name: still text, and not yet understood. */

interface Given {
  readonly text: string;
  readonly source: string;
}
/** The text is undefined when what stands there cannot be any, and that is reported. */
type GivenInFile = Given | { readonly text: undefined; readonly source: string };

/**
 * Values from the environment, by option name. Every variable with our prefix has to be one of ours, or the client's.
 */
function fromEnvironment(env: NodeJS.ProcessEnv, faults: ConfigFault[]): Map<string, Given> {
  const given = new Map<string, Given>();
  const names = new Map(ENTRIES.map(([name]) => [variable(name), name]));
  for (const [source, text] of Object.entries(env)) {
    if (!source.startsWith(PREFIX) || text === undefined || source === CONFIG_VARIABLE) continue;
    if (CLIENT_VARIABLES.includes(source)) continue;
    const name = names.get(source);
    if (name !== undefined) given.set(name, { text, source });
    else
      faults.push({
        source,
        message: `no such setting${kubernetesHint(source) || didYouMean(source, [CONFIG_VARIABLE, ...names.keys()])}`,
      });
  }
  return given;
}

/** Kubernetes gives every pod variables for each Service: one named "collector" takes our prefix. */
function kubernetesHint(name: string): string {
  const fromService = /^COLLECTOR_(SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP))/.test(name);
  return fromService
    ? '; Kubernetes sets it for a Service named "collector": set enableServiceLinks to false'
    : '';
}

const MOST_FILE_BYTES = 1 << 20;

/**
 * Values from the configuration file, by option name; undefined when there is one and nothing is known of what it
 * says.
 */
function fromFile(file: Given | undefined, faults: ConfigFault[]): Map<string, GivenInFile> | undefined {
  const given = new Map<string, GivenInFile>();
  if (file === undefined) return given;
  let text: string;
  try {
    // Anyone who opens a pipe that no one writes to waits forever; and what a device says is endless.
    const stat = statSync(file.text);
    if (!stat.isFile() || stat.size > MOST_FILE_BYTES) {
      const why = stat.isFile() ? 'is too large for a configuration' : 'is not a regular file';
      faults.push({ source: file.source, message: `${file.text} ${why}` });
      return undefined;
    }
    text = readFileSync(file.text, 'utf8');
  } catch (error) {
    faults.push({
      source: file.source,
      message: `cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    });
    return undefined;
  }
  const fault = jsonFaultAt(text);
  if (fault !== undefined) {
    const place = `line ${fault.line}, column ${fault.column}`;
    faults.push({ source: file.source, message: `${file.text} is not JSON: see ${place}` });
    return undefined;
  }
  const content: unknown = JSON.parse(text);
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    faults.push({ source: file.source, message: `${file.text} does not hold a JSON object` });
    return undefined;
  }
  for (const name of repeatedNames(text)) {
    faults.push({ source: `${file.text}, "${name}"`, message: 'is given more than once' });
  }
  const options = new Map(ENTRIES);
  const known = [...options.keys()];
  for (const [name, value] of Object.entries(content)) {
    const source = `${file.text}, "${name}"`;
    const option = options.get(name);
    const numeric = option !== undefined && 'min' in option;
    if (option === undefined) faults.push({ source, message: `no such setting${didYouMean(name, known)}` });
    else if (typeof value !== 'string' && !(numeric && typeof value === 'number')) {
      faults.push({ source, message: numeric ? 'must be a string or a number' : 'must be a string' });
      given.set(name, { text: undefined, source });
    } else given.set(name, { text: String(value), source });
  }
  return given;
}

/* Options that do not go together. */

/** The option that is to be changed, and why. */
type Fault = readonly [option: keyof Names, message: string];

interface Rule {
  /** What it is about. Where one of them has a fault of its own, nothing more is said of it. */
  readonly between: readonly (keyof Config)[];
  readonly fault: (config: Config) => Fault | undefined;
}

const RULES: readonly Rule[] = [
  {
    between: ['queueBytes', 'maxBodyBytes'],
    fault({ queueBytes, maxBodyBytes }) {
      const least = 4 * maxBodyBytes;
      if (queueBytes >= least) return undefined;
      return ['queue-bytes', `must be at least 4 times --max-body-bytes, that is ${formatByteSize(least)}`];
    },
  },
  {
    between: ['segmentBytes', 'maxBodyBytes'],
    fault: ({ segmentBytes, maxBodyBytes }) =>
      segmentBytes < 2 * maxBodyBytes
        ? [
            'segment-bytes',
            `must be at least twice --max-body-bytes, that is ${formatByteSize(2 * maxBodyBytes)}`,
          ]
        : undefined,
  },
  {
    between: ['headersTimeoutMs', 'requestTimeoutMs'],
    fault: ({ headersTimeoutMs, requestTimeoutMs }) =>
      headersTimeoutMs > requestTimeoutMs
        ? [
            'headers-timeout-ms',
            `must be at most --request-timeout-ms, that is ${formatDuration(requestTimeoutMs)}`,
          ]
        : undefined,
  },
  {
    between: ['tlsCert', 'tlsKey'],
    fault({ tlsCert, tlsKey }) {
      if ((tlsCert === '') === (tlsKey === '')) return undefined;
      return tlsKey === ''
        ? ['tls-cert', 'needs --tls-key as well']
        : ['tls-key', 'needs --tls-cert as well'];
    },
  },
  {
    between: ['tlsCert', 'tlsClientCa'],
    fault: ({ tlsCert, tlsClientCa }) =>
      tlsClientCa !== '' && tlsCert === ''
        ? ['tls-client-ca', 'needs --tls-cert and --tls-key as well']
        : undefined,
  },
  {
    between: ['tlsClientAuth', 'tlsClientCa'],
    fault: ({ tlsClientAuth, tlsClientCa }) =>
      tlsClientAuth === 'optional' && tlsClientCa === ''
        ? ['tls-client-auth', 'needs --tls-client-ca as well']
        : undefined,
  },
  {
    between: ['management', 'managementHost', 'managementTokenFile'],
    fault: ({ management, managementHost, managementTokenFile }) =>
      management === 'on' && managementTokenFile === '' && !isLoopback(managementHost)
        ? [
            'management-host',
            `${managementHost} is reached from other machines: needs --management-token-file as well`,
          ]
        : undefined,
  },
  {
    between: ['management', 'managementHost', 'managementPort', 'host', 'port'],
    fault: ({ management, host, port, managementHost, managementPort }) =>
      management === 'on' && managementPort !== 0 && managementPort === port && managementHost === host
        ? ['management-port', `must be another one than --port, that is ${port}`]
        : undefined,
  },
];

/**
 * What each option for itself cannot tell.
 * @param sound the options without a fault of their own.
 * @param sourceOf where an option's value was given.
 */
function contradictions(sound: Partial<Config>, sourceOf: (name: keyof Names) => string): ConfigFault[] {
  const known = RULES.filter(({ between }) => between.every((name) => sound[name] !== undefined));
  return known.flatMap(({ fault }) => {
    const [option, message] = fault(sound as Config) ?? [];
    return option === undefined || message === undefined ? [] : [{ source: sourceOf(option), message }];
  });
}

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
export interface ConfigReading {
  readonly settings: readonly Setting[];
  readonly faults: readonly ConfigFault[];
  /** What the sound options are, by their names in the configuration. */
  readonly sound: Partial<Config>;
  /** Only without a fault. */
  readonly config: Config | undefined;
  /** The configuration file, if one was named. */
  readonly file: string | undefined;
  /** Where an option was given; its name on the command line when it was not. */
  readonly sourceOf: (option: string) => string;
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
): ConfigReading {
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
    sourceOf,
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
