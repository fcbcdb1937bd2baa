/**
 * Reads the configuration. The command line takes precedence over the environment, the file and the defaults.
 */
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { didYouMean } from '@clinical-events/protocol';
import { isLoopback } from '../loopback.js';
import { formatByteSize, formatDuration } from '../quantity.js';
import { JsonOutline, parseJson, placeIn, stringEnd } from '../json-text.js';
import {
  CLIENT_VARIABLES,
  CONFIG_VARIABLE,
  isLimit,
  LIMITS,
  LIMITS_VARIABLE,
  PREFIX,
  parse,
  shown,
  variable,
} from './option.js';
import { type Config, ENTRIES, type Name, keyOf } from './options.js';
import { messageOf } from '../system-code.js';

const NAMES = ENTRIES.map(([name]) => name).filter((name) => !isLimit(name));
const MEMBERS = ENTRIES.filter(([name]) => isLimit(name)).map(([name]) => name.slice(LIMITS.length));
const NUMERIC = new Set(ENTRIES.filter(([, option]) => 'min' in option).map(([name]) => name));

/* Faults of a configuration; all are reported in one run. */

/** A fault and its source: an option, a variable, or a file with the member's name. */
export interface ConfigFault {
  readonly source: string;
  readonly message: string;
}

/** The configuration cannot be used. Has every fault, not only the first. */
export class ConfigError extends Error {
  override name = 'ConfigError';
  constructor(readonly faults: readonly ConfigFault[]) {
    super(faults.map(({ source, message }) => `${source}: ${message}`).join('\n'));
  }
}

/* Values from the environment and the file by option name, as unparsed text. */

interface Given {
  /** Undefined if the value has the wrong type, which is reported. */
  readonly text: string | undefined;
  readonly source: string;
}

/** A JSON object of settings, with the values and faults found in it. */
interface Place {
  /** The file or the variable. */
  readonly name: string;
  /** The prefix of its names: `limits.` in COLLECTOR_LIMITS. */
  readonly prefix: '' | typeof LIMITS;
  readonly given: Map<string, Given>;
  readonly faults: ConfigFault[];
  /** Reports that the object cannot be used, without quoting it: it may contain a secret. */
  readonly refuse: (message: string) => void;
}

/**
 * Values from the environment by option name. A variable with our prefix must be one of ours or the client's.
 */
function fromEnvironment(env: NodeJS.ProcessEnv, faults: ConfigFault[]): Map<string, Given> {
  const given = new Map<string, Given>();
  const names = new Map(NAMES.map((name) => [variable(name), name]));
  for (const [source, text] of Object.entries(env)) {
    if (!source.startsWith(PREFIX) || text === undefined || source === CONFIG_VARIABLE) continue;
    if (CLIENT_VARIABLES.includes(source)) continue;
    const name = names.get(source);
    if (name !== undefined) given.set(name, { text, source });
    else if (source === LIMITS_VARIABLE) {
      takeText(text, limitsAt(source, { name: source, given, faults }));
    } else {
      const known = [CONFIG_VARIABLE, LIMITS_VARIABLE, ...names.keys()];
      const hint = kubernetesHint(source) || limitsHint(source) || didYouMean(source, known);
      faults.push({ source, message: `no such setting${hint}` });
    }
  }
  return given;
}

/** Kubernetes sets variables for each Service; those of a Service named "collector" have our prefix. */
function kubernetesHint(name: string): string {
  const fromService = /^COLLECTOR_(SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP))/.test(name);
  return fromService
    ? '; Kubernetes sets it for a Service named "collector": set enableServiceLinks to false'
    : '';
}

/** Explains where to put a member of `limits` that was given as an option; empty for other names. */
export function limitsHint(name: string): string {
  const member = MEMBERS.find((each) => name === each || name === variable(each));
  if (member === undefined) return '';
  return `; give ${member} in ${name === member ? '"limits"' : LIMITS_VARIABLE}`;
}

const MOST_FILE_BYTES = 1 << 20;

/** Values from the configuration file by option name; undefined if the file was named and cannot be read. */
function fromFile(
  file: { readonly text: string; readonly source: string } | undefined,
  faults: ConfigFault[],
): Map<string, Given> | undefined {
  const given = new Map<string, Given>();
  if (file === undefined) return given;
  const refuse = (message: string) => {
    faults.push({ source: file.source, message: `${file.text} ${message}` });
  };
  let text: string;
  try {
    // Opening a pipe without a writer would wait forever, and a device may have no end.
    const stat = statSync(file.text);
    if (!stat.isFile() || stat.size > MOST_FILE_BYTES) {
      refuse(stat.isFile() ? 'is too large for a configuration' : 'is not a regular file');
      return undefined;
    }
    text = readFileSync(file.text, 'utf8');
  } catch (error) {
    faults.push({
      source: file.source,
      message: `cannot be read: ${messageOf(error)}`,
    });
    return undefined;
  }
  return takeText(text, { name: file.text, prefix: '', given, faults, refuse }) ? given : undefined;
}

/** @returns whether the text is usable. */
function takeText(text: string, place: Place): boolean {
  const { name: source, faults, refuse } = place;
  const { faultAt, repeatedAt } = new JsonOutline(text);
  if (faultAt !== undefined) {
    refuse(`is not JSON: see ${placeIn(text, faultAt)}`);
    return false;
  }
  if (repeatedAt !== undefined) {
    const member = JSON.parse(text.slice(repeatedAt, stringEnd(text, repeatedAt) + 1)) as string;
    const name = MEMBERS.includes(member) ? LIMITS + member : member;
    faults.push({ source: `${source}, "${name}"`, message: 'is given more than once' });
  }
  return takeMembers(parseJson(text), place);
}

function takeMembers(content: unknown, place: Place): boolean {
  const { prefix, given, faults, refuse } = place;
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    refuse('is not a JSON object');
    return false;
  }
  const known = prefix === '' ? [...NAMES, 'limits'] : MEMBERS;
  for (const [member, value] of Object.entries(content)) {
    const name = prefix + member;
    const source = `${place.name}, "${name}"`;
    if (!known.includes(member)) {
      faults.push({ source, message: `no such setting${limitsHint(member) || didYouMean(member, known)}` });
    } else if (name === 'limits') {
      takeMembers(value, limitsAt(source, place));
    } else {
      const numeric = NUMERIC.has(name);
      const usable = typeof value === 'string' || (numeric && typeof value === 'number');
      if (!usable)
        faults.push({ source, message: numeric ? 'must be a string or a number' : 'must be a string' });
      given.set(name, { text: usable ? String(value) : undefined, source });
    }
  }
  return true;
}

/** @param source of a fault of the whole object. */
function limitsAt(source: string, { name, given, faults }: Pick<Place, 'name' | 'given' | 'faults'>): Place {
  const refuse = (message: string) => {
    faults.push({ source, message });
    // No limit is known: a default must not be reported as contradicting another option.
    for (const member of MEMBERS) given.set(LIMITS + member, { text: undefined, source });
  };
  return { name, prefix: LIMITS, given, faults, refuse };
}

/* Contradictions between options. */

/** The option to change, and the message. */
type Fault = readonly [option: Name, message: string];

interface Rule {
  /** The options involved; the rule is skipped if one of them is invalid. */
  readonly between: readonly (keyof Config)[];
  readonly fault: (config: Config) => Fault | undefined;
}

const RULES: readonly Rule[] = [
  {
    between: ['queueBytes', 'maxBodyBytes'],
    fault({ queueBytes, maxBodyBytes }) {
      const least = 4 * maxBodyBytes;
      if (queueBytes >= least) return undefined;
      return [
        'limits.queue-bytes',
        `must be at least 4 times --max-body-bytes, that is ${formatByteSize(least)}`,
      ];
    },
  },
  {
    between: ['segmentBytes', 'maxBodyBytes'],
    fault: ({ segmentBytes, maxBodyBytes }) =>
      segmentBytes < 2 * maxBodyBytes
        ? [
            'limits.segment-bytes',
            `must be at least twice --max-body-bytes, that is ${formatByteSize(2 * maxBodyBytes)}`,
          ]
        : undefined,
  },
  {
    between: ['headersTimeoutMs', 'requestTimeoutMs'],
    fault: ({ headersTimeoutMs, requestTimeoutMs }) =>
      headersTimeoutMs > requestTimeoutMs
        ? [
            'limits.headers-timeout-ms',
            `must be at most limits.request-timeout-ms, that is ${formatDuration(requestTimeoutMs)}`,
          ]
        : undefined,
  },
  {
    between: ['tlsCert', 'tlsKey'],
    fault({ tlsCert, tlsKey }) {
      if ((tlsCert === '') === (tlsKey === '')) return undefined;
      return tlsKey === '' ? ['tls-cert', 'requires --tls-key'] : ['tls-key', 'requires --tls-cert'];
    },
  },
  {
    between: ['tlsCert', 'tlsClientCa'],
    fault: ({ tlsCert, tlsClientCa }) =>
      tlsClientCa !== '' && tlsCert === ''
        ? ['tls-client-ca', 'requires --tls-cert and --tls-key']
        : undefined,
  },
  {
    between: ['tlsClientAuth', 'tlsClientCa'],
    fault: ({ tlsClientAuth, tlsClientCa }) =>
      tlsClientAuth === 'optional' && tlsClientCa === ''
        ? ['tls-client-auth', 'requires --tls-client-ca']
        : undefined,
  },
  {
    between: ['management', 'managementHost', 'managementTokenFile'],
    fault: ({ management, managementHost, managementTokenFile }) =>
      management === 'on' && managementTokenFile === '' && !isLoopback(managementHost)
        ? [
            'management-host',
            `${managementHost} is reachable from other machines: requires --management-token-file`,
          ]
        : undefined,
  },
  {
    between: ['otlpPort', 'host', 'port', 'management', 'managementHost', 'managementPort'],
    fault({ otlpPort, host, port, management, managementHost, managementPort }) {
      if (otlpPort === '' || otlpPort === 0) return undefined;
      const isManagement = management === 'on' && managementPort === otlpPort && managementHost === host;
      const other = otlpPort === port ? 'port' : isManagement ? 'management-port' : undefined;
      return other && ['otlp-port', `is the same as --${other}: OTLP needs its own port`];
    },
  },
  {
    between: ['management', 'managementHost', 'managementPort', 'host', 'port'],
    fault: ({ management, host, port, managementHost, managementPort }) =>
      management === 'on' && managementPort !== 0 && managementPort === port && managementHost === host
        ? ['management-port', `must differ from --port, which is ${port}`]
        : undefined,
  },
];

/**
 * Contradictions between options that are valid individually.
 * @param sound the valid options.
 * @param sourceOf the source of an option's value.
 */
function contradictions(sound: Partial<Config>, sourceOf: (name: Name) => string): ConfigFault[] {
  const known = RULES.filter(({ between }) => between.every((name) => sound[name] !== undefined));
  return known.flatMap(({ fault }) => {
    const [option, message] = fault(sound as Config) ?? [];
    return option === undefined || message === undefined ? [] : [{ source: sourceOf(option), message }];
  });
}

/** The kind of source of a value. */
type Origin = 'command line' | 'environment' | 'file' | 'default';

/** The value of an option, and its source. */
interface Setting {
  readonly name: string;
  readonly value: string | number;
  /** The value in readable units: `64MiB`, `10s`. Empty if there is none. */
  readonly shown: string;
  readonly from: Origin;
  /** The option, or the file or variable with the member's name. */
  readonly source: string;
  readonly reloadable: boolean;
}

/** The whole configuration: the valid options, and all faults. */
export interface ConfigReading {
  readonly settings: readonly Setting[];
  readonly faults: readonly ConfigFault[];
  /** The valid options, by their names in the configuration. */
  readonly sound: Partial<Config>;
  /** Undefined if there is a fault. */
  readonly config: Config | undefined;
  /** The configuration file, if one was named. */
  readonly file: string | undefined;
  /** The source of an option; its name on the command line if it was not given. */
  readonly sourceOf: (option: string) => string;
}

/**
 * Reads and checks the whole configuration, including options that the current command does not use, so that
 * a mistake is found before the next start. Never throws.
 * @param commandLine values given as options, by option name (`data-dir`), including `config`.
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
  const places: readonly (readonly [Origin, ReadonlyMap<string, Given>])[] = [
    ['command line', fromOptions],
    ['environment', fromVariables],
    ['file', inFile ?? new Map<string, Given>()],
  ];
  const values: Record<string, string | number> = {};
  const settings: Setting[] = [];
  const sourceOf = (name: string) =>
    places.map(([, given]) => given.get(name)?.source).find((source) => source !== undefined) ??
    (isLimit(name) ? name : `--${name}`);
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
    values[keyOf(name)] = value;
    const shownValue = value === '' ? '' : shown(option, value);
    settings.push({ name, value, shown: shownValue, from, source, reloadable: option.reloadable === true });
  }
  const config = values as Config;
  // If the file is unreadable, its settings would appear to be missing.
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
 * The configuration.
 * @throws {@link ConfigError} with every fault and its source.
 */
export function loadConfig(commandLine: Readonly<Record<string, string>> = {}, env = process.env): Config {
  const { config, faults } = readConfig(commandLine, env);
  if (config === undefined) throw new ConfigError(faults);
  return config;
}
