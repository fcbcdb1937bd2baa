/** The command line of `collector-spool`. */
import fs from 'node:fs';
import { parseArgs } from 'node:util';
import { CommandFailure, EXIT } from './output.js';

export const USAGE = `Usage: collector-spool COMMAND DIRECTORY [options]

Shows and sends the events in a spool of @clinical-events/client, also while applications use it.

Commands:
  show     count waiting and refused events, and list damage
  requeue  move refused events back to the waiting ones
  drain    send the waiting events that no running process holds

Options:
  --events             show: list each waiting or refused event, one a line
  --check              show: read every byte and report damage
  --contents           show --events: include the events and the collector's messages (patient data)
  --json               print JSON; with --events one object a line
  --key-file FILE      key of an encrypted spool: 32 bytes, or their hex or base64
  --url URL            drain: address of the collector; default COLLECTOR_URL
  --api-key-file FILE  drain: API key; default COLLECTOR_KEY
  --timeout SECONDS    drain: stop when no event was sent for this time; 60
  -h, --help           print this help
  --version            print the version

drain stops immediately if the collector rejects the key, if its certificate is not trusted
(NODE_EXTRA_CA_CERTS=FILE adds an authority), or if the address is not a collector's. No event is lost.

Exit codes:
  0    success
  1    unexpected failure
  2    wrong command line or key; nothing was done
  3    the spool is damaged (show --check, drain)
  6    there is no spool
  7    partial success: events still wait or were refused (drain), or cannot be read (show --events)
  130  interrupted by a signal; sent events are marked (drain)
`;

const COMMANDS = ['show', 'requeue', 'drain'] as const;
export type CommandName = (typeof COMMANDS)[number];

export interface Request {
  readonly directory: string;
  readonly json: boolean;
  readonly events: boolean;
  readonly check: boolean;
  readonly contents: boolean;
  /** 32 bytes. */
  readonly key: Uint8Array | undefined;
  readonly url: string | undefined;
  readonly apiKey: string | undefined;
  readonly timeoutMs: number | undefined;
}

const OPTIONS = {
  json: { type: 'boolean' },
  events: { type: 'boolean' },
  check: { type: 'boolean' },
  contents: { type: 'boolean' },
  'key-file': { type: 'string' },
  url: { type: 'string' },
  'api-key-file': { type: 'string' },
  timeout: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
} as const;

/** Options of a single command. */
const ONLY: Readonly<Record<string, CommandName>> = {
  ...{ events: 'show', check: 'show', contents: 'show' },
  ...{ url: 'drain', 'api-key-file': 'drain', timeout: 'drain' },
};

/** @throws CommandFailure for an invalid command line, or a key that cannot be read. */
export function readArguments(
  args: readonly string[],
): { command: CommandName; request: Request } | 'help' | 'version' {
  const { values, positionals } = parsed(args);
  if (values.help) return 'help';
  if (values.version) return 'version';
  const [name, directory, ...more] = positionals;
  const command = COMMANDS.find((each) => each === name);
  if (name === undefined) throw usage('a command is missing: one of ' + COMMANDS.join(', '));
  if (!command) throw usage(`there is no command ${name}; there are ${COMMANDS.join(', ')}`);
  if (directory === undefined) throw usage(`${command} needs a spool directory`);
  if (more.length > 0) throw usage(`${command} takes one directory`);
  for (const [option, only] of Object.entries(ONLY)) {
    if (option in values && command !== only) throw usage(`--${option} is for ${only}`);
  }
  const { json = false, events = false, check = false, contents = false } = values;
  if (events && check) throw usage('show takes --events or --check, not both');
  if (contents && !events) throw usage('--contents is for show --events');
  const { url = process.env['COLLECTOR_URL'], timeout } = values;
  const { 'key-file': keyFile, 'api-key-file': apiKeyFile } = values;
  return {
    command,
    request: {
      ...{ directory, json, events, check, contents, url },
      apiKey: apiKeyFile === undefined ? process.env['COLLECTOR_KEY'] : bytesIn(apiKeyFile).toString().trim(),
      key: keyFile === undefined ? undefined : spoolKeyIn(keyFile),
      timeoutMs: timeout === undefined ? undefined : millisecondsIn(timeout),
    },
  };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    // Only the first sentence: Node adds advice about positional arguments.
    throw usage(error instanceof Error ? (error.message.split(/\n|[.,] To specify| \. /)[0] ?? '') : '');
  }
}

/** @throws CommandFailure */
function bytesIn(file: string): Buffer {
  try {
    return fs.readFileSync(file);
  } catch (cause) {
    const why = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown';
    throw new CommandFailure(`${file} cannot be read (${why})`, EXIT.usage, { cause });
  }
}

function spoolKeyIn(file: string): Uint8Array {
  const bytes = bytesIn(file);
  if (bytes.length === 32) return bytes;
  const text = bytes.toString().trim();
  if (/^[0-9a-fA-F]{64}$/.test(text)) return Buffer.from(text, 'hex');
  if (/^[A-Za-z0-9+/]{43}=$/.test(text)) return Buffer.from(text, 'base64');
  throw usage(`${file} does not contain a key: 32 bytes, raw or in hex or base64`);
}

function millisecondsIn(seconds: string): number {
  const milliseconds = /^\d{1,6}(\.\d{1,3})?$/.test(seconds) ? 1000 * Number(seconds) : NaN;
  if (!(milliseconds > 0)) throw usage('--timeout must be a number of seconds above 0');
  return milliseconds;
}

function usage(message: string): CommandFailure {
  return new CommandFailure(message, EXIT.usage);
}
