/**
 * One way to define a command: what it is called, what it takes and what it does. command-line.ts makes a command for a
 * terminal of it, so that a definition loads neither the parser nor the configuration.
 */
import type { CommandName, Config, ConfigReading } from '../config.js';
import type { ExitCode } from './exit-codes.js';

/** An option of a command's own. A text is the help of one that is given at most once. */
export type OwnOption =
  | string
  | {
      readonly help: string;
      readonly default?: string;
      /** The only values that it takes. */
      readonly choices?: readonly string[];
      readonly isRequired?: true;
      /** It may be given several times; its value is an array. */
      readonly isRepeatable?: true;
    };

/** One call of a command. */
export interface Call<Options = object> {
  /** Values of the command's own options, by their names in camel case. */
  readonly options: Options;
  /** The options of the configuration that were typed, by name. */
  readonly given: Readonly<Record<string, string>>;
  /**
   * Reads the configuration from command line, environment and file.
   * @param instead options of the configuration that the command sets itself, by name.
   * @throws ConfigError with every fault; CommandFailure where the command cannot be used on the store that is named.
   */
  readonly config: (instead?: Readonly<Record<string, string>>) => Config;
  /** The same with every fault of it. Never throws. */
  readonly reading: (instead?: Readonly<Record<string, string>>) => ConfigReading;
}

/** What a command is. `Options` are the values of its own options. */
export interface Definition<Options = object> {
  readonly name: string;
  /** One sentence, for its help. */
  readonly description: string;
  /** Arguments in their order, as the help shows them (`<file>`, `[id]`, `<file...>`), with what each is. */
  readonly arguments?: Readonly<Record<string, string>>;
  /** Its own options as the help shows them: `--json`, `--out <file>`. */
  readonly options?: Readonly<Record<string, OwnOption>>;
  /** The name by which options of the configuration apply to it; absent where it takes none. */
  readonly configuration?: CommandName;
  /** Text below the heading "Examples:", with what else its help says. */
  readonly examples?: string;
  /** Its arguments may name a person: they are taken out of the list of processes. */
  readonly hidesArguments?: true;
  /** Commands of its own, in the order of its help. */
  readonly commands?: readonly Definition[];
  /**
   * Absent where the name alone asks for help.
   * @param words its arguments, one parameter each; an optional one may be undefined.
   * @returns the exit code; 0 when undefined.
   */
  run?(call: Call<Options>, ...words: string[]): Outcome;
}

type Outcome = ExitCode | undefined | Promise<ExitCode | undefined> | Promise<void>;

/** A file of a command exports the result as `command`. */
export function defineCommand<Options = object>(definition: Definition<Options>): Definition {
  return definition as Definition;
}
