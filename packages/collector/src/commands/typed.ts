/** Rewrites the commands in a text so that they can be pasted into the shell that started this process. */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { inQuotes, ownCommand } from '../config/environment.js';

const NAMES = [
  ...[
    'serve',
    'keys',
    'events',
    'runs',
    'names',
    'records',
    'access-log',
    'report',
    'import',
    'encryption-keys',
    'signing-key',
    'doctor',
    'verify',
  ],
  ...['proof', 'check-proof', 'backup', 'restore', 'demo', 'store', 'mirror', 'erase', 'retention', 'hold'],
] as const;

export type CommandWord = (typeof NAMES)[number];

const WITH_SUBCOMMANDS =
  '(?:hold|retention|keys|encryption-keys|signing-key|store) [a-z]+|erase (?:plan|apply)';
/** Matches `collector runs`, but neither `no collector runs` nor the end of a path. */
const COMMAND = new RegExp(
  String.raw`(?<![\w/-]|\b(?:[Tt]he|[Aa]|[Nn]o)\s)collector ` +
    String.raw`(${WITH_SUBCOMMANDS}|(?:help|${NAMES.join('|')})\b)`,
  'g',
);
/** Commands without a data directory. */
const WITHOUT_DIRECTORY = ['help', 'check-proof', 'restore', 'import', 'store'];

/**
 * Each `collector COMMAND` in the text, as it must be typed here.
 * @param dataDir the data directory of the commands, as an absolute path.
 */
export function typed(text: string, dataDir?: string): string {
  return typedAs(ownCommand(), text, inDirectory(dataDir));
}

/** The --data-dir option with a leading space; empty for the default directory. */
export function inDirectory(dataDir: string | undefined): string {
  return dataDir === undefined || dataDir === path.resolve('data') ? '' : ` --data-dir ${inQuotes(dataDir)}`;
}

function typedAs(own: string, text: string, where = ''): string {
  return text.replace(
    COMMAND,
    (_, command: string) =>
      `${own} ${command}${WITHOUT_DIRECTORY.includes(command.split(' ')[0] ?? '') ? '' : where}`,
  );
}

/**
 * Prints lines on standard error, each prefixed with the program's name, with commands as they must be typed
 * here.
 * @param dataDir the data directory of the commands.
 */
export function printRemarks(lines: readonly string[], dataDir?: string): void {
  const directory = dataDir && path.resolve(dataDir);
  process.stderr.write(lines.map((line) => `collector: ${typed(line, directory)}\n`).join(''));
}

/** The program's name for readers on other hosts, who must not see a path. */
export function ownName(): string {
  const own = ownCommand();
  return own.includes('/') ? 'collector' : own;
}

/** Like {@link typed}, for readers on other hosts. @param own the {@link ownName} of the main thread. */
export function typedByName(own: string, text: string): string {
  return typedAs(own, text);
}

/** Like {@link typed}, for the examples in a help text. */
export function typedExamples(help: string): string {
  return help.replace(/^ +(?:\$|collector) .*$/gm, (line) => typed(line));
}

/** The version in the package's manifest. */
export function version(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  return (manifest as { version: string }).version;
}

/** The commit of the sources, which scripts/commit.mjs writes; "unknown" where only the compiler ran. */
export function commit(): string {
  const file = new URL('../../dist/commit.json', import.meta.url);
  if (!existsSync(file)) return 'unknown';
  return (JSON.parse(readFileSync(file, 'utf8')) as { commit: string }).commit;
}

/** What `--version` prints. */
export function versionLine(): string {
  return `${version()} (commit ${commit()})`;
}
