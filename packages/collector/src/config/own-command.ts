/** How the `collector` command is typed in the shell that started this process. */
import fs from 'node:fs';
import path from 'node:path';

/** As much of a process as tells how it was started. */
export interface Started {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The program that was given to Node, as an absolute path and not yet followed through links. */
  readonly script: string;
  /** Node's own file. */
  readonly node: string;
  readonly directory: string;
}

/** @returns words for a shell; what goes behind them is a command of `collector`. */
export function ownCommand({ env, script, node, directory }: Started = thisProcess()): string {
  if (env['npm_lifecycle_script']?.includes('dist/cli/main.js')) return byNpm(env['INIT_CWD'], directory);
  if (path.basename(script) === 'collector') {
    if (env['npm_command'] !== undefined) return 'npx collector';
    return inPath(env).includes(path.dirname(script)) ? 'collector' : inQuotes(script);
  }
  const first = inPath(env).find((each) => fs.existsSync(path.join(each, 'node')));
  const isFirst = first !== undefined && fs.realpathSync(path.join(first, 'node')) === fs.realpathSync(node);
  return `${isFirst ? 'node' : inQuotes(node)} ${inQuotes(script)}`;
}

/** Text as one word of a shell, in quotes where it needs them. */
export function inQuotes(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** @param from where npm was called, and `root` where the package is: npm finds it from there and below. */
function byNpm(from: string | undefined, root: string): string {
  const finds = from === undefined || `${from}${path.sep}`.startsWith(`${root}${path.sep}`);
  return `npm ${finds ? '' : `--prefix ${inQuotes(root)} `}run --silent collector --`;
}

function inPath({ PATH = '' }: Started['env']): string[] {
  return PATH.split(path.delimiter).filter((each) => path.isAbsolute(each));
}

function thisProcess(): Started {
  const [node = process.execPath, script = ''] = process.argv;
  return { env: process.env, script, node, directory: process.cwd() };
}
