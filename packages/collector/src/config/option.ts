/** The declaration of an option, and the commands that options can apply to. */
import path from 'node:path';
import { didYouMean } from '@clinical-events/protocol';
import { formatByteSize, formatDuration, parseByteSize, parseDuration } from '../quantity.js';

/* Names of options in the environment. */

export const PREFIX = 'COLLECTOR_';
export const CONFIG_VARIABLE = `${PREFIX}CONFIG`;
/** Variables with our prefix for clients: the address of a collector, a key, and a spool. */
export const CLIENT_VARIABLES: readonly string[] = [`${PREFIX}URL`, `${PREFIX}KEY`, `${PREFIX}SPOOL`];

/** The prefix of the options in `limits`. */
export const LIMITS = 'limits.';
export const LIMITS_VARIABLE = `${PREFIX}LIMITS`;

export function isLimit(name: string): boolean {
  return name.startsWith(LIMITS);
}

export function variable(name: string): string {
  return PREFIX + name.toUpperCase().replaceAll('-', '_');
}

/** The commands that an option can apply to: `issuing` creates keys, `lifecycle` erases events. */
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
  /** The commands that accept it as an option; none for a member of `limits`. */
  readonly appliesTo?: readonly CommandName[];
  /** Whether a running collector applies a new value on SIGHUP; the others need a restart. */
  readonly reloadable?: true;
}
export interface TextOption extends Declared {
  /** A path, or the path in a place `command:PATH`, is made absolute. */
  readonly type: 'text' | 'path' | 'place' | 'list';
  /** Empty if there is no default. */
  readonly default: string;
  /** The meaning of an empty default, in words. */
  readonly otherwise?: string;
}
interface NumberOption extends Declared {
  readonly type: 'integer' | 'bytes' | 'duration';
  /** Empty if there is no default. */
  readonly default: number | '';
  /** The meaning of an empty default, in words. */
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

/* Values as text: parsing and display. */

/** Characters that no value may contain: a path may contain spaces, an address may not. */
const UNUSABLE = { text: /[\s\p{Cc}]/u, path: /\p{Cc}/u, place: /\p{Cc}|^command:$/u, list: /\p{Cc}/u };

export function shown(option: Option, value: string | number): string {
  if (value === '' && 'otherwise' in option) return option.otherwise ?? '';
  if (typeof value === 'string') return value;
  if (option.type === 'bytes') return formatByteSize(value);
  return option.type === 'duration' ? formatDuration(value) : String(value);
}

/** The accepted values, in words. */
export function domain(option: Option): string {
  if (option.type === 'choice') return option.choices.join(', ');
  if (!('min' in option)) return option.type === 'place' ? 'path, or command:path' : option.type;
  return `${shown(option, option.min)} to ${shown(option, option.max)}`;
}

/** @returns the value, or the reason why the text is not valid. */
export function parse(option: Option, text: string): { value: string | number } | { reason: string } {
  if ('choices' in option) {
    if (option.choices.includes(text)) return { value: text };
    return {
      reason: `${JSON.stringify(text)} is not one of ${domain(option)}${didYouMean(text, option.choices)}`,
    };
  }
  if (!('min' in option)) {
    if (text === '' || UNUSABLE[option.type].test(text)) {
      // A list may contain an address with a password.
      const given = option.type === 'list' ? 'the value' : JSON.stringify(text);
      return { reason: `${given} is not a usable ${option.type}` };
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
