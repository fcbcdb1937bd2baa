/**
 * Every option, declared once. The command line, the environment, the file, the help, the reference page and
 * the output of `serve --check` are made from the table OPTIONS.
 */
import { PROFILES } from '@clinical-events/protocol';
import { type CommandName, isLimit, LIMITS, type Option, type TextOption } from './option.js';

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const DAY = 24 * 60 * MINUTE;
const SERVE: readonly CommandName[] = ['serve'];
/** A mirror, and a hold that is made on a mirror, use the keys of the original log. */
const KEYED: readonly CommandName[] = ['serve', 'mirror', 'hold'];
/** The commands that examine events. */
const EXAMINING: readonly CommandName[] = ['serve', 'import'];
const ADDRESS: readonly CommandName[] = ['serve', 'issuing'];
const SIGNING: readonly CommandName[] = ['serve', 'doctor', 'signing-key'];
const EVERY: readonly CommandName[] = [
  'serve',
  'keys',
  'issuing',
  'events',
  'records',
  'runs',
  'report',
  'doctor',
  'encryption-keys',
  'lifecycle',
  'hold',
  'signing-key',
  'verify',
  'proof',
  'backup',
  'store',
  'quarantine',
  'mirror',
];

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

/**
 * An option's name is `--name` on the command line, `COLLECTOR_NAME` in the environment and `"name"` in the
 * file. Options for tuning are members of the object `limits` in the file or in COLLECTOR_LIMITS, and not
 * available on the command line.
 */
const OPTIONS = {
  host: {
    type: 'text',
    default: '127.0.0.1',
    help: 'address to listen on; also used in the curl command of a new key',
    appliesTo: ADDRESS,
  },
  port: {
    type: 'integer',
    default: 8080,
    min: 0,
    max: 65_535,
    help: 'port to listen on; also used in the curl command of a new key; 0 selects a free port',
    appliesTo: ADDRESS,
  },
  'data-dir': {
    type: 'path',
    default: './data',
    help: 'directory of all stored data',
    appliesTo: EVERY,
  },
  store: {
    type: 'text',
    default: '',
    otherwise: 'the data directory',
    help: 'postgres://user@host:port,host:port/database for a log in a database (docs/guide/scale-out.md)',
    appliesTo: EVERY,
  },
  'otlp-port': {
    type: 'integer',
    default: '',
    otherwise: 'none: no OTLP',
    min: 0,
    max: 65_535,
    help: 'port for OpenTelemetry spans and log records (OTLP over HTTP; usually 4318); 0: any free port',
    appliesTo: ADDRESS,
  },
  'otlp-shown': {
    type: 'choice',
    default: 'default',
    choices: ['default', 'marked'],
    help: 'which answers in spans count as shown: complete ones without tool calls, or only marked ones',
    appliesTo: SERVE,
  },
  'otlp-outcomes': {
    type: 'list',
    default: '',
    otherwise: 'none',
    help: 'evaluations in spans that count as outcomes of the run: comma-separated names',
    appliesTo: SERVE,
  },
  profile: {
    type: 'choice',
    default: 'minimum',
    choices: PROFILES,
    help: 'required fields of an event, unless its key has a profile of its own',
    appliesTo: EXAMINING,
    reloadable: true,
  },
  'max-body-bytes': {
    type: 'bytes',
    default: MIB,
    min: KIB,
    max: 64 * MIB,
    help: 'maximum size of an event, before and after decompression',
    appliesTo: EXAMINING,
  },
  encryption: {
    type: 'choice',
    default: 'auto',
    choices: ['auto', 'on', 'off'],
    help: 'encrypt payloads: auto encrypts new logs and leaves others unchanged; on enables it permanently',
    appliesTo: SERVE,
  },
  'encryption-keys': {
    type: 'text',
    default: '',
    otherwise: '`encryption-keys` in the data directory',
    help:
      'directory of the payload keys and its mirrors, comma-separated, or for a log in a database the ' +
      'postgres:// address of another database; remembered in the data directory',
    appliesTo: KEYED,
  },
  kek: {
    type: 'text',
    default: '',
    otherwise: 'a file `kek` beside the keys',
    help: 'what wraps the payload keys: file:PATH, or command:PROGRAM for a KMS; remembered as well',
    appliesTo: KEYED,
  },
  'signing-keys': {
    type: 'place',
    default: '',
    otherwise: '`signing-keys` in the data directory',
    help: 'directory of the keys that sign checkpoints, or command:PROGRAM for a key in a KMS',
    appliesTo: [...SIGNING, 'backup', 'quarantine'],
  },
  'read-group': {
    type: 'text',
    default: '',
    otherwise: 'none: only the owner reads the files',
    help: 'group that may read events, proofs, holds and payload keys, for collector-viewer; name or number',
    appliesTo: ['serve', 'mirror'],
  },
  'log-origin': {
    type: 'text',
    default: '',
    otherwise: '`collector/` and the ledger id',
    help: 'name of the log in its checkpoints; set by the first start and never changed',
    appliesTo: SERVE,
  },
  'checkpoint-interval-ms': {
    type: 'duration',
    default: SECOND,
    min: 100,
    max: 60 * MINUTE,
    help: 'interval between checkpoints while events arrive',
    appliesTo: SERVE,
  },
  'checkpoint-sink': {
    type: 'list',
    default: '',
    otherwise: 'none',
    help: 'where checkpoints are copied: dir:PATH, file:PATH, command:PROGRAM or a witness, comma-separated',
    appliesTo: SERVE,
  },
  'tls-cert': {
    type: 'path',
    default: '',
    otherwise: 'none: plain HTTP',
    help: 'PEM certificate chain; enables HTTPS on all listeners',
    appliesTo: ADDRESS,
  },
  'tls-key': {
    type: 'path',
    default: '',
    otherwise: 'none',
    help: 'PEM private key of the certificate, without a passphrase',
    appliesTo: ADDRESS,
  },
  'tls-client-ca': {
    type: 'path',
    default: '',
    otherwise: 'none: no client certificates',
    help: 'PEM authorities whose client certificates are accepted',
    appliesTo: SERVE,
  },
  'tls-client-auth': {
    type: 'choice',
    default: 'required',
    choices: ['required', 'optional'],
    help: 'with --tls-client-ca: whether clients must present a certificate',
    appliesTo: SERVE,
  },
  'trusted-proxies': {
    type: 'list',
    default: '',
    otherwise: 'none',
    help: 'proxies whose client address is trusted in the log: addresses and networks, comma-separated',
    appliesTo: SERVE,
  },
  management: {
    type: 'choice',
    default: 'on',
    choices: ['on', 'off'],
    help: 'listener for health, metrics and the console, on its own port',
    appliesTo: SERVE,
  },
  'management-host': {
    type: 'text',
    default: '127.0.0.1',
    help:
      'address of the management listener; unless loopback it requires --management-token-file, and ' +
      'should use --tls-cert',
    appliesTo: SERVE,
  },
  'management-port': {
    type: 'integer',
    default: 8081,
    min: 0,
    max: 65_535,
    help: 'port of the management listener; 0 selects a free port',
    appliesTo: SERVE,
  },
  'management-token-file': {
    type: 'path',
    default: '',
    otherwise: 'none: every user of the host has access',
    help: 'file with the operator token that the management listener requires, except for health checks',
    appliesTo: SERVE,
  },
  'log-level': {
    type: 'choice',
    default: 'info',
    choices: LOG_LEVELS,
    help: 'minimum severity of log lines; debug and trace add stack traces',
    appliesTo: EVERY,
    reloadable: true,
  },
  'limits.queue-bytes': {
    type: 'bytes',
    default: 64 * MIB,
    min: 4 * KIB,
    // The ring counts bytes in 32-bit words (ledger/ring.ts).
    max: GIB,
    help: 'maximum bytes of events in memory; above it, senders must retry',
  },
  'limits.queue-events': {
    type: 'integer',
    default: 8192,
    min: 1,
    max: 1_000_000,
    help: 'maximum number of events in memory',
  },
  'limits.max-connections': {
    type: 'integer',
    default: 4096,
    min: 1,
    max: 1_000_000,
    help: 'maximum number of open connections',
    reloadable: true,
  },
  'limits.headers-timeout-ms': {
    type: 'duration',
    default: 10 * SECOND,
    min: 100,
    max: 10 * MINUTE,
    help: 'maximum time to receive the headers of a request',
    reloadable: true,
  },
  'limits.request-timeout-ms': {
    type: 'duration',
    default: 30 * SECOND,
    min: 100,
    max: 60 * MINUTE,
    help: 'maximum time to receive a whole request',
    reloadable: true,
  },
  'limits.keep-alive-timeout-ms': {
    type: 'duration',
    default: 65 * SECOND,
    min: SECOND,
    max: 60 * MINUTE,
    help: 'maximum idle time of a connection',
    reloadable: true,
  },
  'limits.shutdown-timeout-ms': {
    type: 'duration',
    default: 10 * SECOND,
    min: 100,
    max: 10 * MINUTE,
    help: 'maximum time to finish requests and writes after a stop signal',
    reloadable: true,
  },
  'limits.max-nesting-depth': {
    type: 'integer',
    default: 64,
    min: 8,
    max: 1024,
    help: 'maximum nesting depth of objects and arrays in an event',
  },
  'limits.segment-bytes': {
    type: 'bytes',
    default: 64 * MIB,
    min: 64 * KIB,
    max: GIB,
    help: 'size of a log file at which a new one begins',
  },
  'limits.backup-max-age-ms': {
    type: 'duration',
    default: DAY,
    min: 0,
    max: 366 * DAY,
    help:
      'age of the last `collector backup` at which the console and its alert warn; 0 if back-ups are made ' +
      'otherwise',
    reloadable: true,
  },
} as const satisfies Record<string, Option>;

type Names = typeof OPTIONS;
export type Name = keyof Names;
type CamelCase<Name extends string> = Name extends `${infer First}-${infer Rest}`
  ? `${First}${Capitalize<CamelCase<Rest>>}`
  : Name;
type ValueOf<Declaration extends Option> = Declaration extends { readonly choices: readonly (infer Choice)[] }
  ? Choice
  : Declaration extends TextOption
    ? string
    : Declaration extends { readonly default: '' }
      ? number | ''
      : number;

type KeyOf<Name extends string> = CamelCase<Name extends `limits.${infer Member}` ? Member : Name>;

/** All option values by name in camel case: sizes in bytes, durations in milliseconds. Frozen. */
export type Config = { readonly [Each in Name as KeyOf<Each>]: ValueOf<Names[Each]> };

export const ENTRIES: readonly (readonly [string, Option])[] = Object.entries(OPTIONS);

/** The name of an option in {@link Config}. */
export function keyOf(name: string): keyof Config {
  const member = name.slice(isLimit(name) ? LIMITS.length : 0);
  return member.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase()) as keyof Config;
}
