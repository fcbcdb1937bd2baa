/** Exit codes of the `collector` command. Scripts rely on them: add codes, never change one. */
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
    'the command line or the configuration is wrong, the data has a format of another version, or no ' +
    'collector is running that could do it; nothing was done',
  damaged: 'stored data is damaged; see collector doctor',
  unsafe: 'storage failed while running, and continuing would not be safe (serve)',
  inUse:
    'the data directory is used by another collector, its catalogue by another process, or a back-up ' +
    'directory by another back-up',
  notFound: 'the requested item does not exist',
  partly:
    'part of the input was refused and the rest was done (import, erase); restored, but events after the ' +
    'back-up are known to exist (restore); the catalogue differs from the log (doctor, retention)',
  refused: 'forbidden by a hold or a minimum retention period (erase, retention)',
  pending:
    'begun; a running collector completes it once every key directory can be reached (erase, hold, ' +
    'retention, encryption-keys)',
  planAgain:
    'a hold or a retention policy was set after the plan was made; nothing was done: plan again (erase, ' +
    'retention)',
  interrupted:
    'ended by a signal; what it reported is done (import, demo, records, report), and what it requested ' +
    'from a collector is not (erase, hold, retention, encryption-keys)',
};

/** The exit codes for the help, one per line, without a final line break. */
export function exitCodesHelp(): string {
  const lines = Object.entries(MEANING).map(([name, meaning]) => {
    const code = `  ${String(EXIT[name as keyof typeof EXIT]).padEnd(5)}`;
    return wrappedFor(process.stdout, code + meaning, code.length);
  });
  return ['Exit codes:', ...lines].join('\n');
}

/** A command could not do what was requested. The message is for the operator: one line, without secrets. */
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

/* System errors. */

/** @returns the file that this user may not access, at any depth of causes; undefined for other errors. */
export function deniedPath(error: unknown): string | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    // A port below 1024 fails with EACCES too, but without a path.
    if (!('path' in at && typeof at.path === 'string')) continue;
    const code = systemCode(at);
    if (code === 'EACCES' || code === 'EPERM') return at.path;
  }
  return undefined;
}

/** The messages of an error and its causes. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const denied = deniedPath(error);
  if (denied !== undefined) return `permission denied: ${denied}`;
  const cause = error.cause === undefined ? '' : reasonOf(error.cause);
  if (cause.startsWith(error.message)) return cause;
  return cause === '' ? error.message : `${error.message}: ${cause}`;
}

const STOPPING = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;
/** After Ctrl-C, npm receives the signal too and forwards it a few milliseconds later. */
const SAME_STOP_MS = 1000;

/**
 * Calls `stop` on the first signal that asks the process to end. A second one ends the process immediately.
 * @returns a function that removes the handlers.
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

/** A signal that is aborted, with exit code 130, when the process is asked to end. */
export function interruption(message = 'interrupted'): AbortSignal {
  const stop = new AbortController();
  onStop(() => stop.abort(new CommandFailure(message, EXIT.interrupted)));
  return stop.signal;
}

/** The failure for an invalid command line. */
export function usage(message: string): CommandFailure {
  return new CommandFailure(message, EXIT.usage);
}
