/** The texts about the options: the help of a command, and the table in docs/reference. */
import { type CommandName } from './option.js';
import { type Config } from './options.js';
/** An option as the command line's help needs it. */
export interface OptionHelp {
    readonly name: string;
    /** What its value is called. */
    readonly placeholder: string;
    readonly help: string;
}
/** The options of a command, `--config` first. */
export declare function optionsOf(command: CommandName): OptionHelp[];
/** The options of the command line as a Markdown table, for docs/reference. Ends without a line break. */
export declare function configTable(): string;
/** The members of `limits` as a Markdown table, for docs/reference. Ends without a line break. */
export declare function limitsTable(): string;
/** What a running collector can take of a configuration that was read again. */
export interface Reloaded {
    /** The running one, with the new values of all options that can be reloaded. */
    readonly config: Config;
    /** Options that have a new value now. */
    readonly taken: readonly string[];
    /** Options that were said to be otherwise, and need a restart. */
    readonly waiting: readonly string[];
}
/** Sound when both configurations are: no option that can be reloaded is bound to one that cannot. */
export declare function reloaded(running: Config, read: Config): Reloaded;
