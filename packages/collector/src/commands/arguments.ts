/** Parsers for the arguments that name events, runs, organisations, times and files. */
import { isUtf8 } from 'node:buffer';
import fs from 'node:fs';
import path from 'node:path';
import { didYouMean, isOrganisation } from '@clinical-events/protocol';
import type { Catalogue } from '../catalogue/catalogue.js';
import { CLOCKS, type Clock } from '../records/vocabulary.js';
import { parseDuration } from '../quantity.js';
import { systemCode } from '../system-code.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';

/** @throws CommandFailure that lists the words and suggests the nearest. */
export function wordFrom<Word extends string>(option: string, text: string, words: readonly Word[]): Word {
  const found = words.find((word) => word === text);
  if (found !== undefined) return found;
  throw usage(
    `${option}: ${JSON.stringify(text)} is not one of ${words.join(', ')}${didYouMean(text, words)}`,
  );
}

/** The same for a comma-separated list; order and repeats do not matter. */
export function wordsFrom<Word extends string>(
  option: string,
  text: string,
  words: readonly Word[],
): Set<Word> {
  return new Set(text.split(',').map((word) => wordFrom(option, word.trim(), words)));
}

/* Strict parsers of single arguments. Each throws a usage failure. */

/**
 * Rejects a name that no key can have, so that an empty variable in a script is an error and not an empty
 * answer.
 */
export function organisationFrom(text: string): string {
  if (isOrganisation(text)) return text;
  throw usage(`--organisation: ${JSON.stringify(text)} is not 1 to 64 characters of A-Z a-z 0-9 . _ -`);
}

/**
 * A UUID in any letter case.
 * @param argument the option or argument, for the message.
 * @returns its lower-case form.
 */
export function idFrom(argument: string, text: string): string {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) {
    throw usage(`${argument}: ${JSON.stringify(text)} is not a UUID`);
  }
  return text.toLowerCase();
}

const MOST_TEXT_BYTES = 64 << 20;

/**
 * The contents of a file that replaces an argument, because every user of the host can read the argument
 * list.
 * @param file `-` for standard input.
 * @param holds describes the expected contents, for messages.
 * @throws CommandFailure if the file is not UTF-8 text; the message contains nothing of the file.
 */
function textIn(option: string, file: string, holds: string): string {
  const source = sourceOf(file);
  let bytes: Buffer;
  try {
    bytes = fs.readFileSync(file === '-' ? 0 : file);
  } catch (error) {
    const code = systemCode(error) ?? 'UNKNOWN';
    throw usage(
      code === 'EISDIR'
        ? `${option}: ${source} is a directory: give a file with ${holds}`
        : `${option}: ${source} cannot be read (${code})`,
    );
  }
  if (bytes.length > MOST_TEXT_BYTES) throw usage(`${option}: ${source} is larger than 64 MiB`);
  if (!isUtf8(bytes) || bytes.includes(0))
    throw usage(`${option}: ${source} is not UTF-8 text: save it as UTF-8, with ${holds}`);
  return new TextDecoder().decode(bytes);
}

function sourceOf(file: string): string {
  return file === '-' ? 'standard input' : file;
}

/**
 * The ids in a file, one per line, trimmed.
 * @param file `-` for standard input.
 * @throws CommandFailure if the file has no id or is not UTF-8 text; the message contains no id.
 */
export function idsIn(option: string, file: string): string[] {
  const lines = textIn(option, file, 'one id a line').split(/\r\n|[\r\n]/);
  const ids = new Set(lines.map((line) => line.trim()).filter((id) => id !== ''));
  if (ids.size === 0) throw usage(`${option}: there is no id in ${sourceOf(file)}`);
  return [...ids];
}

/** @throws CommandFailure if the text is the name of a file: the file's contents were probably meant. */
function notOfFile(option: string, text: string): string {
  let isFile = false;
  try {
    isFile = fs.statSync(text).isFile();
  } catch {
    // Most texts are not valid file names.
  }
  if (isFile)
    throw usage(
      `${option}: this is the name of a file: write @ before it to read the file; to search for the name ` +
        'itself, put it into a file',
    );
  return text;
}

/** A text, or `@FILE` or `-` to read it from. Messages never contain it. */
export function textFrom(option: string, text: string, holds: string): string {
  if (text === '@') throw usage(`${option}: "@" names nothing`);
  if (text === '-') return textIn(option, text, holds);
  return text.startsWith('@') ? textIn(option, text.slice(1), holds) : notOfFile(option, text);
}

/** The id of a person, or `@FILE` or `-` to read it from. */
export function personFrom(option: string, text: string): string {
  if (text === '' || text === '@') throw usage(`${option}: ${JSON.stringify(text)} names nothing`);
  if (text !== '-' && !text.startsWith('@')) return notOfFile(option, text);
  const [id = '', ...others] = idsIn(option, text === '-' ? text : text.slice(1));
  if (others.length === 0) return id;
  throw usage(`${option}: takes one id, and ${sourceOf(text.replace('@', ''))} has ${others.length + 1}`);
}

/** A date means its beginning in UTC; anything longer must include its offset. */
export function instantFrom(option: string, text: string): number {
  const shape = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/i;
  const instant = shape.test(text) ? Date.parse(text) : Number.NaN;
  // Date.parse reads 31 February as 3 March.
  const day = Date.parse(text.slice(0, 10));
  if (Number.isNaN(instant) || new Date(day).getUTCDate() !== Number(text.slice(8, 10))) {
    throw usage(
      `${option}: ${JSON.stringify(text)} is neither a date like 2026-01-31 nor an instant like ` +
        '2026-01-31T12:00Z',
    );
  }
  return instant;
}

export interface Period {
  readonly since?: number;
  readonly until?: number;
}

/**
 * `--since` and `--until`, where given.
 * @param mayBeEmpty whether the two may be equal.
 */
export function periodFrom(
  { since, until }: { readonly since?: string; readonly until?: string },
  mayBeEmpty = false,
): Period {
  const period = {
    ...(since !== undefined && { since: instantFrom('--since', since) }),
    ...(until !== undefined && { until: instantFrom('--until', until) }),
  };
  const { since: from = -Infinity, until: to = Infinity } = period;
  if (from < to || (mayBeEmpty && from === to)) return period;
  throw usage(`--since: ${since} is ${mayBeEmpty ? 'later than' : 'not earlier than'} --until ${until}`);
}

/** @returns the absolute path that `--out` names; nothing of that name exists. */
export function newPlaceFrom(text: string): string {
  if (text === '-') throw usage('--out: - is not a file; without --out, output goes to standard output');
  const out = path.resolve(text);
  if (fs.statSync(path.dirname(out), { throwIfNoEntry: false })?.isDirectory() !== true)
    throw usage(`--out: there is no directory ${path.dirname(out)}`);
  // A dangling link exists too.
  if (fs.lstatSync(out, { throwIfNoEntry: false }) !== undefined)
    throw usage(`--out: ${out} exists and is not overwritten`);
  return out;
}

/** Years beyond 9999 cannot be written in RFC 3339. */
const END_OF_TIME = Date.UTC(10_000, 0);
const INSTANT = /^(\d{4}-\d{2}-\d{2})[Tt]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:[Zz]|[+-]\d{2}:\d{2})$/;

/** Date.parse reads 30 February as 2 March; only a day that exists survives the round trip. */
function isDate(day: string): boolean {
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day);
}

/**
 * A duration with its unit: a bare `--expires 90` would mean 90 milliseconds, and days were surely meant.
 */
function timeFrom(text: string): number | undefined {
  return /^[1-9]\d*$/.test(text) ? undefined : parseDuration(text);
}

/** An instant (RFC 3339) or a duration from now. @returns milliseconds since 1970 UTC, in the future. */
export function expiryFrom(text: string | undefined, nowMs: number): number | undefined {
  if (text === undefined) return undefined;
  const [, date] = INSTANT.exec(text) ?? [];
  const at = date === undefined ? nowMs + (timeFrom(text) ?? Number.NaN) : Date.parse(text.toUpperCase());
  if (!(at < END_OF_TIME) || (date !== undefined && !isDate(date))) {
    throw usage(
      `--expires: ${JSON.stringify(text)} is neither like 2027-01-01T00:00:00Z nor a time like 90d`,
    );
  }
  if (at <= nowMs) throw usage(`--expires: ${text} is not in the future`);
  return at;
}

/** How long the old key stays accepted, in milliseconds. */
export function overlapFrom(text: string, nowMs: number): number {
  const overlap = timeFrom(text);
  if (overlap === undefined || nowMs + overlap >= END_OF_TIME) {
    throw usage(`--overlap: ${JSON.stringify(text)} is not a time such as 24h, or 0`);
  }
  return overlap;
}

export function clockFrom(text: string | undefined): Clock | undefined {
  return text === undefined ? undefined : wordFrom('--clock', text, CLOCKS);
}

/** Where a UUID has its dashes, in hexadecimal digits. */
const DASHES = [8, 12, 16, 20];
const FEWEST_DIGITS = 8;
const ALL_DIGITS = 32;

/**
 * A run id, or its first 8 or more digits as `collector runs` prints them. Dashes are optional.
 * @returns it in lower case and with dashes; `isWhole` if it is a complete id.
 */
export function runIdFrom(option: string, text: string): { readonly id: string; readonly isWhole: boolean } {
  const digits = text.replaceAll('-', '').toLowerCase();
  const id = dashed(digits);
  const isHex = /^[0-9a-f]+$/.test(digits) && digits.length >= FEWEST_DIGITS && digits.length <= ALL_DIGITS;
  if (!isHex || (text.includes('-') && ![id, `${id}-`].includes(text.toLowerCase()))) {
    throw usage(
      `${option}: ${JSON.stringify(text)} is neither a UUID nor its first ${FEWEST_DIGITS} or more digits`,
    );
  }
  return { id, isWhole: digits.length === ALL_DIGITS };
}

/** Puts dashes into the first digits of a UUID. */
function dashed(digits: string): string {
  return Array.from(digits, (digit, i) => (DASHES.includes(i) ? `-${digit}` : digit)).join('');
}

/**
 * The shortest prefix of a run id, of at least 8 digits, that no other run shares.
 * @param neighbours ids of other runs; the previous and the next one in sorted order are enough.
 */
export function shortId(id: string, neighbours: readonly string[]): string {
  const digits = id.replaceAll('-', '');
  let shared = 0;
  for (const other of neighbours) {
    if (other === id) continue;
    const others = other.replaceAll('-', '');
    let same = 0;
    while (same < digits.length && others[same] === digits[same]) same++;
    shared = Math.max(shared, same);
  }
  return dashed(digits.slice(0, Math.max(FEWEST_DIGITS, shared + 1)));
}

const MOST_CANDIDATES = 8;

/** The failure for a short id that matches several runs. @param ids of these runs, or the first of them. */
export function severalRuns(option: string, beginning: string, ids: readonly string[]): CommandFailure {
  const shown = ids.slice(0, MOST_CANDIDATES).join(', ');
  const more = ids.length > MOST_CANDIDATES ? ', …' : '';
  return usage(`${option}: several runs begin with ${beginning}; give one of ${shown}${more}`);
}

const MOST_LOOKED_AT = 64;

/**
 * The run that an id or a prefix of one identifies.
 * @param asked the option and its text, within one organisation if given.
 * @throws CommandFailure if no run or several runs match.
 */
export function recordMeant(
  catalogue: Pick<Catalogue, 'run'>,
  asked: { readonly option: string; readonly text: string; readonly organisation?: string | undefined },
  dataDir: string,
): string {
  const { option, text, organisation } = asked;
  const { id } = runIdFrom(option, text);
  const found = catalogue.run(organisation, id, MOST_LOOKED_AT).map(({ recordId }) => recordId);
  const [one, ...others] = new Set(found);
  if (one === undefined) throw notThere({ what: 'run', id, dataDir, isNarrowed: organisation !== undefined });
  if (others.length > 0) throw severalRuns(option, id, [one, ...others]);
  return one;
}

/** An id that a command was asked for. */
export interface AskedFor {
  readonly what: 'event' | 'run' | 'entry';
  readonly id: string;
  readonly dataDir: string;
  /** Whether other options exclude a part of the log that may have the id. */
  readonly isNarrowed?: boolean;
}

/** The failure of every command for an id that does not exist: exit code 6. */
export function notThere({ what, id, dataDir, isNarrowed = false }: AskedFor): CommandFailure {
  const narrowed = isNarrowed ? ' that matches the other options' : '';
  return new CommandFailure(`there is no ${what} ${id} in ${dataDir}${narrowed}`, EXIT.notFound);
}
