/** JSON texts (RFC 8259): a tokenizer that trusts its input, and an outline that validates it. */

export const QUOTE = 34;
export const COMMA = 44;
const COLON = 58;
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
    // In an even number of backslashes, each pair is one escape, so the quote ends the string.
    if (backslashes % 2 === 0) return end;
  }
}

/** The number of marks outside strings. Meaningless for a text that is not JSON. */
export interface TokenCounts {
  /** Colons: one for each member of an object. */
  readonly members: number;
  /** A number that is not less than the number of values. */
  readonly values: number;
}

/** Receives each brace, bracket, colon and comma outside strings. */
export type MarkListener = (code: number, at: number) => void;

/**
 * Passes over a text once, from string to string, and counts its marks. Validates nothing: JSON.parse does.
 * @returns undefined when arrays and objects are nested more than `maxDepth` deep, counting the outermost
 *   one.
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
 * Parses as JSON.parse does, and keeps the names of members. V8 of Node 24 to 26 mistakes a name with an
 * escape for an earlier one with a backslash: after {"x":0,"\\":1}, it gives the second member of
 * {"x":0,"\n":1} the earlier name.
 * @throws SyntaxError, as JSON.parse does.
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

/** An array is [1, items], an object [0, name, value, name, value, ...] in a separate list. */
type Lists = readonly [0 | 1, readonly unknown[]];

const AS_LISTS = new Map([
  [OPEN_BRACE, '[0,['],
  [COLON, ','],
  [CLOSE_BRACE, ']]'],
  [OPEN_BRACKET, '[1,['],
  [CLOSE_BRACKET, ']]'],
]);

/**
 * Rewrites a JSON text as lists. JSON.parse reads all of their strings correctly, because none is a name.
 */
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

/** Maximum number of units that are read past an offset without checking for the end. */
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

/** The result for a backslash that begins no escape. */
const NO_UNIT = -1;

/**
 * The UTF-16 unit that a string has at `at`, and above its 16 bits the number of characters that spell it: 1,
 * 2 or 6. `NO_UNIT` for a backslash that begins no escape.
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

/**
 * Whether two strings have the same units, each given from the offset after its first quote to the offset of
 * its last one.
 */
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

/** The offset after the string that begins at `at`, or -1 minus the offset of its fault. */
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

/**
 * The offset after the string, number or literal that begins at `at`, or -1 minus the offset of its fault.
 */
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

/** So small that the product of two smaller numbers, plus one unit, is exact in a double. */
const PRIME = 67_108_859;
/**
 * Secret, so that a sender cannot choose names whose hashes are equal: a given pair collides for length /
 * PRIME bases.
 */
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
 * The bits of a hash that choose its slot (MurmurHash3, fmix32). Names that differ in their last character
 * have adjacent hashes; without this, the members of a few objects would fill one long row of slots.
 */
function spread(hash: number): number {
  const first = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  const second = Math.imul(first ^ (first >>> 13), 0xc2b2ae35);
  return second ^ (second >>> 16);
}

/**
 * The words of a container: the offset after it, the number of the next container after it, its number of
 * members.
 */
const CONTAINER_WORDS = 3;
/**
 * The words of a member: object, start and end of its name, start of its value, number of a container there,
 * hash.
 */
const MEMBER_WORDS = 6;

/**
 * Validates a text in one pass and records where containers end and where each member has its value: typed
 * arrays with at most one number per character, made in linear time. Containers are numbered from 0 in the
 * order in which they open.
 */
export class JsonOutline {
  /**
   * The offset where the text stops being JSON; undefined when it is JSON. The rest is meaningless after a
   * fault.
   */
  readonly faultAt: number | undefined;
  /** The offset of the first name that its object already has; undefined when no object repeats a name. */
  repeatedAt: number | undefined;
  #containers = new Int32Array(64 * CONTAINER_WORDS);
  #opened = 0;
  #members = new Int32Array(64 * MEMBER_WORDS);
  #count = 0;
  /**
   * Open addressing: the number of a member plus 1, at its hash or after it. At least half of the slots are
   * 0.
   */
  #slots = new Int32Array(128);

  readonly units: Units;

  constructor(readonly text: string) {
    this.units = unitsOf(text);
    const end = this.#pass();
    this.faultAt = end < 0 ? -1 - end : undefined;
  }

  /** The offset after a container. */
  endOf(container: number): number {
    return this.#containers[container * CONTAINER_WORDS] ?? 0;
  }

  /** The number of the first container that opens after this one has ended. */
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

  /** The number of the container that is a member's value; meaningless for other values. */
  containerOf(member: number): number {
    return this.#members[member * MEMBER_WORDS + 4] ?? 0;
  }

  /** Returns the offset after the text's value, or -1 minus the offset of its fault. */
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

  /**
   * Closes the containers that end after a value. @returns the offset of the next value, or the offset after
   * the text.
   */
  #pastValue(open: number[], end: number): number {
    const { units } = this;
    let at = pastSpace(units, end);
    for (;;) {
      const container = open.at(-1);
      if (container === undefined) return at;
      const code = units[at] ?? 0;
      // An empty object is closed where it opens.
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

  /** Adds a member. @returns the offset of its value, or -1 minus the offset of a fault. */
  #member(object: number, at: number): number {
    const { units } = this;
    if ((units[at] ?? 0) !== QUOTE) return -1 - at;
    const end = pastScalar(units, at);
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

  /** The slot of the member with this name, or the free slot for it. */
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
