/** JSON texts (RFC 8259): the tokenizer, and what its listeners need to validate and compare tokens. */

export const QUOTE = 34;
export const COMMA = 44;
export const COLON = 58;
export const OPEN_BRACKET = 91;
const BACKSLASH = 92;
export const CLOSE_BRACKET = 93;
export const OPEN_BRACE = 123;
export const CLOSE_BRACE = 125;
const MINUS = 45;
const PLUS = 43;
export const POINT = 46;
const ZERO = 48;
const LOWER_E = 101;
const LOWER_U = 117;

/** The offset of the quote that ends the string beginning at `start`, or -1: jumps from quote to quote. */
export function stringEnd(text: string, start: number): number {
  let end = start;
  for (;;) {
    end = text.indexOf('"', end + 1);
    if (end < 0) return -1;
    let backslashes = 0;
    while (text.charCodeAt(end - 1 - backslashes) === BACKSLASH) backslashes++;
    // An even number of backslashes escape each other, and the quote is a quote.
    if (backslashes % 2 === 0) return end;
  }
}

/** The number of marks outside strings. Meaningless for a text that is not JSON. */
export interface TokenCounts {
  /** Colons: one for each member of an object. */
  readonly members: number;
  /** At least the number of values. */
  readonly values: number;
}

/** Receives each brace, bracket, colon and comma outside strings. */
export type MarkListener = (code: number, at: number) => void;

/**
 * Passes over a text once, from string to string, and counts its marks. Validates nothing: JSON.parse does.
 * @returns undefined when more than `maxDepth` arrays and objects stand inside each other, the outermost one
 *   counted.
 */
export function tokenize(text: string, maxDepth: number, listener?: MarkListener): TokenCounts | undefined {
  const { length } = text;
  let members = 0;
  let values = 1;
  let depth = 0;
  for (let i = 0; i < length; i++) {
    const code = text.charCodeAt(i);
    switch (code) {
      case QUOTE:
        i = stringEnd(text, i);
        if (i < 0) return { members, values };
        continue;
      case COMMA:
        values++;
        break;
      case COLON:
        members++;
        break;
      case OPEN_BRACE:
      case OPEN_BRACKET:
        values++;
        if (++depth > maxDepth) return undefined;
        break;
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        depth--;
        break;
      default:
        continue;
    }
    listener?.(code, i);
  }
  return { members, values };
}

type Reviver = Parameters<typeof JSON.parse>[1];

/**
 * Parses as JSON.parse does, and keeps the names of members. V8 of Node 24 to 26 mistakes a name that has an
 * escape for an earlier one that has a backslash: of {"x":0,"\\":1} and then {"x":0,"\n":1} the second gets
 * the name of the first.
 * @throws SyntaxError, as JSON.parse.
 */
export function parseJson(text: string, reviver?: Reviver): unknown {
  const value: unknown = JSON.parse(text, reviver);
  return hasEscapedName(text) ? fromLists(JSON.parse(asLists(text), reviver) as Lists) : value;
}

/**
 * Whether a member's name in a JSON text is spelt with an escape. Looks at strings with a backslash alone.
 */
function hasEscapedName(text: string): boolean {
  for (let at = text.indexOf('\\'); at >= 0; at = text.indexOf('\\', at)) {
    at = stringEnd(text, at) + 1;
    while (SPACE.includes(text.charAt(at))) at++;
    if (text.charCodeAt(at) === COLON) return true;
  }
  return false;
}

const SPACE = [' ', '\n', '\r', '\t'];

/** An array is [1, items], an object [0, name, value, name, value, ...] in a list of its own. */
type Lists = readonly [0 | 1, readonly unknown[]];

const AS_LISTS = new Map([
  [OPEN_BRACE, '[0,['],
  [COLON, ','],
  [CLOSE_BRACE, ']]'],
  [OPEN_BRACKET, '[1,['],
  [CLOSE_BRACKET, ']]'],
]);

/** Writes a JSON text as lists, of which JSON.parse reads every string right, because none is a name. */
function asLists(text: string): string {
  const parts: string[] = [];
  let from = 0;
  tokenize(text, Infinity, (code, at) => {
    const list = AS_LISTS.get(code);
    if (list === undefined) return;
    parts.push(text.slice(from, at), list);
    from = at + 1;
  });
  return parts.join('') + text.slice(from);
}

function fromLists([isArray, parts]: Lists): unknown {
  const values = parts.map((each) => (Array.isArray(each) ? fromLists(each as unknown as Lists) : each));
  if (isArray === 1) return values;
  const members: [string, unknown][] = [];
  for (let i = 0; i < values.length; i += 2) members.push([values[i] as string, values[i + 1]]);
  return Object.fromEntries(members);
}

/** The UTF-16 units of a text, then zeros. Reading one takes a third of the time of `charCodeAt`. */
export type Units = Uint16Array<ArrayBuffer>;

/** The most units that are read past an offset without a look for the end. */
const ZEROS = 8;

export function unitsOf(text: string): Units {
  const units = new Uint16Array(text.length + ZEROS);
  Buffer.from(units.buffer).write(text, 'utf16le');
  return units;
}

/** The offset of the first unit from `at` that is not white space. */
export function pastSpace(units: Units, at: number): number {
  let code = units[at] ?? 0;
  while (code === 32 || code === 10 || code === 13 || code === 9) code = units[++at] ?? 0;
  return at;
}

const ESCAPED = new Uint8Array(128);
for (const [letter, unit] of Object.entries({
  ...{ '"': '"', '\\': '\\', '/': '/' },
  ...{ b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' },
})) {
  ESCAPED[letter.charCodeAt(0)] = unit.charCodeAt(0);
}

function hexDigit(code: number): number {
  if (code >= ZERO && code <= 57) return code - ZERO;
  const lower = code | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}

/** For a backslash that begins no escape. */
const NO_UNIT = -1;

/**
 * The UTF-16 unit that a string has at `at`, and above its 16 bits the number of characters that spell it: 1,
 * 2 or 6. `NO_UNIT` for a backslash that begins no escape.
 */
export function unitAt(units: Units, at: number): number {
  const code = units[at] ?? 0;
  if (code !== BACKSLASH) return code | (1 << 16);
  const letter = units[at + 1] ?? 0;
  if (letter !== LOWER_U) {
    const unit = letter < 128 ? (ESCAPED[letter] ?? 0) : 0;
    return unit === 0 ? NO_UNIT : unit | (2 << 16);
  }
  let unit = 0;
  for (let i = at + 2; i < at + 6; i++) {
    const digit = hexDigit(units[i] ?? 0);
    if (digit < 0) return NO_UNIT;
    unit = (unit << 4) | digit;
  }
  return unit | (6 << 16);
}

/** Whether two strings have the same units, each given from after its first quote up to its last one. */
export function sameString(
  a: Units,
  fromA: number,
  toA: number,
  b: Units,
  fromB: number,
  toB: number,
): boolean {
  let [i, j] = [fromA, fromB];
  while (i < toA && j < toB) {
    const [left, right] = [unitAt(a, i), unitAt(b, j)];
    if ((left & 0xffff) !== (right & 0xffff)) return false;
    i += left >> 16;
    j += right >> 16;
  }
  return i === toA && j === toB;
}

/** An offset as line and column for messages, both counted from 1. */
export function placeIn(text: string, offset: number): string {
  const lines = text.slice(0, offset).split('\n');
  return `line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}`;
}

/** The offset after the string that begins at `at`, or -1 less the offset of its fault. */
function pastString(units: Units, at: number): number {
  for (let i = at + 1; ;) {
    const code = units[i] ?? 0;
    if (code === QUOTE) return i + 1;
    if (code === BACKSLASH) {
      const unit = unitAt(units, i);
      if (unit === NO_UNIT) return -1 - i;
      i += unit >> 16;
    } else if (code >= 32) i++;
    else return -1 - i;
  }
}

const LITERALS = ['true', 'false', 'null'].map((word) => Array.from(word, (letter) => letter.charCodeAt(0)));

/** The offset after the string, number or literal that begins at `at`, or -1 less the offset of its fault. */
export function pastScalar(units: Units, at: number): number {
  const code = units[at] ?? 0;
  return code === QUOTE ? pastString(units, at) : pastWord(units, at);
}

/** {@link pastScalar} for a number or literal alone. */
function pastWord(units: Units, at: number): number {
  const code = units[at] ?? 0;
  if (code === MINUS || (code >= ZERO && code <= 57)) return pastNumber(units, at, code);
  for (const word of LITERALS) {
    let i = 0;
    while (i < word.length && units[at + i] === word[i]) i++;
    if (i === word.length) return at + i;
  }
  return -1 - at;
}

function pastNumber(units: Units, start: number, first: number): number {
  let at = first === MINUS ? start + 1 : start;
  // RFC 8259 section 6: no digit follows a leading zero.
  const whole = (units[at] ?? 0) === ZERO ? at + 1 : pastDigits(units, at);
  if (whole === at) return -1 - at;
  at = whole;
  if ((units[at] ?? 0) === POINT) {
    const end = pastDigits(units, at + 1);
    if (end === at + 1) return -1 - end;
    at = end;
  }
  if (((units[at] ?? 0) | 32) !== LOWER_E) return at;
  const sign = units[at + 1] ?? 0;
  const from = sign === PLUS || sign === MINUS ? at + 2 : at + 1;
  const end = pastDigits(units, from);
  return end === from ? -1 - end : end;
}

function pastDigits(units: Units, at: number): number {
  let code = units[at] ?? 0;
  while (code >= ZERO && code <= 57) code = units[++at] ?? 0;
  return at;
}
