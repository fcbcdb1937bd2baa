/**
 * Every option, declared once: command line, environment, file, their help, the reference page and what `serve
 * --check` prints all come from the table OPTIONS.
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
/** A mirror reads by the keys of the log that it copies, and a hold that is begun on one has its key there. */
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
 * An option's name is `--name` on the command line, `COLLECTOR_NAME` in the environment, `"name"` in the file. Those that
 * only tune are members of one object, `limits`, in the file and in COLLECTOR_LIMITS, and on no command line.
 */
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
  store: {
    type: 'text',
    default: '',
    otherwise: 'the data directory',
    help: 'postgres://user@host:port,host:port/database when the log is in a database; see docs/guide/scale-out.md',
    appliesTo: EVERY,
  },
  'otlp-port': {
    type: 'integer',
    default: '',
    otherwise: 'none: no OTLP',
    min: 0,
    max: 65_535,
    help: 'port to take spans and log records of OpenTelemetry on (OTLP over HTTP; customarily 4318); 0 takes any free one',
    appliesTo: ADDRESS,
  },
  'otlp-shown': {
    type: 'choice',
    default: 'default',
    choices: ['default', 'marked'],
    help: 'which answers in spans count as shown to a person: by default those that are complete and ask for no tool; or only those that the sender marks',
    appliesTo: SERVE,
  },
  'otlp-outcomes': {
    type: 'list',
    default: '',
    otherwise: 'none',
    help: 'names of the evaluations in spans that are outcomes of the run, comma-separated',
    appliesTo: SERVE,
  },
  profile: {
    type: 'choice',
    default: 'minimum',
    choices: PROFILES,
    help: 'what an event must hold, unless its key says otherwise',
    appliesTo: EXAMINING,
    reloadable: true,
  },
  'max-body-bytes': {
    type: 'bytes',
    default: MIB,
    min: KIB,
    max: 64 * MIB,
    help: 'largest event, before and after decompression',
    appliesTo: EXAMINING,
  },
  encryption: {
    type: 'choice',
    default: 'auto',
    choices: ['auto', 'on', 'off'],
    help: 'encrypt payloads: auto encrypts a new log and leaves others as they are; on begins to encrypt, for good',
    appliesTo: SERVE,
  },
  'encryption-keys': {
    type: 'text',
    default: '',
    otherwise: '`encryption-keys` in the data directory',
    help: 'directory of the keys of payloads and, after commas, its mirrors; of a log in a database postgres://…, another database; remembered in the data directory',
    appliesTo: KEYED,
  },
  kek: {
    type: 'text',
    default: '',
    otherwise: 'a file `kek` beside the keys',
    help: 'what wraps the keys of payloads: file:PATH, or command:PROGRAM that asks a KMS; remembered as well',
    appliesTo: KEYED,
  },
  'signing-keys': {
    type: 'place',
    default: '',
    otherwise: '`signing-keys` in the data directory',
    help: 'directory of the keys that sign checkpoints, or command:PROGRAM that signs with a key in a KMS',
    appliesTo: [...SIGNING, 'backup', 'quarantine'],
  },
  'log-origin': {
    type: 'text',
    default: '',
    otherwise: '`collector/` and the ledger id',
    help: 'name of the log in its checkpoints; the first start decides forever',
    appliesTo: SERVE,
  },
  'checkpoint-interval-ms': {
    type: 'duration',
    default: SECOND,
    min: 100,
    max: 60 * MINUTE,
    help: 'time between two checkpoints while events arrive',
    appliesTo: SERVE,
  },
  'checkpoint-sink': {
    type: 'list',
    default: '',
    otherwise: 'none',
    help: 'where each checkpoint goes: dir:PATH, file:PATH, command:PROGRAM or a witness, comma-separated',
    appliesTo: SERVE,
  },
  'tls-cert': {
    type: 'path',
    default: '',
    otherwise: 'none: plain HTTP',
    help: 'certificate in PEM, followed by those that lead to its authority; turns on HTTPS, also for the management listener',
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
    help: 'proxies, as addresses and networks, that are trusted to name the client in the log, comma-separated',
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
    help: 'address of the management listener; other than loopback needs --management-token-file, and should have --tls-cert',
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
  'limits.queue-bytes': {
    type: 'bytes',
    default: 64 * MIB,
    min: 4 * KIB,
    // The ring counts its bytes in 32-bit words (ledger/ring.ts).
    max: GIB,
    help: 'events in memory at most, in bytes; beyond it senders are told to retry',
  },
  'limits.queue-events': {
    type: 'integer',
    default: 8192,
    min: 1,
    max: 1_000_000,
    help: 'events in memory at most, in number',
  },
  'limits.max-connections': {
    type: 'integer',
    default: 4096,
    min: 1,
    max: 1_000_000,
    help: 'open connections at most',
    reloadable: true,
  },
  'limits.headers-timeout-ms': {
    type: 'duration',
    default: 10 * SECOND,
    min: 100,
    max: 10 * MINUTE,
    help: "time for a request's headers to arrive",
    reloadable: true,
  },
  'limits.request-timeout-ms': {
    type: 'duration',
    default: 30 * SECOND,
    min: 100,
    max: 60 * MINUTE,
    help: 'time for a whole request to arrive, body included',
    reloadable: true,
  },
  'limits.keep-alive-timeout-ms': {
    type: 'duration',
    default: 65 * SECOND,
    min: SECOND,
    max: 60 * MINUTE,
    help: 'how long a connection may idle between requests',
    reloadable: true,
  },
  'limits.shutdown-timeout-ms': {
    type: 'duration',
    default: 10 * SECOND,
    min: 100,
    max: 10 * MINUTE,
    help: 'time to finish requests and writes after a signal to stop',
    reloadable: true,
  },
  'limits.max-nesting-depth': {
    type: 'integer',
    default: 64,
    min: 8,
    max: 1024,
    help: 'objects and arrays within each other in an event',
  },
  'limits.segment-bytes': {
    type: 'bytes',
    default: 64 * MIB,
    min: 64 * KIB,
    max: GIB,
    help: 'size at which a new file of the log begins',
  },
  'limits.backup-max-age-ms': {
    type: 'duration',
    default: DAY,
    min: 0,
    max: 366 * DAY,
    help: 'age of the last `collector backup` from which the console and its alert warn; 0 when back-ups are made otherwise',
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

/** Every option's value, by its name in camel case: sizes in bytes, durations in milliseconds. Frozen. */
export type Config = { readonly [Each in Name as KeyOf<Each>]: ValueOf<Names[Each]> };

export const ENTRIES: readonly (readonly [string, Option])[] = Object.entries(OPTIONS);

/** What an option is called in {@link Config}. */
export function keyOf(name: string): keyof Config {
  const member = name.slice(isLimit(name) ? LIMITS.length : 0);
  return member.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase()) as keyof Config;
}
