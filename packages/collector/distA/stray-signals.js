/**
 * The first import of each program that holds keys (docs/internals/adr/0010-signals.md). Without a listener SIGUSR1
 * opens Node's inspector, through which every local user reads the keys, and the other stray signals kill at once.
 */
import inspector from 'node:inspector';
/** Not SIGABRT, SIGTRAP and SIGSYS: V8 and seccomp raise them so that a process that is broken does not continue. */
export const STRAY = [
    ...['SIGUSR1', 'SIGUSR2', 'SIGALRM', 'SIGVTALRM', 'SIGPROF', 'SIGIO'],
    ...['SIGPWR', 'SIGSTKFLT', 'SIGXCPU', 'SIGXFSZ'],
];
for (const signal of STRAY)
    process.on(signal, () => undefined);
/** That of a SIGUSR1 before the listener. One that the command line or NODE_OPTIONS asks for stays. */
function closeInspector() {
    // eslint-disable-next-line no-restricted-properties -- an option of Node, which config/ would be read too late for
    const asked = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].some((text) => text.includes('--inspect'));
    if (!asked && inspector.url() !== undefined)
        inspector.close();
}
closeInspector();
// The signal may have come just before the listener: Node opens the inspector a moment later, from another thread.
setImmediate(closeInspector);
//# sourceMappingURL=stray-signals.js.map