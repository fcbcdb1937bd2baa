/**
 * Runs the `collector` command: loads the file of the requested subcommand and turns its result into an exit
 * code and lines on standard error. The caller has checked the version of Node.
 */
import { inspect } from 'node:util';
import { Command, CommanderError } from 'commander';
import { ConfigError, limitsHint, showsStacks } from '../config.js';
import { optionalPackage } from '../optional-packages.js';
import { KeyStoreDamaged, KeyStoreError } from '../store/contract/keys.js';
import { CatalogueBusy, CatalogueFault } from '../catalogue/faults.js';
import { StoreDamaged } from '../store/contract/events.js';
import { commandOf } from './command-line.js';
import type { Definition } from './define.js';
import { CommandFailure, EXIT, type ExitCode, exitCodesHelp, deniedPath } from './exit-codes.js';
import { printRemarks, typedExamples, type CommandWord, versionLine } from './typed.js';
import { Unusable } from '../unusable.js';

interface CommandFile {
  readonly command: Definition;
}

/** The file of each command; only the requested one is loaded, which keeps the start quick. */
const COMMANDS: Readonly<Record<CommandWord, { summary: string; load: () => Promise<CommandFile> }>> = {
  serve: { summary: 'run the collector', load: () => import('./serve/serve.js') },
  keys: { summary: 'create, list, rotate and revoke API keys', load: () => import('./keys.js') },
  events: { summary: 'print stored events as NDJSON', load: () => import('./events.js') },
  runs: { summary: 'list runs, the newest first', load: () => import('./runs.js') },
  names: { summary: 'list the models, applications and users of runs', load: () => import('./names.js') },
  records: { summary: 'assemble runs and export them', load: () => import('./records/records.js') },
  'access-log': {
    summary: 'list who looked at the runs of a person',
    load: () => import('./who-looked.js'),
  },
  report: {
    summary: 'summarise the runs of a period on one page',
    load: () => optionalPackage<CommandFile>('report'),
  },
  import: {
    summary: 'send events from NDJSON files to a collector, or check them',
    load: () => import('./import.js'),
  },
  'signing-key': {
    summary: 'show and rotate the key that signs checkpoints',
    load: () => import('./signing-key.js'),
  },
  doctor: {
    summary: 'check a data directory and report problems',
    load: () => import('./verify/doctor.js'),
  },
  verify: {
    summary: 'verify that the log is the one that was signed',
    load: () => import('./verify/verify.js'),
  },
  proof: {
    summary: 'write a proof that an event is in the log, or export the tree',
    load: () => import('./proof.js'),
  },
  'check-proof': { summary: 'check such a proof without the log', load: () => import('./check-proof.js') },
  backup: { summary: 'copy the data directory while a collector runs', load: () => import('./backup.js') },
  restore: { summary: 'restore a back-up and verify it', load: () => import('./restore.js') },
  'encryption-keys': {
    summary: 'manage the keys of encrypted payloads',
    load: () => import('./encryption-keys.js'),
  },
  erase: { summary: 'erase events by destroying their keys', load: () => import('./lifecycle/erase.js') },
  retention: {
    summary: 'erase events when their retention period ends',
    load: () => import('./lifecycle/retention.js'),
  },
  hold: { summary: 'protect events from erasure', load: () => import('./lifecycle/hold.js') },
  store: {
    summary: 'manage a log in a PostgreSQL database',
    load: () => optionalPackage<CommandFile>('postgres', '/store'),
  },
  mirror: {
    summary: 'copy a log from its database into a data directory',
    load: () => optionalPackage<CommandFile>('postgres', '/mirror'),
  },
  demo: {
    summary: 'send made-up runs to a running collector',
    load: () => optionalPackage<CommandFile>('demo'),
  },
};

/** How long `serve` waits for a reader of its last lines, in milliseconds. */
const LAST_WORDS_MS = 1000;

const EXAMPLES = `
Examples:
  $ collector serve --port 8080 --data-dir ./data
  $ collector keys create --permissions all
  $ collector events --follow
  $ collector help keys create`;

/** Stops Commander from exiting and from printing errors over two lines. */
function tame(command: Command): void {
  command
    .exitOverride()
    .configureOutput({
      outputError: () => undefined,
      writeOut: (help) => process.stdout.write(typedExamples(help)),
      writeErr: (help) => process.stderr.write(typedExamples(help)),
    })
    .helpOption('-h, --help', 'print this help');
  for (const each of command.commands) tame(each);
}

/** Options of the command that ran. */
interface Given {
  readonly logLevel?: string;
  readonly dataDir?: string;
}

/** Reports an error. @returns the exit code. */
function report(error: unknown, { logLevel, dataDir }: Given): number {
  if (error instanceof CommanderError) {
    // Commander also reports help and version as errors.
    if (error.exitCode === 0) return EXIT.ok;
    if (error.code === 'commander.help') return EXIT.usage;
    const message = error.message.replace(/^error: /, '').replace(/\s*\n\s*/g, ' ');
    printRemarks([message + limitsHint(/^unknown option '--([a-z-]+)/.exec(message)?.[1] ?? '')]);
    return EXIT.usage;
  }
  if (error instanceof ConfigError) {
    printRemarks(error.faults.map(({ source, message }) => `${source}: ${message}`));
    return EXIT.usage;
  }
  const isReported = error instanceof CommandFailure || error instanceof CatalogueFault;
  const denied = isReported ? undefined : deniedPath(error);
  const message =
    denied !== undefined
      ? `permission denied: ${denied}`
      : error instanceof Error
        ? error.message
        : String(error);
  printRemarks([message.replace(/\s*\n\s*/g, ' ')], dataDir);
  if (showsStacks(logLevel)) process.stderr.write(`${inspect(error)}\n`);
  return exitCodeOf(error);
}

/** The exit code for an error. */
export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof Unusable) return EXIT.usage;
  if (error instanceof KeyStoreError && error.cause instanceof Unusable) return EXIT.usage;
  if (error instanceof KeyStoreDamaged || error instanceof StoreDamaged) return EXIT.damaged;
  if (error instanceof CatalogueBusy) return EXIT.inUse;
  return error instanceof CommandFailure ? error.exitCode : EXIT.failure;
}

/**
 * Maps every way to ask for help to the one that Commander supports. Commander looks only one word deep, and
 * for an unknown word it prints the help of the words before it, with exit code 0.
 */
function withHelpAsked(argv: readonly string[], program: Command): readonly string[] {
  const [first = ''] = argv;
  const flagged = argv.some((word) => word === '--help' || word === '-h');
  const unknown = first !== '' && !first.startsWith('-') && first !== 'help' && !(first in COMMANDS);
  if (unknown && flagged) return [first];
  const group = program.commands.find((each) => each.name() === first && each.commands.length > 0);
  const asked = first === 'help' || (argv[1] === 'help' && group !== undefined);
  if (!asked) return argv;
  const words: string[] = [];
  let command: Command | undefined = program;
  for (const word of argv) {
    if (word === 'help' || word.startsWith('-')) continue;
    words.push(word);
    command = command.commands.find((each) => each.name() === word);
    // Without --help, Commander reports the unknown command and suggests one.
    if (command === undefined) return words;
  }
  return [...words, '--help'];
}

/** Runs the command in `argv` and sets the exit code. */
export async function main(argv: readonly string[]): Promise<void> {
  let given: Given = {};
  process.on('unhandledRejection', (reason) => process.exit(report(reason, given)));
  process.on('uncaughtException', (error) => process.exit(report(error, given)));
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      // The reader of a pipe such as `collector events | head` has enough: not a failure.
      if (error.code === 'EPIPE') process.exit(process.exitCode ?? EXIT.ok);
      throw error;
    });
  }

  const program = new Command('collector')
    .description('Write-once HTTP collector for the event log of clinical AI.')
    .version(versionLine(), '--version', 'print the version')
    // After `erase plan`, an option belongs to `plan` even if `erase` has one of the same name.
    .enablePositionalOptions()
    .addHelpText('after', `${EXAMPLES}\n\n${exitCodesHelp()}`)
    .hook('preAction', (_, action) => {
      given = action.opts<Given>();
    });
  const asked = argv.find((word) => !word.startsWith('-') && word !== 'help');
  try {
    for (const [name, { summary, load }] of Object.entries(COMMANDS)) {
      if (name === asked) program.addCommand(commandOf((await load()).command).summary(summary));
      else program.command(name).summary(summary);
    }
    tame(program);
    await program.parseAsync(withHelpAsked(argv, program), { from: 'user' });
  } catch (error) {
    const code = report(error, given);
    process.exitCode = code;
    // Resources of a failed command must not keep the process alive. Pending output is written first, except
    // after a signal, when the reader may have stopped reading. `serve` does not wait for a reader.
    const leave = () => process.stderr.write('', () => process.exit(code));
    if (asked === 'serve') setTimeout(() => process.exit(code), LAST_WORDS_MS);
    if (code === EXIT.interrupted) leave();
    else process.stdout.write('', leave);
  }
}
