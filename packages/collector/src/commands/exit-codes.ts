/** How the `collector` command ends. Scripts rely on these numbers: add to them, never change one. */
import { systemCode } from '../system-code.js';
import { wrappedFor } from './terminal.js';

export const EXIT = {
  ok: 0,
  failure: 1,
  usage: 2,
  damaged: 3,
  unsafe: 4,
  inUse: 5,
  notFound: 6,
  partly: 7,
  refused: 8,
  pending: 9,
  planAgain: 10,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

const MEANING: Readonly<Record<keyof typeof EXIT, string>> = {
  ok: 'done',
  failure: 'failed for an unexpected reason',
  usage:
    'the command line or the configuration is wrong, or no collector runs that could do it; nothing was done',
  damaged: 'stored data is damaged; see collector doctor',
  unsafe: 'storage failed while running, and going on would not be safe (serve)',
  inUse:
    'the data directory is in use by another collector, its catalogue by another process, or a directory of back-ups by ' +
    'another back-up',
  notFound: 'what was asked for does not exist',
  partly:
    'some of the input was refused, and all the rest was done (import, erase); restored, but events are known that came after ' +
    'the back-up (restore); the catalogue is not as the log has it (doctor, retention)',
  refused: 'a hold or a floor of the retention policy forbids it (erase, retention)',
  pending:
    'begun, and brought to its end by a collector that runs, once every directory of keys can be reached (erase, hold, ' +
    'retention, encryption-keys)',
  planAgain:
    'a hold has begun, or a retention policy was set, since it was planned; nothing was done: plan again (erase, retention)',
  interrupted:
    'a signal ended it before its end; what it told of is done (import, demo, records, report), and what it asked a collector ' +
    'for is not (erase, hold, retention, encryption-keys)',
};

/** The exit codes for the help, one a line, without a line break at the end. */
export function exitCodesHelp(): string {
  const lines = Object.entries(MEANING).map(([name, meaning]) => {
    const code = `  ${String(EXIT[name as keyof typeof EXIT]).padEnd(5)}`;
    return wrappedFor(process.stdout, code + meaning, code.length);
  });
  return ['Exit codes:', ...lines].join('\n');
}

/** A command could not do what it was asked to. The message is for the operator: one line, no secret. */
export class CommandFailure extends Error {
  override name = 'CommandFailure';
  constructor(
    message: string,
    readonly exitCode: ExitCode,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/* What the system did not let this user do, whatever was wrapped around its answer on the way. */

/** @returns the file that was refused, or undefined when the error comes from something else. */
export function deniedPath(error: unknown): string | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    // A port below 1024 is refused with EACCES too, but has no path.
    if (!('path' in at && typeof at.path === 'string')) continue;
    const code = systemCode(at);
    if (code === 'EACCES' || code === 'EPERM') return at.path;
  }
  return undefined;
}

/** The message of an error and of what caused it. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const denied = deniedPath(error);
  if (denied !== undefined) return `permission denied: ${denied}`;
  const cause = error.cause === undefined ? '' : reasonOf(error.cause);
  if (cause.startsWith(error.message)) return cause;
  return cause === '' ? error.message : `${error.message}: ${cause}`;
}

const STOPPING = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;
/** The terminal sends a Ctrl-C to npm as well, which passes it on some milliseconds later. */
const SAME_STOP_MS = 1000;

/**
 * Calls `stop` on the first signal that asks the process to end. A later one ends the process at once.
 * @returns removes the handlers.
 */
export function onStop(stop: (signal: NodeJS.Signals) => void): () => void {
  let stoppedAt: number | undefined;
  const handle = (signal: NodeJS.Signals) => {
    const now = performance.now();
    if (stoppedAt === undefined) {
      stoppedAt = now;
      stop(signal);
    } else if (now - stoppedAt > SAME_STOP_MS) {
      remove();
      process.kill(process.pid, signal);
    }
  };
  const remove = () => {
    for (const signal of STOPPING) process.off(signal, handle);
  };
  for (const signal of STOPPING) process.on(signal, handle);
  return remove;
}

/** Aborted by the first signal that asks the process to end, with exit code 130. */
export function interruption(message = 'interrupted'): AbortSignal {
  const stop = new AbortController();
  onStop(() => stop.abort(new CommandFailure(message, EXIT.interrupted)));
  return stop.signal;
}

/** What the operator typed cannot be meant. */
export function usage(message: string): CommandFailure {
  return new CommandFailure(message, EXIT.usage);
}
