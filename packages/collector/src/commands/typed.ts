/** Makes the commands that a text names ones that can be pasted into the shell that started this process. */
import { readFileSync } from 'node:fs';
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

/** `collector runs`, and neither `no collector runs` nor the end of a path. */
const COMMAND = new RegExp(
  String.raw`(?<![\w/-]|\b(?:[Tt]he|[Aa]|[Nn]o)\s)collector (help\b|(?:hold|retention|keys|encryption-keys|signing-key|store) [a-z]+|erase (?:plan|apply)|(?:${NAMES.join('|')})\b)`,
  'g',
);
/** Those that are about no data directory. */
const WITHOUT_DIRECTORY = ['help', 'check-proof', 'restore', 'import', 'store'];

/**
 * Each `collector COMMAND` in the text, as it is to be typed here.
 * @param dataDir that the commands are about, as an absolute path.
 */
export function typed(text: string, dataDir?: string): string {
  return typedAs(ownCommand(), text, inDirectory(dataDir));
}

/** The option that names the data directory, behind a space; empty for the one that is looked for without it. */
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
 * Prints lines on standard error, each behind the name of the program, with the commands in them as they are typed here.
 * @param dataDir that the commands are about.
 */
export function printRemarks(lines: readonly string[], dataDir?: string): void {
  const directory = dataDir && path.resolve(dataDir);
  process.stderr.write(lines.map((line) => `collector: ${typed(line, directory)}\n`).join(''));
}

/** For readers on another host: without a path, which they must not see. */
export function ownName(): string {
  const own = ownCommand();
  return own.includes('/') ? 'collector' : own;
}

/** The same as {@link typed} for them. @param own as {@link ownName} gives it on the main thread. */
export function typedByName(own: string, text: string): string {
  return typedAs(own, text);
}

/** The same for a help text, of which only the examples are for pasting. */
export function typedExamples(help: string): string {
  return help.replace(/^ +(?:\$|collector) .*$/gm, (line) => typed(line));
}

/* The version of this collector, as its package says. */

export function version(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  return (manifest as { version: string }).version;
}
