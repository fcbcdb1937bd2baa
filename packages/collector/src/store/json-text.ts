/** JSON texts (RFC 8259): their values, and for those who walk one without building values, its parts. */

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

type Reviver = Parameters<typeof JSON.parse>[1];

/**
 * As JSON.parse, with the names that the text has. V8 of Node 24 to 26 mistakes a name that has an escape for one that it
 * met before where that has a backslash: of {"x":0,"\\":1} and then {"x":0,"\n":1} the second has the name of the first.
 * @throws SyntaxError, as JSON.parse.
 */
export function parseJson(text: string, reviver?: Reviver): unknown {
  const value: unknown = JSON.parse(text, reviver);
  return hasEscapedName(text) ? fromLists(JSON.parse(asLists(text), reviver) as Lists) : value;
}

/** Of a text that is JSON: whether a name is not spelt as it reads. */
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

/** Of a text that is JSON. Strings that are no names are read right. */
function asLists(text: string): string {
  const parts: string[] = [];
  let from = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) i = stringEnd(text, i);
    const list = AS_LISTS.get(code);
    if (list === undefined) continue;
    parts.push(text.slice(from, i), list);
    from = i + 1;
  }
  return parts.join('') + text.slice(from);
}

function fromLists([isArray, parts]: Lists): unknown {
  const values = parts.map((each) => (Array.isArray(each) ? fromLists(each as unknown as Lists) : each));
  if (isArray === 1) return values;
  const members: [string, unknown][] = [];
  for (let i = 0; i < values.length; i += 2) members.push([values[i] as string, values[i + 1]]);
  return Object.fromEntries(members);
}

/** A text by its UTF-16 units, with zeros behind them: read in a third of the time that `charCodeAt` takes. */
export type Units = Uint16Array<ArrayBuffer>;

/** As many as are read behind a place without looking for the end. */
const ZEROS = 8;

export function unitsOf(text: string): Units {
  const units = new Uint16Array(text.length + ZEROS);
  Buffer.from(units.buffer).write(text, 'utf16le');
  return units;
}

/** The first place from `at` on without white space. */
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

/** An escape that is none: above every unit, whatever its length. */
const NO_UNIT = -1;

/**
 * The UTF-16 unit that stands at `at` in a string's text, and above its 16 bits how many characters spell it: 1, 2 or 6.
 * `NO_UNIT` for a backslash that begins no escape.
 */
function unitAt(units: Units, at: number): number {
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

/** Whether two strings read the same; the places are those behind the first and of the last quote. */
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

/** A prime so small that a product of two smaller numbers and one unit more are exact in a double. */
const PRIME = 67_108_859;
/** Secret, so that no one can choose names that share a hash: of any two a part of length / PRIME of all bases does. */
const BASE = 65_537 + Math.floor(Math.random() * (PRIME - 65_538));

/** A polynomial in BASE modulo PRIME of an object's number and the units of a name. */
function hashOf(object: number, units: Units, from: number, to: number): number {
  let hash = object % PRIME;
  for (let at = from; at < to;) {
    const unit = unitAt(units, at);
    at += unit >> 16;
    const product = hash * BASE + (unit & 0xffff) + 1;
    hash = product - Math.floor(product / PRIME) * PRIME;
  }
  return hash;
}

/**
 * Of a hash, what its slot is taken from. Names that differ in their last character alone have hashes side by side, and
 * without this the members of a few objects would stand in one row that each new one passes (MurmurHash3, fmix32).
 */
function spread(hash: number): number {
  const first = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  const second = Math.imul(first ^ (first >>> 13), 0xc2b2ae35);
  return second ^ (second >>> 16);
}

/** A place in a text of several lines, for messages; both numbers count from 1. */
export function placeIn(text: string, offset: number): string {
  const lines = text.slice(0, offset).split('\n');
  return `line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}`;
}

/** Of a container: where it ends, the number of the next one behind it, how many members it has. */
const CONTAINER_WORDS = 3;
/** Of a member: its object's number, its name's place, its value's place, the number a container there has, hash. */
const MEMBER_WORDS = 6;

/**
 * What one pass over a text finds: where containers end, and where each member of an object has its value. Numbers in
 * typed arrays, no more of them than the text has characters; the time is linear in the text whatever it holds.
 * Containers are numbered from 0 in the order in which they open.
 */
export class JsonOutline {
  /** Where the text is found to be no JSON value; undefined when it is one. The rest then means nothing. */
  readonly faultAt: number | undefined;
  /** Where the first name stands that its object has already; undefined when no object repeats a name. */
  repeatedAt: number | undefined;
  #containers = new Int32Array(64 * CONTAINER_WORDS);
  #opened = 0;
  #members = new Int32Array(64 * MEMBER_WORDS);
  #count = 0;
  /** Open addressing: a member's number and 1, at its hash or behind it. At least half of it is 0. */
  #slots = new Int32Array(128);

  readonly units: Units;

  constructor(readonly text: string) {
    this.units = unitsOf(text);
    const end = this.#pass();
    this.faultAt = end < 0 ? -1 - end : undefined;
  }

  /** The place behind a container. */
  endOf(container: number): number {
    return this.#containers[container * CONTAINER_WORDS] ?? 0;
  }

  /** The number of the first container that opens behind a container. */
  nextOf(container: number): number {
    return this.#containers[container * CONTAINER_WORDS + 1] ?? 0;
  }

  membersOf(object: number): number {
    return this.#containers[object * CONTAINER_WORDS + 2] ?? 0;
  }

  /** @returns the number of the member whose name is spelt from `from` to `to`, without quotes; or -1. */
  find(object: number, name: Units, from: number, to: number): number {
    const slot = this.#slotOf(hashOf(object, name, from, to), object, name, from, to);
    return (this.#slots[slot] ?? 0) - 1;
  }

  /** Where a member's value begins. */
  valueOf(member: number): number {
    return this.#members[member * MEMBER_WORDS + 3] ?? 0;
  }

  /** The number of the container that a member's value is, when it is one. */
  containerOf(member: number): number {
    return this.#members[member * MEMBER_WORDS + 4] ?? 0;
  }

  /** The place behind the text's value, or, below 0, -1 less the place of the fault. */
  #pass(): number {
    const { units } = this;
    const open: number[] = [];
    let at = pastSpace(units, 0);
    for (;;) {
      const code = units[at] ?? 0;
      if (code === OPEN_BRACE || code === OPEN_BRACKET) {
        const inside = pastSpace(units, at + 1);
        open.push(this.#open());
        if ((units[inside] ?? 0) === code + 2) at = this.#close(open.pop() ?? 0, inside);
        else {
          at = code === OPEN_BRACE ? this.#member(open.at(-1) ?? 0, inside) : inside;
          if (at < 0) return at;
          continue;
        }
      } else {
        at = pastScalar(units, at);
        if (at < 0) return at;
      }
      at = this.#pastValue(open, at);
      if (at < 0) return at;
      if (open.length === 0) return at === this.text.length ? at : -1 - at;
    }
  }

  /** Closes what ends behind a value. @returns the place of the next value; of what follows when nothing is open. */
  #pastValue(open: number[], end: number): number {
    const { units } = this;
    let at = pastSpace(units, end);
    for (;;) {
      const container = open.at(-1);
      if (container === undefined) return at;
      const code = units[at] ?? 0;
      // An empty object never gets here: it is closed where it opens.
      const isObject = this.membersOf(container) > 0;
      if (code === COMMA) {
        const next = pastSpace(units, at + 1);
        return isObject ? this.#member(container, next) : next;
      }
      if (code !== (isObject ? CLOSE_BRACE : CLOSE_BRACKET)) return -1 - at;
      open.pop();
      at = pastSpace(units, this.#close(container, at));
    }
  }

  #open(): number {
    const number = this.#opened++;
    this.#containers = withRoom(this.#containers, this.#opened * CONTAINER_WORDS);
    return number;
  }

  #close(container: number, at: number): number {
    const word = container * CONTAINER_WORDS;
    this.#containers[word] = at + 1;
    this.#containers[word + 1] = this.#opened;
    return at + 1;
  }

  /** Takes in a member's name. @returns where its value begins. */
  #member(object: number, at: number): number {
    const { units } = this;
    if ((units[at] ?? 0) !== QUOTE) return -1 - at;
    const end = pastString(units, at);
    if (end < 0) return end;
    const colon = pastSpace(units, end);
    if ((units[colon] ?? 0) !== COLON) return -1 - colon;
    const value = pastSpace(units, colon + 1);
    this.#add(object, at + 1, end - 1, value);
    return value;
  }

  #add(object: number, from: number, to: number, value: number): void {
    const member = this.#count++;
    const word = member * MEMBER_WORDS;
    this.#members = withRoom(this.#members, word + MEMBER_WORDS);
    this.#containers[object * CONTAINER_WORDS + 2] = this.membersOf(object) + 1;
    const hash = hashOf(object, this.units, from, to);
    this.#members[word] = object;
    this.#members[word + 1] = from;
    this.#members[word + 2] = to;
    this.#members[word + 3] = value;
    this.#members[word + 4] = this.#opened;
    this.#members[word + 5] = hash;
    if (2 * this.#count > this.#slots.length) this.#rehash();
    const slot = this.#slotOf(hash, object, this.units, from, to);
    if ((this.#slots[slot] ?? 0) > 0) this.repeatedAt ??= from - 1;
    this.#slots[slot] = member + 1;
  }

  /** The slot of the member with this name, or the free one where it would stand. */
  #slotOf(hash: number, object: number, name: Units, from: number, to: number): number {
    const mask = this.#slots.length - 1;
    for (let slot = spread(hash) & mask; ; slot = (slot + 1) & mask) {
      const word = ((this.#slots[slot] ?? 0) - 1) * MEMBER_WORDS;
      if (word < 0) return slot;
      if (this.#members[word + 5] !== hash || this.#members[word] !== object) continue;
      const [nameFrom, nameTo] = [this.#members[word + 1] ?? 0, this.#members[word + 2] ?? 0];
      if (sameString(this.units, nameFrom, nameTo, name, from, to)) return slot;
    }
  }

  #rehash(): void {
    this.#slots = new Int32Array(4 * this.#slots.length);
    const mask = this.#slots.length - 1;
    for (let member = 0; member < this.#count - 1; member++) {
      let slot = spread(this.#members[member * MEMBER_WORDS + 5] ?? 0) & mask;
      while ((this.#slots[slot] ?? 0) > 0) slot = (slot + 1) & mask;
      this.#slots[slot] = member + 1;
    }
  }
}

function withRoom(words: Int32Array<ArrayBuffer>, length: number): Int32Array<ArrayBuffer> {
  if (length <= words.length) return words;
  const larger = new Int32Array(2 * words.length);
  larger.set(words);
  return larger;
}

/** The place behind the string that begins at `at`, or -1 less the place of the fault. */
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

/** The place behind the string, number or literal that begins at `at`; below 0, -1 less the place of the fault. */
export function pastScalar(units: Units, at: number): number {
  const code = units[at] ?? 0;
  return code === QUOTE ? pastString(units, at) : pastWord(units, at, code);
}

/** The same of a number or literal. */
function pastWord(units: Units, at: number, code: number): number {
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
  // A zero stands alone in front of the point (RFC 8259 section 6).
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
