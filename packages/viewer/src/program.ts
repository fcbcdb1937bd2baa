/** The command line of `collector-viewer`, and its exit code. */
import { commandOf } from '@clinical-events/collector/commands/command-line';
import { ConfigError } from '@clinical-events/collector/config';
import { defineCommand } from '@clinical-events/collector/commands/define';
import { CommandFailure, EXIT } from '@clinical-events/collector/commands/exit-codes';
import { versionLine } from '@clinical-events/collector/commands/typed';
import { type GivenOptions, optionsFrom } from './options.js';
import { runViewer } from './viewer.js';

const EXAMPLES = `  $ collector-viewer --data-dir /var/lib/collector --auth local
  $ collector-viewer --data-dir /var/lib/collector --state-dir /var/lib/collector-viewer \\
      --auth oidc:https://login.example.org/realms/hospital --client-id viewer \\
      --client-secret @/etc/collector-viewer/client-secret --roles /etc/collector-viewer/roles.json \\
      --url https://viewer.example.org
  $ collector-viewer --auth proxy:X-Remote-User --groups X-Remote-Groups --roles roles.json \\
      --url https://viewer.example.org

People look at runs in a browser. Each look is in the access log of the collector before its page is sent, so
a collector (or a mirror) must be running on the data directory. The viewer reads the data directory, keeps a
list of runs of its own in --state-dir, and changes nothing else.

--auth local prints a link for one login on this host, for trying. Without --roles its person has every role.
--auth oidc:ISSUER uses an OpenID Connect provider, --auth proxy:HEADER the name that a reverse proxy on this
host, or one with a client certificate, sends in a header. --roles names a JSON file that gives roles to groups
(docs/guide/viewer.md).

Exit codes: 0 ended in order, 1 failed, 2 the options are wrong.`;

const command = defineCommand<GivenOptions>({
  name: 'collector-viewer',
  description: 'Show runs to people in a browser, and record every look.',
  options: {
    '--data-dir <path>': { help: 'data directory of a collector, or a mirror', default: './data' },
    '--state-dir <path>': { help: "directory of the viewer's own files", default: './viewer-state' },
    '--host <text>': { help: 'address to listen on', default: '127.0.0.1' },
    '--port <integer>': { help: 'port to listen on; 0 selects a free port', default: '8090' },
    '--auth <how>': { help: 'how people sign in: local, proxy:HEADER or oidc:ISSUER', default: 'local' },
    '--roles <file>': 'JSON file that gives roles to groups',
    '--url <address>': 'address of the viewer in a browser (default: host and port)',
    '--client-id <text>': 'name of the viewer at the OpenID Connect provider',
    '--client-secret <file>': 'its secret there: @FILE',
    '--groups <name>': 'claim or header with the groups of a person (default: groups, X-Remote-Groups)',
    '--kek <source>': 'what wraps the payload keys, if not as noted: file:PATH or command:PROGRAM',
    '--tls-cert <file>': 'PEM: certificate of the viewer, then the chain to the authority',
    '--tls-key <file>': 'PEM: its private key',
    '--client-ca <file>': 'PEM: authorities whose client certificates a proxy must have',
  },
  examples: EXAMPLES,
  run: ({ options }) => runViewer(optionsFrom(options)),
});

/** Runs the command in `argv` and sets the exit code. */
export async function main(argv: readonly string[]): Promise<void> {
  const fail = (error: unknown) => process.exit(report(error));
  process.on('unhandledRejection', fail);
  process.on('uncaughtException', fail);
  const program = commandOf(command)
    .version(versionLine(), '--version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .exitOverride()
    .configureOutput({ outputError: () => undefined });
  try {
    await program.parseAsync(argv, { from: 'user' });
  } catch (error) {
    process.exitCode = report(error);
    // Threads and connections of a failed start must not keep the process alive.
    process.stderr.write('', () => process.exit());
  }
}

/** Prints the error. @returns the exit code. */
function report(error: unknown): number {
  const { code = '', exitCode, message } = Object(error) as Error & { code?: string; exitCode?: number };
  // Commander reports help and version as errors too.
  if (code.startsWith('commander.') && exitCode === 0) return EXIT.ok;
  const lines = error instanceof ConfigError ? message.split('\n') : [message.replace(/^error: /, '')];
  for (const line of lines) process.stderr.write(`collector-viewer: ${line.replace(/\s*\n\s*/g, ' ')}\n`);
  if (error instanceof CommandFailure) return error.exitCode;
  return error instanceof ConfigError || code.startsWith('commander.') ? EXIT.usage : EXIT.failure;
}
