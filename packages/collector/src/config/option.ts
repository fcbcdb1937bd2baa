/** What is declared of an option, and which commands it can apply to. */

/** The commands that an option can apply to; `issuing` stands for those of `keys` that hand out a key. */
export type CommandName =
  | 'serve'
  | 'keys'
  | 'issuing'
  | 'events'
  | 'records'
  | 'runs'
  | 'report'
  | 'validate'
  | 'doctor'
  | 'signing-key'
  | 'verify'
  | 'proof'
  | 'tiles'
  | 'backup';

interface Declared {
  readonly help: string;
  readonly appliesTo: readonly CommandName[];
  /** Whether a running collector takes a new value on SIGHUP; all others need a restart. */
  readonly reloadable?: true;
}
export interface TextOption extends Declared {
  /** A path is made absolute against the working directory, also when it comes from the file. */
  readonly type: 'text' | 'path' | 'list';
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
