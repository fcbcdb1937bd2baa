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
  const isByNpm = env['npm_lifecycle_script']?.includes('dist/cli/main.js') === true;
  const from = isByNpm ? env['INIT_CWD'] : directory;
  const root = checkoutOf(script);
  // npm starts it at the root: what is relative in a command would be to another directory for the wrapper.
  if (root !== undefined && from === directory)
    return directory === root ? './collector' : inQuotes(path.join(root, 'collector'));
  if (isByNpm) return byNpm(from, directory);
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

/** @returns the root of the checkout whose script it is; undefined where no `collector` for a shell stands there. */
function checkoutOf(script: string): string | undefined {
  const root = path.resolve(script, '../../../../..');
  const isThere =
    process.platform !== 'win32' &&
    path.relative(root, script) === path.join('packages', 'collector', 'dist', 'cli', 'main.js') &&
    fs.existsSync(path.join(root, 'collector'));
  return isThere ? root : undefined;
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
