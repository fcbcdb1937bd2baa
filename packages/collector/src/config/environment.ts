/** Environment variables that are not options: those of the service manager, the shell and npm. */
import fs from 'node:fs';
import path from 'node:path';
import { variable } from './option.js';

/** The variables that the service manager sets (sd_notify(3), sd_watchdog_enabled(3)). */
export interface ServiceManagement {
  /** Whether it accepts state messages. */
  readonly listens: boolean;
  /** The watchdog period in milliseconds; undefined without a watchdog. */
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
 * Device and inode (`8:12345`) of the stream that systemd connected to its journal (systemd.exec(5),
 * JOURNAL_STREAM); undefined if there is none. The process may use another stream by now.
 */
export function journalStream(env: NodeJS.ProcessEnv = process.env): string | undefined {
  return env['JOURNAL_STREAM'];
}

/** The user who called sudo (sudo(8)); undefined without sudo. */
export function sudoUser(env: NodeJS.ProcessEnv = process.env): string | undefined {
  return env['SUDO_USER'] === '' ? undefined : env['SUDO_USER'];
}

/**
 * Whether to print stacks of errors: at log level debug or trace, by option or variable. Never throws, since
 * it is called after an error, which may be one of the configuration.
 */
export function showsStacks(logLevelOption: string | undefined, env = process.env): boolean {
  return ['debug', 'trace'].includes(logLevelOption ?? env[variable('log-level')] ?? '');
}

/* How the `collector` command is typed in the shell that started this process. */

/** How a process was started. */
export interface Started {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The script given to Node, as an absolute path with links not resolved. */
  readonly script: string;
  /** Node's executable. */
  readonly node: string;
  readonly directory: string;
}

/** @returns shell words that a subcommand of `collector` can follow. */
export function ownCommand({ env, script, node, directory }: Started = thisProcess()): string {
  const isByNpm = env['npm_lifecycle_script']?.includes('packages/collector/dist/main.js') === true;
  const from = isByNpm ? env['INIT_CWD'] : directory;
  const root = checkoutOf(script);
  // npm starts the script in the root, so relative paths in a command would mean something else to the
  // wrapper.
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

/** The text as one shell word, quoted if necessary. */
export function inQuotes(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** @returns the root of the checkout that contains the script; undefined if it has no `collector` wrapper. */
function checkoutOf(script: string): string | undefined {
  const root = path.resolve(script, '../../../..');
  const isThere =
    process.platform !== 'win32' &&
    path.relative(root, script) === path.join('packages', 'collector', 'dist', 'main.js') &&
    fs.existsSync(path.join(root, 'collector'));
  return isThere ? root : undefined;
}

/**
 * @param from where npm was called. @param root the directory of the package, which npm finds from there and
 *   below.
 */
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

/** COLLECTOR_URL and COLLECTOR_KEY, for a command that sends to a collector. */
export function senderVariables(env: NodeJS.ProcessEnv = process.env): {
  readonly url: string | undefined;
  readonly key: string | undefined;
} {
  return { url: env['COLLECTOR_URL'], key: env['COLLECTOR_KEY'] };
}
