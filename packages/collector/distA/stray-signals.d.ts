/** Not SIGABRT, SIGTRAP and SIGSYS: V8 and seccomp raise them so that a process that is broken does not continue. */
export declare const STRAY: readonly ["SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR", "SIGSTKFLT", "SIGXCPU", "SIGXFSZ"];
