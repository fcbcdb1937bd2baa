/**
 * Ignores stray signals. Imported first, because the command holds API keys: without a listener SIGUSR1 opens
 * Node's inspector, which lets local users read them, and the others end the process
 * (docs/internals/adr/0010-signals.md).
 */
import inspector from 'node:inspector';

const STRAY = [
  ...['SIGUSR1', 'SIGUSR2', 'SIGALRM', 'SIGVTALRM', 'SIGPROF', 'SIGIO'],
  ...['SIGPWR', 'SIGSTKFLT', 'SIGXCPU', 'SIGXFSZ'],
] as const satisfies readonly NodeJS.Signals[];

for (const signal of STRAY) process.on(signal, () => undefined);

/**
 * Closes an inspector that a SIGUSR1 before the listener opened, but not one that the command line requested.
 */
function closeInspector(): void {
  // eslint-disable-next-line no-restricted-properties -- NODE_OPTIONS belongs to Node, not to the client
  const asked = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].some((text) =>
    text.includes('--inspect'),
  );
  if (!asked && inspector.url() !== undefined) inspector.close();
}

closeInspector();
// Node opens the inspector from another thread, a moment after the signal.
setImmediate(closeInspector);
