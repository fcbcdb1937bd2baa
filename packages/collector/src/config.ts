/**
 * The collector's configuration, declared once: command-line options, environment variables, the configuration file,
 * their help and the table in the README all come from {@link OPTIONS}. The only reader of the environment.
 *
 * A value is taken from the command line, else from the environment, else from the file, else it is the default.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { PROFILES } from '@clinical-events/protocol';
import { jsonFaultAt } from './json-fault.js';
import { isLoopback } from './loopback.js';
import { didYouMean } from './nearest-name.js';
import { formatByteSize, formatDuration, parseByteSize, parseDuration } from './quantity.js';

/** The commands that an option can apply to; `issuing` stands for those of `keys` that hand out a key. */
export type CommandName =
  | 'serve'
  | 'keys'
  | 'issuing'
  | 'events'
  | 'records'
  | 'report'
  | 'import'
  | 'doctor'
  | 'signing-key'
  | 'verify'
  | 'proof'
  | 'tiles'
  | 'backup';

interface Declared {
  readonly help: string;
  readonly appliesTo: readonly CommandName[];
  /** Whether a running collector takes a new value on SIGHUP; all others need a restart. */
  readonly reloadable?: true;
}
interface TextOption extends Declared {
  /** A path is made absolute against the working directory, also when it comes from the file. */
  readonly type: 'text' | 'path' | 'list';
  /** Empty when the value is empty unless given. */
  readonly default: string;
  /** What an empty default stands for, in words. */
  readonly otherwise?: string;
}
interface NumberOption extends Declared {
  readonly type: 'integer' | 'bytes' | 'duration';
  readonly default: number;
  readonly min: number;
  readonly max: number;
}
interface ChoiceOption extends Declared {
  readonly type: 'choice';
  readonly default: string;
  readonly choices: readonly string[];
}
type Option = TextOption | NumberOption | ChoiceOption;

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const SERVE: readonly CommandName[] = ['serve'];
/** The commands that store events. */
const STORING: readonly CommandName[] = ['serve', 'import'];
const ADDRESS: readonly CommandName[] = ['serve', 'issuing'];
const SIGNING: readonly CommandName[] = [...STORING, 'doctor', 'signing-key'];
const EVERY: readonly CommandName[] = [
  'serve',
  'keys',
  'issuing',
  'events',
  'records',
  'report',
  'import',
  'doctor',
  'signing-key',
  'verify',
  'proof',
  'tiles',
  'backup',
];

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

/** An option's name is `--name` on the command line, `COLLECTOR_NAME` in the environment, `"name"` in the file. */
const OPTIONS = {
  host: {
    type: 'text',
    default: '127.0.0.1',
    help: 'address to listen on, and in the curl line of a new key',
    appliesTo: ADDRESS,
  },
  port: {
    type: 'integer',
    default: 8080,
    min: 0,
    max: 65_535,
    help: 'port to listen on, and in the curl line of a new key; 0 takes any free one',
    appliesTo: ADDRESS,
  },
  'data-dir': {
    type: 'path',
    default: './data',
    help: 'directory of everything that is stored',
    appliesTo: EVERY,
  },
  profile: {
    type: 'choice',
    default: 'minimum',
    choices: PROFILES,
    help: 'what an event must hold, unless its key says otherwise',
    appliesTo: STORING,
    reloadable: true,
  },
  'max-body-bytes': {
    type: 'bytes',
    default: MIB,
    min: KIB,
    max: 64 * MIB,
    help: 'largest event, before and after decompression',
    appliesTo: STORING,
  },
  'queue-bytes': {
    type: 'bytes',
    default: 64 * MIB,
    min: 4 * KIB,
    // The ring counts its bytes in 32-bit words (ledger/ring.ts).
    max: GIB,
    help: 'events in memory at most, in bytes; beyond it senders are told to retry',
    appliesTo: SERVE,
  },
  'queue-events': {
    type: 'integer',
    default: 8192,
    min: 1,
    max: 1_000_000,
    help: 'events in memory at most, in number',
    appliesTo: SERVE,
  },
  'max-connections': {
    type: 'integer',
    default: 4096,
    min: 1,
    max: 1_000_000,
    help: 'open connections at most',
    appliesTo: SERVE,
    reloadable: true,
  },
  'headers-timeout-ms': {
    type: 'duration',
    default: 10 * SECOND,
    min: 100,
    max: 10 * MINUTE,
    help: "time for a request's headers to arrive",
    appliesTo: SERVE,
    reloadable: true,
  },
  'request-timeout-ms': {
    type: 'duration',
    default: 30 * SECOND,
    min: 100,
    max: 60 * MINUTE,
    help: 'time for a whole request to arrive, body included',
    appliesTo: SERVE,
    reloadable: true,
  },
  'keep-alive-timeout-ms': {
    type: 'duration',
    default: 65 * SECOND,
    min: SECOND,
    max: 60 * MINUTE,
    help: 'how long a connection may idle between requests',
    appliesTo: SERVE,
    reloadable: true,
  },
  'shutdown-timeout-ms': {
    type: 'duration',
    default: 10 * SECOND,
    min: 100,
    max: 10 * MINUTE,
    help: 'time to finish what was begun when told to stop',
    appliesTo: SERVE,
    reloadable: true,
  },
  'max-nesting-depth': {
    type: 'integer',
    default: 64,
    min: 8,
    max: 1024,
    help: 'objects and arrays within each other in an event',
    appliesTo: STORING,
  },
  'segment-bytes': {
    type: 'bytes',
    default: 64 * MIB,
    min: 64 * KIB,
    max: GIB,
    help: 'size at which the log goes on in a new file',
    appliesTo: STORING,
  },
  'signing-keys': {
    type: 'path',
    default: '',
    otherwise: '`signing-keys` in the data directory',
    help: 'directory of the keys that sign checkpoints',
    appliesTo: [...SIGNING, 'backup'],
  },
  'signing-command': {
    type: 'path',
    default: '',
    otherwise: 'none',
    help: 'program that signs checkpoints with a key that lives elsewhere',
    appliesTo: SIGNING,
  },
  'log-origin': {
    type: 'text',
    default: '',
    otherwise: '`collector/` and the ledger id',
    help: 'name of the log in its checkpoints; the first start decides for ever',
    appliesTo: STORING,
  },
  'checkpoint-interval-ms': {
    type: 'duration',
    default: SECOND,
    min: 100,
    max: 60 * MINUTE,
    help: 'time between two checkpoints while events arrive',
    appliesTo: STORING,
  },
  'checkpoint-sink': {
    type: 'list',
    default: '',
    otherwise: 'none',
    help: 'where each checkpoint goes: dir:, file:, or a witness, with commas',
    appliesTo: SERVE,
  },
  'tls-cert': {
    type: 'path',
    default: '',
    otherwise: 'none: plain HTTP',
    help: 'certificate in PEM, with those that lead to its authority behind it; makes it HTTPS',
    appliesTo: ADDRESS,
  },
  'tls-key': {
    type: 'path',
    default: '',
    otherwise: 'none',
    help: 'private key of the certificate in PEM, without a passphrase',
    appliesTo: ADDRESS,
  },
  'tls-client-ca': {
    type: 'path',
    default: '',
    otherwise: 'none: clients are not asked for one',
    help: 'authorities in PEM whose client certificates are accepted',
    appliesTo: SERVE,
  },
  'tls-client-auth': {
    type: 'choice',
    default: 'required',
    choices: ['required', 'optional'],
    help: 'with --tls-client-ca: whether a client without such a certificate is turned away',
    appliesTo: SERVE,
  },
  'trusted-proxies': {
    type: 'list',
    default: '',
    otherwise: 'none',
    help: "addresses and networks whose word is taken for the client's address in the log, with commas",
    appliesTo: SERVE,
  },
  'cors-origins': {
    type: 'list',
    default: '',
    otherwise: 'none',
    help: 'origins of the pages whose scripts may send events, with commas',
    appliesTo: SERVE,
  },
  management: {
    type: 'choice',
    default: 'on',
    choices: ['on', 'off'],
    help: 'whether to listen for health, metrics and the console, on a port of their own',
    appliesTo: SERVE,
  },
  'management-host': {
    type: 'text',
    default: '127.0.0.1',
    help: 'address of the management listener; other than loopback needs --management-token-file',
    appliesTo: SERVE,
  },
  'management-port': {
    type: 'integer',
    default: 8081,
    min: 0,
    max: 65_535,
    help: 'port of the management listener; 0 takes any free one',
    appliesTo: SERVE,
  },
  'management-token-file': {
    type: 'path',
    default: '',
    otherwise: 'none: everybody on the host may look',
    help: 'file with the operator token that the management listener asks for, health aside',
    appliesTo: SERVE,
  },
  'log-level': {
    type: 'choice',
    default: 'info',
    choices: LOG_LEVELS,
    help: 'least severity that is logged; debug and trace also show where an error arose',
    appliesTo: EVERY,
    reloadable: true,
  },
} as const satisfies Record<string, Option>;

/** Names another option, and so has no place in the table. */
const CONFIG_HELP = 'JSON file with options by name, such as {"port": 9000}';

type Names = typeof OPTIONS;
type CamelCase<Name extends string> = Name extends `${infer First}-${infer Rest}`
  ? `${First}${Capitalize<CamelCase<Rest>>}`
  : Name;
type ValueOf<Declaration extends Option> = Declaration extends { readonly choices: readonly (infer Choice)[] }
  ? Choice
  : Declaration extends TextOption
    ? string
    : number;

/** Every option's value, by its name in camel case: sizes in bytes, durations in milliseconds. Frozen. */
export type Config = { readonly [Name in keyof Names as CamelCase<Name>]: ValueOf<Names[Name]> };

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

/** An option as the command line's help needs it. */
export interface OptionHelp {
  readonly name: string;
  /** What its value is called. */
  readonly placeholder: string;
  readonly help: string;
}

const ENTRIES: readonly (readonly [string, Option])[] = Object.entries(OPTIONS);
const PLACEHOLDERS = {
  text: 'text',
  path: 'path',
  list: 'list',
  integer: 'n',
  bytes: 'size',
  duration: 'time',
  choice: 'name',
};
/** What no value may contain: a path may hold spaces, an address may not. */
const UNUSABLE = { text: /[\s\p{Cc}]/u, path: /\p{Cc}/u, list: /\p{Cc}/u };
const PREFIX = 'COLLECTOR_';
const CONFIG_VARIABLE = `${PREFIX}CONFIG`;

function variable(name: string): string {
  return PREFIX + name.toUpperCase().replaceAll('-', '_');
}

function shown(option: Option, value: string | number): string {
  if (value === '' && 'otherwise' in option) return option.otherwise ?? '';
  if (typeof value === 'string') return value;
  if (option.type === 'bytes') return formatByteSize(value);
  return option.type === 'duration' ? formatDuration(value) : String(value);
}

/** What an option accepts, in words. */
function domain(option: Option): string {
  if (option.type === 'choice') return option.choices.join(', ');
  if (!('min' in option)) return option.type;
  return `${shown(option, option.min)} to ${shown(option, option.max)}`;
}

/** The options of a command, `--config` first. */
export function optionsOf(command: CommandName): OptionHelp[] {
  const options = ENTRIES.filter(([, option]) => option.appliesTo.includes(command)).map(([name, option]) => {
    const choices = 'choices' in option ? `choices: ${domain(option)}; ` : '';
    const byDefault = shown(option, option.default).replaceAll('`', '');
    const help = `${option.help} (${choices}default: ${byDefault})`;
    return { name, placeholder: PLACEHOLDERS[option.type], help };
  });
  return [{ name: 'config', placeholder: 'file', help: CONFIG_HELP }, ...options];
}

/** All options as a Markdown table, for the README. Ends without a line break. */
export function configTable(): string {
  const rows = ENTRIES.map(([name, option]) => {
    const accepts =
      option.type === 'choice' ? option.choices.map((choice) => `\`${choice}\``).join(', ') : domain(option);
    const byDefault = shown(option, option.default);
    const value = option.default === '' ? byDefault : `\`${byDefault}\``;
    const reload = option.reloadable === true ? 'yes' : '';
    return `| \`--${name}\` | \`${variable(name)}\` | ${value} | ${accepts} | ${reload} | ${option.help} |`;
  });
  return [
    '| Option | Environment variable | Default | Accepts | Reload | Meaning |',
    '| --- | --- | --- | --- | --- | --- |',
    `| \`--config\` | \`${CONFIG_VARIABLE}\` | | path | | ${CONFIG_HELP.replace(/\{.*\}/, '`$&`')} |`,
    ...rows,
  ].join('\n');
}

/** @returns the value, or the reason why the text is none. */
function parse(option: Option, text: string): { value: string | number } | { reason: string } {
  if ('choices' in option) {
    if (option.choices.includes(text)) return { value: text };
    return {
      reason: `${JSON.stringify(text)} is not one of ${domain(option)}${didYouMean(text, option.choices)}`,
    };
  }
  if (!('min' in option)) {
    if (text === '' || UNUSABLE[option.type].test(text)) {
      // A list may hold an address with a password in it.
      const said = option.type === 'list' ? 'what is given' : JSON.stringify(text);
      return { reason: `${said} is not a usable ${option.type}` };
    }
    return { value: option.type === 'path' ? path.resolve(text) : text };
  }
  const value =
    option.type === 'integer'
      ? /^-?\d{1,15}$/.test(text)
        ? Number(text)
        : undefined
      : option.type === 'bytes'
        ? parseByteSize(text)
        : parseDuration(text);
  if (value === undefined) {
    const form = {
      integer: 'a whole number',
      bytes: 'a size such as 64KiB',
      duration: 'a duration such as 10s',
    };
    return { reason: `${JSON.stringify(text)} is not ${form[option.type]}` };
  }
  if (value < option.min || value > option.max)
    return { reason: `${text} is out of range: ${domain(option)}` };
  return { value };
}

interface Given {
  readonly text: string;
  readonly source: string;
}

/** Values from the environment, by option name. Every variable with our prefix has to be one of ours. */
function fromEnvironment(env: NodeJS.ProcessEnv, faults: ConfigFault[]): Map<string, Given> {
  const given = new Map<string, Given>();
  const names = new Map(ENTRIES.map(([name]) => [variable(name), name]));
  for (const [source, text] of Object.entries(env)) {
    if (!source.startsWith(PREFIX) || text === undefined || source === CONFIG_VARIABLE) continue;
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

/** Values from the configuration file, by option name. */
function fromFile(file: Given | undefined, faults: ConfigFault[]): Map<string, Given> {
  const given = new Map<string, Given>();
  if (file === undefined) return given;
  let text: string;
  try {
    text = readFileSync(file.text, 'utf8');
  } catch (error) {
    faults.push({
      source: file.source,
      message: `cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    });
    return given;
  }
  const fault = jsonFaultAt(text);
  if (fault !== undefined) {
    const place = `line ${fault.line}, column ${fault.column}`;
    faults.push({ source: file.source, message: `${file.text} is not JSON: see ${place}` });
    return given;
  }
  const content: unknown = JSON.parse(text);
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    faults.push({ source: file.source, message: `${file.text} does not hold a JSON object` });
    return given;
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
    } else given.set(name, { text: String(value), source });
  }
  return given;
}

/**
 * What each option for itself cannot tell.
 * @param sourceOf where an option's value was given.
 */
function contradictions(config: Config, sourceOf: (name: keyof Names) => string): ConfigFault[] {
  const faults: ConfigFault[] = [];
  if (config.queueBytes < 4 * config.maxBodyBytes) {
    const need = formatByteSize(4 * config.maxBodyBytes);
    faults.push({
      source: sourceOf('queue-bytes'),
      message: `must be at least 4 times --max-body-bytes, that is ${need}`,
    });
  }
  if (config.segmentBytes < 2 * config.maxBodyBytes) {
    const need = formatByteSize(2 * config.maxBodyBytes);
    faults.push({
      source: sourceOf('segment-bytes'),
      message: `must be at least twice --max-body-bytes, that is ${need}`,
    });
  }
  if (config.headersTimeoutMs > config.requestTimeoutMs) {
    const limit = formatDuration(config.requestTimeoutMs);
    faults.push({
      source: sourceOf('headers-timeout-ms'),
      message: `must be at most --request-timeout-ms, that is ${limit}`,
    });
  }
  const { tlsCert, tlsKey, tlsClientCa } = config;
  if ((tlsCert === '') !== (tlsKey === '')) {
    const [given, missing] =
      tlsKey === '' ? (['tls-cert', 'tls-key'] as const) : (['tls-key', 'tls-cert'] as const);
    faults.push({ source: sourceOf(given), message: `needs --${missing} as well` });
  }
  if (tlsClientCa !== '' && tlsCert === '') {
    faults.push({ source: sourceOf('tls-client-ca'), message: 'needs --tls-cert and --tls-key as well' });
  }
  if (config.tlsClientAuth === 'optional' && tlsClientCa === '') {
    faults.push({ source: sourceOf('tls-client-auth'), message: 'needs --tls-client-ca as well' });
  }
  if (config.management === 'on') faults.push(...managementFaults(config, sourceOf));
  return faults;
}

function managementFaults(
  { host, port, managementHost, managementPort, managementTokenFile }: Config,
  sourceOf: (name: keyof Names) => string,
): ConfigFault[] {
  const faults: ConfigFault[] = [];
  if (managementTokenFile === '' && !isLoopback(managementHost)) {
    faults.push({
      source: sourceOf('management-host'),
      message: `${managementHost} is reached from other machines: needs --management-token-file as well`,
    });
  }
  if (managementPort !== 0 && managementPort === port && managementHost === host) {
    faults.push({
      source: sourceOf('management-port'),
      message: `must be another one than --port, that is ${port}`,
    });
  }
  return faults;
}

/** Where a value was said. */
type Origin = 'command line' | 'environment' | 'file' | 'default';

/** One option as it stands: what it is, and who said so. */
export interface Setting {
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
  const places: readonly (readonly [Origin, ReadonlyMap<string, Given>])[] = [
    ['command line', fromOptions],
    ['environment', fromVariables],
    ['file', fromFile(file, faults)],
  ];
  const values: Record<string, string | number> = {};
  const settings: Setting[] = [];
  const sourceOf = (name: string) =>
    places.map(([, given]) => given.get(name)?.source).find((source) => source !== undefined) ?? `--${name}`;
  for (const [name, option] of ENTRIES) {
    const [from, givenThere] = places.find(([, given]) => given.has(name)) ?? ['default' as const, undefined];
    const given = givenThere?.get(name);
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
  // Only whole configurations are compared: a fault in one value would be told twice.
  const config = values as Config;
  if (faults.length === 0) faults.push(...contradictions(config, sourceOf));
  return {
    settings,
    faults,
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

/** What a service manager that started this process says in its environment (sd_notify(3), sd_watchdog_enabled(3)). */
export interface ServiceManagement {
  /** Whether it wants to be told how the service fares. */
  readonly listens: boolean;
  /** It ends the service after so many milliseconds without a sign of life; undefined when it does not. */
  readonly watchdogMs: number | undefined;
}

export function serviceManagement(
  env: NodeJS.ProcessEnv = process.env,
  pid = process.pid,
): ServiceManagement {
  const { NOTIFY_SOCKET, WATCHDOG_USEC = '', WATCHDOG_PID } = env;
  const listens = NOTIFY_SOCKET !== undefined && NOTIFY_SOCKET !== '';
  const forUs = listens && (WATCHDOG_PID === undefined || WATCHDOG_PID === String(pid));
  const watchdogMs =
    forUs && /^[1-9]\d{0,14}$/.test(WATCHDOG_USEC) ? Number(WATCHDOG_USEC) / 1000 : undefined;
  return { listens, watchdogMs };
}

/**
 * The variables of OpenTelemetry that are set, by name. Their names and meaning are its own (telemetry/settings.ts); a
 * blank one counts as not set.
 */
export function openTelemetryVariables(
  env: NodeJS.ProcessEnv = process.env,
): Readonly<Record<string, string>> {
  const variables: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (name.startsWith('OTEL_') && value !== undefined && value.trim() !== '') variables[name] = value;
  }
  return variables;
}

/**
 * Whether errors are to be shown with their stack: at log level debug or trace, by option or variable. Never throws,
 * because it is asked when something else has failed already, perhaps the configuration itself.
 */
export function showsStacks(logLevelOption: string | undefined, env = process.env): boolean {
  return ['debug', 'trace'].includes(logLevelOption ?? env[variable('log-level')] ?? '');
}

function camelCase(name: string): string {
  return name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());
}
