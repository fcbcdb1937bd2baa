export declare const PREFIX = "COLLECTOR_";
export declare const CONFIG_VARIABLE = "COLLECTOR_CONFIG";
/** With our prefix, and for clients: where a collector is, a key for it, and a spool. One shell may have all. */
export declare const CLIENT_VARIABLES: readonly string[];
/** What the names of the options in `limits` begin with. */
export declare const LIMITS = "limits.";
export declare const LIMITS_VARIABLE = "COLLECTOR_LIMITS";
export declare function isLimit(name: string): boolean;
export declare function variable(name: string): string;
/** The commands that an option can apply to: `issuing` are those of `keys` that hand out a key, `lifecycle` those that retire events. */
export type CommandName = 'serve' | 'keys' | 'issuing' | 'events' | 'records' | 'runs' | 'report' | 'import' | 'doctor' | 'encryption-keys' | 'lifecycle' | 'signing-key' | 'verify' | 'proof' | 'backup' | 'store' | 'quarantine' | 'mirror';
interface Declared {
    readonly help: string;
    /** The commands that take it as an option; none takes a member of `limits`. */
    readonly appliesTo?: readonly CommandName[];
    /** Whether a running collector takes a new value on SIGHUP; all others need a restart. */
    readonly reloadable?: true;
}
export interface TextOption extends Declared {
    /** A path, and that behind the `command:` of a place, is made absolute, also when it comes from the file. */
    readonly type: 'text' | 'path' | 'place' | 'list';
    /** Empty when the value is empty unless given. */
    readonly default: string;
    /** What an empty default stands for, in words. */
    readonly otherwise?: string;
}
interface NumberOption extends Declared {
    readonly type: 'integer' | 'bytes' | 'duration';
    readonly default: number;
    readonly min: number;
    readonly max: number;
}
interface ChoiceOption extends Declared {
    readonly type: 'choice';
    readonly default: string;
    readonly choices: readonly string[];
}
export type Option = TextOption | NumberOption | ChoiceOption;
export declare function shown(option: Option, value: string | number): string;
/** What an option accepts, in words. */
export declare function domain(option: Option): string;
/** @returns the value, or the reason why the text is none. */
export declare function parse(option: Option, text: string): {
    value: string | number;
} | {
    reason: string;
};
export {};
