import type { Command } from 'commander';
import type { Catalogue } from '../catalogue/catalogue.js';
import { type CommandName, type Config, type ConfigReading } from '../config.js';
import { type Clock } from '../records/vocabulary.js';
import { CommandFailure } from './exit-codes.js';
/** Gives a command its options from the one declaration. Their values stay text: `config.ts` alone reads them. */
export declare function addConfigOptions(command: Command, name: CommandName): Command;
/** Those options that were typed, by name. */
export declare function givenOptions(command: Command, name: CommandName): Record<string, string>;
/** What a command that was given its options by {@link addConfigOptions} finds there, in the environment and the file. */
export declare function readingOf(command: Command, name: CommandName): ConfigReading;
/**
 * The configuration for a command that was given its options by {@link addConfigOptions}.
 * @throws ConfigError with every fault, or that the data directory is something else than a directory.
 */
export declare function configOf(command: Command, name: CommandName): Config;
/** @throws CommandFailure that names the words, and the one that was probably meant. */
export declare function wordFrom<Word extends string>(option: string, text: string, words: readonly Word[]): Word;
/** The same for several words with commas between them; the order and repeats do not matter. */
export declare function wordsFrom<Word extends string>(option: string, text: string, words: readonly Word[]): Set<Word>;
/** No key belongs to a name of another form. So a script's empty variable is a fault, and not an empty answer. */
export declare function organisationFrom(text: string): string;
/**
 * A UUID, in any case.
 * @param argument what it was given as, for the message.
 * @returns its lower-case form.
 */
export declare function idFrom(argument: string, text: string): string;
/**
 * The ids of a file, one a line, without the blanks around them: an argument is shown to every user of the host.
 * @param file `-` for standard input.
 * @throws CommandFailure when there is none, or it is no text in UTF-8; never with an id in it.
 */
export declare function idsIn(option: string, file: string): string[];
/** The id of a person: `@FILE` or `-`, which hold it, or the id itself. */
export declare function personFrom(option: string, text: string): string;
/** A date stands for its beginning in UTC; anything longer has to say its offset. */
export declare function instantFrom(option: string, text: string): number;
/** An instant (RFC 3339), or how long from now. @returns milliseconds since 1970 UTC, in the future. */
export declare function expiryFrom(text: string | undefined, nowMs: number): number | undefined;
/** How long an old key stays accepted. @returns milliseconds. */
export declare function overlapFrom(text: string, nowMs: number): number;
/** Undefined when none was given. */
export declare function clockFrom(text: string | undefined): Clock | undefined;
/**
 * The id of a run, or its beginning of 8 digits or more, as `collector runs` prints it. Dashes may be left out.
 * @returns in lower case and with dashes; `isWhole` when it is all of the id.
 */
export declare function runIdFrom(option: string, text: string): {
    readonly id: string;
    readonly isWhole: boolean;
};
/**
 * The beginning of a run's id that no other run has: 8 digits, or as many as it takes.
 * @param neighbours ids of other runs: in their order, the one before and the one behind are enough.
 */
export declare function shortId(id: string, neighbours: readonly string[]): string;
/** For a short id that several runs begin with. @param ids of these runs, or the first of them. */
export declare function severalRuns(option: string, beginning: string, ids: readonly string[]): CommandFailure;
/**
 * The record that is meant by its id or the beginning of it.
 * @param asked the option and what was typed, of one organisation when that is given.
 * @throws CommandFailure when there is none, or when several begin so.
 */
export declare function recordMeant(catalogue: Pick<Catalogue, 'run'>, asked: {
    readonly option: string;
    readonly text: string;
    readonly organisation?: string | undefined;
}, dataDir: string): string;
/** What was asked for by its id. */
export interface AskedFor {
    readonly what: 'event' | 'run' | 'entry';
    readonly id: string;
    readonly dataDir: string;
    /** Whether other options leave some of the log out, in which it may be. */
    readonly isNarrowed?: boolean;
}
/** The one sentence of all commands for an id that is not there; with exit code 6. */
export declare function notThere({ what, id, dataDir, isNarrowed }: AskedFor): CommandFailure;
