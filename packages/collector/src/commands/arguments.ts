/** What an operator types to name events, runs, organisations, times and files. */
import { isUtf8 } from 'node:buffer';
import fs from 'node:fs';
import path from 'node:path';
import { didYouMean, isOrganisation } from '@clinical-events/protocol';
import type { Catalogue } from '../catalogue/catalogue.js';
import { CLOCKS, type Clock } from '../records/vocabulary.js';
import { parseDuration } from '../quantity.js';
import { systemCode } from '../system-code.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';

/** @throws CommandFailure that names the words, and the one that was probably meant. */
export function wordFrom<Word extends string>(option: string, text: string, words: readonly Word[]): Word {
  const found = words.find((word) => word === text);
  if (found !== undefined) return found;
  throw usage(
    `${option}: ${JSON.stringify(text)} is not one of ${words.join(', ')}${didYouMean(text, words)}`,
  );
}

/** The same for several words with commas between them; the order and repeats do not matter. */
export function wordsFrom<Word extends string>(
  option: string,
  text: string,
  words: readonly Word[],
): Set<Word> {
  return new Set(text.split(',').map((word) => wordFrom(option, word.trim(), words)));
}

/* What an operator types to say which events are meant, read strictly. Each function throws a usage failure. */

/** No key belongs to a name of another form. So a script's empty variable is a fault, and not an empty answer. */
export function organisationFrom(text: string): string {
  if (isOrganisation(text)) return text;
  throw usage(`--organisation: ${JSON.stringify(text)} is not 1 to 64 characters of A-Z a-z 0-9 . _ -`);
}

/**
 * A UUID, in any case.
 * @param argument what it was given as, for the message.
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
 * What a file has, in place of an argument: that is shown to every user of the host.
 * @param file `-` for standard input.
 * @param holds what belongs into it, for messages.
 * @throws CommandFailure when it is no text in UTF-8; never with anything of it.
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
        ? `${option}: ${source} is a directory: name a file with ${holds}`
        : `${option}: ${source} cannot be read (${code})`,
    );
  }
  if (bytes.length > MOST_TEXT_BYTES) throw usage(`${option}: ${source} is larger than 64 MiB`);
  if (!isUtf8(bytes) || bytes.includes(0))
    throw usage(`${option}: ${source} is no text in UTF-8: save it as UTF-8, with ${holds}`);
  return new TextDecoder().decode(bytes);
}

function sourceOf(file: string): string {
  return file === '-' ? 'standard input' : file;
}

/**
 * The ids of a file, one a line, without the blanks around them.
 * @param file `-` for standard input.
 * @throws CommandFailure when there is no id, or the file is not text in UTF-8; its message has no id.
 */
export function idsIn(option: string, file: string): string[] {
  const lines = textIn(option, file, 'one id a line').split(/\r\n|[\r\n]/);
  const ids = new Set(lines.map((line) => line.trim()).filter((id) => id !== ''));
  if (ids.size === 0) throw usage(`${option}: there is no id in ${sourceOf(file)}`);
  return [...ids];
}

/** @throws CommandFailure where a file has that name: its name would be looked for, and not what it holds. */
function notOfFile(option: string, text: string): string {
  let isFile = false;
  try {
    isFile = fs.statSync(text).isFile();
  } catch {
    // Most texts cannot even be the name of one.
  }
  if (isFile)
    throw usage(
      `${option}: a file has this name: to read it, write @ before it; to look for the name itself, put it into a file`,
    );
  return text;
}

/** A text: `@FILE` or `-`, which hold it, or the text itself. Never in a message. */
export function textFrom(option: string, text: string, holds: string): string {
  if (text === '@') throw usage(`${option}: "@" names nothing`);
  if (text === '-') return textIn(option, text, holds);
  return text.startsWith('@') ? textIn(option, text.slice(1), holds) : notOfFile(option, text);
}

/** The id of a person: `@FILE` or `-`, which hold it, or the id itself. */
export function personFrom(option: string, text: string): string {
  if (text === '' || text === '@') throw usage(`${option}: ${JSON.stringify(text)} names nothing`);
  if (text !== '-' && !text.startsWith('@')) return notOfFile(option, text);
  const [id = '', ...others] = idsIn(option, text === '-' ? text : text.slice(1));
  if (others.length === 0) return id;
  throw usage(
    `${option}: takes one id, and ${text === '-' ? 'standard input' : text.slice(1)} has ${others.length + 1}`,
  );
}

/** A date stands for its beginning in UTC; anything longer has to say its offset. */
export function instantFrom(option: string, text: string): number {
  const shape = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/i;
  const instant = shape.test(text) ? Date.parse(text) : Number.NaN;
  // Date.parse takes 31 February for 3 March.
  const day = Date.parse(text.slice(0, 10));
  if (Number.isNaN(instant) || new Date(day).getUTCDate() !== Number(text.slice(8, 10))) {
    throw usage(
      `${option}: ${JSON.stringify(text)} is neither a date (2026-01-31) nor an instant (2026-01-31T12:00:00Z)`,
    );
  }
  return instant;
}

export interface Period {
  readonly since?: number;
  readonly until?: number;
}

/**
 * `--since` and `--until`, where they were given.
 * @param mayBeEmpty whether both may be the same instant.
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

/** @returns the whole path of a file or directory that `--out` names and that is not there. */
export function newPlaceFrom(text: string): string {
  if (text === '-') throw usage('--out: - is no file; without --out it goes to standard output');
  const out = path.resolve(text);
  if (fs.statSync(path.dirname(out), { throwIfNoEntry: false })?.isDirectory() !== true)
    throw usage(`--out: there is no directory ${path.dirname(out)}`);
  // A link that leads nowhere is there too.
  if (fs.lstatSync(out, { throwIfNoEntry: false }) !== undefined)
    throw usage(`--out: ${out} is there already, and is not written over`);
  return out;
}

/** Years beyond 9999 cannot be written in RFC 3339. */
const END_OF_TIME = Date.UTC(10_000, 0);
const INSTANT = /^(\d{4}-\d{2}-\d{2})[Tt]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:[Zz]|[+-]\d{2}:\d{2})$/;

/** Date.parse takes 30 February for 2 March; a day that exists comes back as it was. */
function isDate(day: string): boolean {
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day);
}

/** A duration with its unit: `--expires 90` would be 90 milliseconds, and was surely meant as days. */
function timeFrom(text: string): number | undefined {
  return /^[1-9]\d*$/.test(text) ? undefined : parseDuration(text);
}

/** An instant (RFC 3339), or how long from now. @returns milliseconds since 1970 UTC, in the future. */
export function expiryFrom(text: string | undefined, nowMs: number): number | undefined {
  if (text === undefined) return undefined;
  const [, date] = INSTANT.exec(text) ?? [];
  const at = date === undefined ? nowMs + (timeFrom(text) ?? Number.NaN) : Date.parse(text.toUpperCase());
  if (!(at < END_OF_TIME) || (date !== undefined && !isDate(date))) {
    throw usage(
      `--expires: ${JSON.stringify(text)} is neither an instant like 2027-01-01T00:00:00Z nor a time like 90d`,
    );
  }
  if (at <= nowMs) throw usage(`--expires: ${text} is not in the future`);
  return at;
}

/** How long an old key stays accepted. @returns milliseconds. */
export function overlapFrom(text: string, nowMs: number): number {
  const overlap = timeFrom(text);
  if (overlap === undefined || nowMs + overlap >= END_OF_TIME) {
    throw usage(`--overlap: ${JSON.stringify(text)} is not a time such as 24h, or 0`);
  }
  return overlap;
}

/** Undefined when none was given. */
export function clockFrom(text: string | undefined): Clock | undefined {
  return text === undefined ? undefined : wordFrom('--clock', text, CLOCKS);
}

/** Where a UUID has its dashes, in hexadecimal digits. */
const DASHES = [8, 12, 16, 20];
const FEWEST_DIGITS = 8;
const ALL_DIGITS = 32;

/**
 * The id of a run, or its beginning of 8 digits or more, as `collector runs` prints it. Dashes may be left out.
 * @returns in lower case and with dashes; `isWhole` when it is all of the id.
 */
export function runIdFrom(option: string, text: string): { readonly id: string; readonly isWhole: boolean } {
  const digits = text.replaceAll('-', '').toLowerCase();
  const id = dashed(digits);
  const isHex = /^[0-9a-f]+$/.test(digits) && digits.length >= FEWEST_DIGITS && digits.length <= ALL_DIGITS;
  if (!isHex || (text.includes('-') && ![id, `${id}-`].includes(text.toLowerCase()))) {
    throw usage(
      `${option}: ${JSON.stringify(text)} is neither a UUID nor the first ${FEWEST_DIGITS} digits or more of one`,
    );
  }
  return { id, isWhole: digits.length === ALL_DIGITS };
}

/** The first hexadecimal digits of a UUID, with its dashes. */
function dashed(digits: string): string {
  return Array.from(digits, (digit, i) => (DASHES.includes(i) ? `-${digit}` : digit)).join('');
}

/**
 * The beginning of a run's id that no other run has: 8 digits, or as many as it takes.
 * @param neighbours ids of other runs: in their order, the one before and the one behind are enough.
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

/** For a short id that several runs begin with. @param ids of these runs, or the first of them. */
export function severalRuns(option: string, beginning: string, ids: readonly string[]): CommandFailure {
  const shown = ids.slice(0, MOST_CANDIDATES).join(', ');
  const more = ids.length > MOST_CANDIDATES ? ', …' : '';
  return usage(`${option}: several runs begin with ${beginning}; give one of ${shown}${more}`);
}

const MOST_LOOKED_AT = 64;

/**
 * The record that is meant by its id or the beginning of it.
 * @param asked the option and what was typed, of one organisation when that is given.
 * @throws CommandFailure when no run or several runs begin with it.
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

/** What was asked for by its id. */
export interface AskedFor {
  readonly what: 'event' | 'run' | 'entry';
  readonly id: string;
  readonly dataDir: string;
  /** Whether other options leave some of the log out, in which it may be. */
  readonly isNarrowed?: boolean;
}

/** The one sentence of all commands for an id that is not there; with exit code 6. */
export function notThere({ what, id, dataDir, isNarrowed = false }: AskedFor): CommandFailure {
  const narrowed = isNarrowed ? ' with what the other options ask for' : '';
  return new CommandFailure(`there is no ${what} ${id} in ${dataDir}${narrowed}`, EXIT.notFound);
}
