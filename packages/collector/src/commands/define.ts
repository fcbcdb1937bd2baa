/**
 * The declaration of a command: its name, arguments, options and action. command-line.ts makes it executable,
 * so that a definition loads neither the parser nor the configuration.
 */
import type { CommandName, Config, ConfigReading } from '../config.js';
import type { ExitCode } from './exit-codes.js';

/** An option of the command. A string is the help of an option that is given at most once. */
export type OwnOption =
  | string
  | {
      readonly help: string;
      readonly default?: string;
      /** The accepted values. */
      readonly choices?: readonly string[];
      readonly isRequired?: true;
      /** May be given several times; the value is an array. */
      readonly isRepeatable?: true;
    };

/** One invocation of a command. */
export interface Call<Options = object> {
  /** Values of the command's own options, by name in camel case. */
  readonly options: Options;
  /** The configuration options on the command line, by name. */
  readonly given: Readonly<Record<string, string>>;
  /**
   * Reads the configuration from command line, environment and file.
   * @param instead configuration options that the command sets itself, by name.
   * @throws ConfigError with every fault; CommandFailure if the command cannot be used on the named store.
   */
  readonly config: (instead?: Readonly<Record<string, string>>) => Config;
  /** The same, returning every fault. Never throws. */
  readonly reading: (instead?: Readonly<Record<string, string>>) => ConfigReading;
}

/** A command. `Options` is the type of its own options. */
export interface Definition<Options = object> {
  readonly name: string;
  /** One sentence for the help. */
  readonly description: string;
  /**
   * Arguments in order, as the help shows them (`<file>`, `[id]`, `<file...>`), each with its description.
   */
  readonly arguments?: Readonly<Record<string, string>>;
  /** Own options as the help shows them: `--json`, `--out <file>`. */
  readonly options?: Readonly<Record<string, OwnOption>>;
  /** Selects the configuration options that apply to the command; absent if none do. */
  readonly configuration?: CommandName;
  /** Text below the heading "Examples:", including any further explanation. */
  readonly examples?: string;
  /** The arguments may name a person: they are removed from the process list. */
  readonly hidesArguments?: true;
  /** Subcommands, in the order of the help. */
  readonly commands?: readonly Definition[];
  /**
   * Absent if the command has only subcommands.
   * @param words the arguments, one parameter each; an optional one may be undefined.
   * @returns the exit code; undefined means 0.
   */
  run?(call: Call<Options>, ...words: string[]): Outcome;
}

type Outcome = ExitCode | undefined | Promise<ExitCode | undefined> | Promise<void>;

/** Each command file exports the result as `command`. */
export function defineCommand<Options = object>(definition: Definition<Options>): Definition {
  return definition as Definition;
}
