/** What is declared of an option, and which commands it can apply to. */
import path from 'node:path';
import { didYouMean } from '@clinical-events/protocol';
import { formatByteSize, formatDuration, parseByteSize, parseDuration } from '../quantity.js';

/* The names that options have in the environment. */

export const PREFIX = 'COLLECTOR_';
export const CONFIG_VARIABLE = `${PREFIX}CONFIG`;
/** With our prefix, and for clients: where a collector is, a key for it, and a spool. One shell may have all. */
export const CLIENT_VARIABLES: readonly string[] = [`${PREFIX}URL`, `${PREFIX}KEY`, `${PREFIX}SPOOL`];

/** What the names of the options in `limits` begin with. */
export const LIMITS = 'limits.';
export const LIMITS_VARIABLE = `${PREFIX}LIMITS`;

export function isLimit(name: string): boolean {
  return name.startsWith(LIMITS);
}

export function variable(name: string): string {
  return PREFIX + name.toUpperCase().replaceAll('-', '_');
}

/** The commands that an option can apply to: `issuing` are those of `keys` that hand out a key, `lifecycle` those that erase events. */
export type CommandName =
  | 'serve'
  | 'keys'
  | 'issuing'
  | 'events'
  | 'records'
  | 'runs'
  | 'report'
  | 'import'
  | 'doctor'
  | 'encryption-keys'
  | 'lifecycle'
  | 'hold'
  | 'signing-key'
  | 'verify'
  | 'proof'
  | 'backup'
  | 'store'
  | 'quarantine'
  | 'mirror';

interface Declared {
  readonly help: string;
  /** The commands that take it as an option; none takes a member of `limits`. */
  readonly appliesTo?: readonly CommandName[];
  /** Whether a running collector takes a new value on SIGHUP; all others need a restart. */
  readonly reloadable?: true;
}
export interface TextOption extends Declared {
  /** A path, also that of a place `command:PATH`, is made absolute, wherever it was given. */
  readonly type: 'text' | 'path' | 'place' | 'list';
  /** Empty when the value is empty unless given. */
  readonly default: string;
  /** What an empty default stands for, in words. */
  readonly otherwise?: string;
}
interface NumberOption extends Declared {
  readonly type: 'integer' | 'bytes' | 'duration';
  /** Empty when there is no value unless given. */
  readonly default: number | '';
  /** What an empty default stands for, in words. */
  readonly otherwise?: string;
  readonly min: number;
  readonly max: number;
}
interface ChoiceOption extends Declared {
  readonly type: 'choice';
  readonly default: string;
  readonly choices: readonly string[];
}
export type Option = TextOption | NumberOption | ChoiceOption;

/* The value of an option as text: how it is read, and how it is shown. */

/** What no value may contain: a path may hold spaces, an address may not. */
const UNUSABLE = { text: /[\s\p{Cc}]/u, path: /\p{Cc}/u, place: /\p{Cc}|^command:$/u, list: /\p{Cc}/u };

export function shown(option: Option, value: string | number): string {
  if (value === '' && 'otherwise' in option) return option.otherwise ?? '';
  if (typeof value === 'string') return value;
  if (option.type === 'bytes') return formatByteSize(value);
  return option.type === 'duration' ? formatDuration(value) : String(value);
}

/** What an option accepts, in words. */
export function domain(option: Option): string {
  if (option.type === 'choice') return option.choices.join(', ');
  if (!('min' in option)) return option.type === 'place' ? 'path, or command:path' : option.type;
  return `${shown(option, option.min)} to ${shown(option, option.max)}`;
}

/** @returns the value, or why the text is not a value of the option. */
export function parse(option: Option, text: string): { value: string | number } | { reason: string } {
  if ('choices' in option) {
    if (option.choices.includes(text)) return { value: text };
    return {
      reason: `${JSON.stringify(text)} is not one of ${domain(option)}${didYouMean(text, option.choices)}`,
    };
  }
  if (!('min' in option)) {
    if (text === '' || UNUSABLE[option.type].test(text)) {
      // A list may hold an address with a password in it.
      const said = option.type === 'list' ? 'what is given' : JSON.stringify(text);
      return { reason: `${said} is not a usable ${option.type}` };
    }
    if (option.type !== 'path' && option.type !== 'place') return { value: text };
    const prefix = option.type === 'place' && text.startsWith('command:') ? 'command:' : '';
    return { value: prefix + path.resolve(text.slice(prefix.length)) };
  }
  const value =
    option.type === 'integer'
      ? /^-?\d{1,15}$/.test(text)
        ? Number(text)
        : undefined
      : option.type === 'bytes'
        ? parseByteSize(text)
        : parseDuration(text);
  if (value === undefined) {
    const form = {
      integer: 'a whole number',
      bytes: 'a size such as 64KiB',
      duration: 'a duration such as 10s',
    };
    return { reason: `${JSON.stringify(text)} is not ${form[option.type]}` };
  }
  if (value < option.min || value > option.max)
    return { reason: `${text} is out of range: ${domain(option)}` };
  return { value };
}
