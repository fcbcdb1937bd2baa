/**
 * The first import of each program that holds keys (docs/internals/adr/0010-signals.md). Without a listener,
 * SIGUSR1 opens Node's inspector, which gives every local user access to the keys, and the other signals kill
 * the process.
 */
import inspector from 'node:inspector';

/**
 * The signals to ignore, without SIGABRT, SIGTRAP and SIGSYS, which V8 and seccomp raise to end a broken
 * process.
 */
export const STRAY = [
  ...['SIGUSR1', 'SIGUSR2', 'SIGALRM', 'SIGVTALRM', 'SIGPROF', 'SIGIO'],
  ...['SIGPWR', 'SIGSTKFLT', 'SIGXCPU', 'SIGXFSZ'],
] as const satisfies readonly NodeJS.Signals[];

for (const signal of STRAY) process.on(signal, () => undefined);

/**
 * Closes an inspector opened by an early SIGUSR1, but not one requested on the command line or in
 * NODE_OPTIONS.
 */
function closeInspector(): void {
  // eslint-disable-next-line no-restricted-properties -- an option of Node; config/ would be loaded too late
  const asked = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].some((text) =>
    text.includes('--inspect'),
  );
  if (!asked && inspector.url() !== undefined) inspector.close();
}

closeInspector();
// If the signal arrived just before the listener, Node opens the inspector a moment later, from another
// thread.
setImmediate(closeInspector);
