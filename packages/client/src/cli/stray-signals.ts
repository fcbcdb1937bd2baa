/**
 * The first import of the command, which holds API keys. Without a listener SIGUSR1 opens Node's inspector, through
 * which every local user reads them, and the other stray signals kill at once (docs/internals/adr/0010-signals.md).
 */
import inspector from 'node:inspector';

const STRAY = [
  ...['SIGUSR1', 'SIGUSR2', 'SIGALRM', 'SIGVTALRM', 'SIGPROF', 'SIGIO'],
  ...['SIGPWR', 'SIGSTKFLT', 'SIGXCPU', 'SIGXFSZ'],
] as const satisfies readonly NodeJS.Signals[];

for (const signal of STRAY) process.on(signal, () => undefined);

/** That of a SIGUSR1 before the listener. One that the command line or NODE_OPTIONS asks for stays. */
function closeInspector(): void {
  // eslint-disable-next-line no-restricted-properties -- an option of Node, which config/ would be read too late for
  const asked = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].some((text) =>
    text.includes('--inspect'),
  );
  if (!asked && inspector.url() !== undefined) inspector.close();
}

closeInspector();
// The signal may have come just before the listener: Node opens the inspector a moment later, from another thread.
setImmediate(closeInspector);
