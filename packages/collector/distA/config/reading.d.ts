import { type Config } from './options.js';
/** What is wrong, and where it was said: an option, a variable, or a file with the name in it. */
export interface ConfigFault {
    readonly source: string;
    readonly message: string;
}
/** The configuration cannot be used. Tells every fault, not just the first. */
export declare class ConfigError extends Error {
    readonly faults: readonly ConfigFault[];
    name: string;
    constructor(faults: readonly ConfigFault[]);
}
/** For a member of `limits` that is given as if it were an option: where it belongs. Empty for all else. */
export declare function limitsHint(name: string): string;
/** Where a value was said. */
type Origin = 'command line' | 'environment' | 'file' | 'default';
/** One option as it stands: what it is, and who said so. */
interface Setting {
    readonly name: string;
    readonly value: string | number;
    /** The value as a person writes it: `64MiB`, `10s`. Empty when nothing is chosen. */
    readonly shown: string;
    readonly from: Origin;
    /** The option, or the file or the variable with the name in it. */
    readonly source: string;
    readonly reloadable: boolean;
}
/** All that was given, read: the options that are sound, and what is wrong with the others or between them. */
export interface ConfigReading {
    readonly settings: readonly Setting[];
    readonly faults: readonly ConfigFault[];
    /** What the sound options are, by their names in the configuration. */
    readonly sound: Partial<Config>;
    /** Only without a fault. */
    readonly config: Config | undefined;
    /** The configuration file, if one was named. */
    readonly file: string | undefined;
    /** Where an option was given; its name on the command line when it was not. */
    readonly sourceOf: (option: string) => string;
}
/**
 * Reads and checks the whole configuration, also the options that the command at hand does not use: a mistake in
 * what all commands share should not wait for the next start to be seen. Never throws.
 * @param commandLine the values given as options, by option name (`data-dir`), the `config` file among them.
 * @param env the environment.
 */
export declare function readConfig(commandLine?: Readonly<Record<string, string>>, env?: NodeJS.ProcessEnv): ConfigReading;
/**
 * The configuration, or every fault in it.
 * @throws {@link ConfigError} with every fault and its source.
 */
export declare function loadConfig(commandLine?: Readonly<Record<string, string>>, env?: NodeJS.ProcessEnv): Config;
export {};
