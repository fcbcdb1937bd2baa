/** What a service manager that started this process says in its environment (sd_notify(3), sd_watchdog_enabled(3)). */
export interface ServiceManagement {
    /** Whether it wants reports of the service's state. */
    readonly listens: boolean;
    /** Milliseconds without a sign of life after which it ends the service; undefined when it does not. */
    readonly watchdogMs: number | undefined;
}
export declare function serviceManagement(env?: NodeJS.ProcessEnv, pid?: number): ServiceManagement;
/**
 * Device and inode, as `8:12345`, of the stream that systemd has connected to its journal (systemd.exec(5),
 * JOURNAL_STREAM); undefined when it has connected none. The process may have been given another stream since.
 */
export declare function journalStream(env?: NodeJS.ProcessEnv): string | undefined;
/** The user who called sudo (sudo(8)), as it says; undefined when no one did. */
export declare function sudoUser(env?: NodeJS.ProcessEnv): string | undefined;
/**
 * Whether errors are to be shown with their stack: at log level debug or trace, by option or variable. Never throws,
 * because it is asked when something else has failed already, perhaps the configuration itself.
 */
export declare function showsStacks(logLevelOption: string | undefined, env?: NodeJS.ProcessEnv): boolean;
/** What shows how a process was started. */
export interface Started {
    readonly env: Readonly<Record<string, string | undefined>>;
    /** The program that was given to Node, as an absolute path and not yet followed through links. */
    readonly script: string;
    /** Node's own file. */
    readonly node: string;
    readonly directory: string;
}
/** @returns words for a shell; what goes behind them is a command of `collector`. */
export declare function ownCommand({ env, script, node, directory }?: Started): string;
/** Text as one word of a shell, in quotes where it needs them. */
export declare function inQuotes(text: string): string;
/** What COLLECTOR_URL and COLLECTOR_KEY name, for a command that sends to a collector. */
export declare function senderVariables(env?: NodeJS.ProcessEnv): {
    readonly url: string | undefined;
    readonly key: string | undefined;
};
