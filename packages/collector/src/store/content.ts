/**
 * Comparison of two bodies, which decides between a duplicate (201) and a conflict (409).
 *
 * One body is outlined in one pass, the other is walked once, and each member is looked up by name. The time
 * is linear in both bodies, regardless of the order of their members, and no value is built.
 */
import { type Envelope, SALT_BYTES } from '@clinical-events/protocol';
import type { Candidate } from './contract/events.js';
import {
  JsonOutline,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COMMA,
  OPEN_BRACE,
  OPEN_BRACKET,
  POINT,
  pastSpace,
  QUOTE,
  sameString,
  stringEnd,
  type Units,
  unitsOf,
} from '../json-text.js';

/**
 * The outcome of an event whose id its organisation has already stored (contract/events.ts).
 * @param bodyOf called if the stored body decides; returns undefined if it cannot be read.
 */
export function repeatOutcome(
  stored: Pick<Envelope, 'kind' | 'door'>,
  candidate: Candidate,
  bodyOf: () => Buffer | undefined,
): 'duplicate' | 'conflict' | 'unreadable' {
  if (stored.kind !== candidate.kind) return 'conflict';
  // Both come from the same span, which different versions of the collector may convert differently.
  if (stored.door === 'otlp' && candidate.door === 'otlp') return 'duplicate';
  const body = bodyOf();
  if (body === undefined) return 'unreadable';
  const repeated = candidate.salted.subarray(SALT_BYTES);
  return body.equals(repeated) || sameContent(body, repeated) ? 'duplicate' : 'conflict';
}

/** The top-level members of an event that compare as UUIDs, in either case (RFC 9562 section 4). */
const IDS = ['event_id', 'run_id', 'parent_event_id'];

/** Whether two valid JSON texts in UTF-8, without repeated member names, have equal content. */
export function sameContent(a: Uint8Array, b: Uint8Array): boolean {
  const outline = new JsonOutline(textOf(b));
  return outline.faultAt === undefined && new Comparison(textOf(a), outline).same();
}

function textOf(body: Uint8Array): string {
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
}

/** Walks one text beside the outline of another. */
class Comparison {
  /** Position in the walked text. */
  #at = 0;
  /** Position in the outlined text, and the number of the next container there. */
  #other = 0;
  #container = 0;
  readonly #units: Units;
  readonly #others: Units;
  /** The id members of the outlined text; -1 for a missing one. */
  readonly #ids: readonly number[];

  constructor(
    private readonly text: string,
    private readonly outline: JsonOutline,
  ) {
    this.#units = unitsOf(text);
    this.#others = outline.units;
    this.#ids = IDS.map((name) => outline.find(0, unitsOf(name), 0, name.length));
  }

  /** Compares the values at both positions, and passes them if they are equal. */
  same(): boolean {
    const kind = this.#peek();
    const other = this.#peekOther();
    if (kind === OPEN_BRACE) return other === kind && this.#sameObject();
    if (kind === OPEN_BRACKET) return other === kind && this.#sameArray();
    if (other === OPEN_BRACE || other === OPEN_BRACKET) return false;
    if (kind === QUOTE || other === QUOTE) return kind === other && this.#sameText();
    return this.#sameScalar();
  }

  #sameObject(): boolean {
    const { outline } = this;
    const object = this.#container;
    let members = 0;
    this.#at++;
    while (this.#peek() !== CLOSE_BRACE) {
      const from = this.#at;
      this.#at = stringEnd(this.text, from) + 1;
      const member = outline.find(object, this.#units, from + 1, this.#at - 1);
      if (member < 0) return false;
      this.#peek();
      this.#at++;
      this.#other = outline.valueOf(member);
      this.#container = outline.containerOf(member);
      if (object === 0 && this.#ids.includes(member) ? !this.#sameId() : !this.same()) return false;
      members++;
      if (this.#peek() === COMMA) this.#at++;
    }
    this.#at++;
    this.#other = outline.endOf(object);
    this.#container = outline.nextOf(object);
    return members === outline.membersOf(object);
  }

  #sameArray(): boolean {
    this.#at++;
    this.#other++;
    this.#container++;
    while (this.#peek() !== CLOSE_BRACKET) {
      if (this.#peekOther() === CLOSE_BRACKET || !this.same()) return false;
      if (this.#peek() === COMMA) this.#at++;
      if (this.#peekOther() === COMMA) this.#other++;
    }
    if (this.#peekOther() !== CLOSE_BRACKET) return false;
    this.#at++;
    this.#other++;
    return true;
  }

  /** Compares two UUIDs, however they are escaped; other values as usual. */
  #sameId(): boolean {
    if (this.#peek() !== QUOTE || this.#peekOther() !== QUOTE) return this.same();
    const [from, fromOther] = [this.#at, this.#other];
    this.#at = stringEnd(this.text, from) + 1;
    this.#other = stringEnd(this.outline.text, fromOther) + 1;
    const [left, right] = [this.text.slice(from, this.#at), this.outline.text.slice(fromOther, this.#other)];
    return uuidIn(left) === uuidIn(right);
  }

  #sameText(): boolean {
    const { text } = this.outline;
    const [from, fromOther] = [this.#at + 1, this.#other + 1];
    const [to, toOther] = [stringEnd(this.text, this.#at), stringEnd(text, this.#other)];
    this.#at = to + 1;
    this.#other = toOther + 1;
    const [left, right] = [this.text.slice(from, to), text.slice(fromOther, toOther)];
    if (left === right) return true;
    if (!left.includes('\\') && !right.includes('\\')) return false;
    return sameString(this.#units, from, to, this.#others, fromOther, toOther);
  }

  #sameScalar(): boolean {
    const [from, fromOther] = [this.#at, this.#other];
    let code = this.#units[this.#at] ?? 0;
    while (code === (this.#others[this.#other] ?? 0) && !endsScalar(code)) {
      this.#other++;
      code = this.#units[++this.#at] ?? 0;
    }
    if (endsScalar(code) && endsScalar(this.#others[this.#other] ?? 0)) return true;
    while (!endsScalar(this.#units[this.#at] ?? 0)) this.#at++;
    while (!endsScalar(this.#others[this.#other] ?? 0)) this.#other++;
    return sameNumber(this.text.slice(from, this.#at), this.outline.text.slice(fromOther, this.#other));
  }

  /** The first character of the next token, without passing it. */
  #peek(): number {
    this.#at = pastSpace(this.#units, this.#at);
    return this.#units[this.#at] ?? 0;
  }

  #peekOther(): number {
    this.#other = pastSpace(this.#others, this.#other);
    return this.#others[this.#other] ?? 0;
  }
}

/** @param text a string as JSON writes it. */
function uuidIn(text: string): string {
  return (JSON.parse(text) as string).toLowerCase();
}

/** Whether a code ends a scalar; the end of the text (NaN) does. */
function endsScalar(code: number): boolean {
  return !(code > 32) || code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET;
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** A number other than 0 (RFC 8259 section 6): digits without outer zeros, times a power of ten. */
interface Decimal {
  readonly text: string;
  readonly negative: boolean;
  /** Positions of the first and the last non-zero digit. */
  readonly first: number;
  readonly last: number;
  /** Power of ten of the last digit, without the written exponent. */
  readonly power: number;
  readonly exponent: string;
}

/**
 * Whether two scalars are numbers of exactly the same value, such as 1, 1.0 and 10e-1. As doubles,
 * 12345678901234567890 and 12345678901234567891 would be equal, and 1e400 and 1e500 too.
 */
function sameNumber(a: string, b: string): boolean {
  if (!isNumber(a) || !isNumber(b)) return false;
  const [left, right] = [decimal(a), decimal(b)];
  if (left === undefined || right === undefined) return left === right;
  return left.negative === right.negative && sameDigits(left, right) && samePower(left, right);
}

function isNumber(text: string): boolean {
  return text.startsWith('-') || isDigit(text.charCodeAt(0));
}

/** @returns undefined for 0 in any spelling. */
function decimal(text: string): Decimal | undefined {
  const negative = text.startsWith('-');
  let first = negative ? 1 : 0;
  let point = -1;
  for (; text.charCodeAt(first) === 48 || text.charCodeAt(first) === POINT; first++) {
    if (text.charCodeAt(first) === POINT) point = first;
  }
  if (!isDigit(text.charCodeAt(first))) return undefined;
  let end = first;
  let last = first;
  for (; isDigit(text.charCodeAt(end)) || text.charCodeAt(end) === POINT; end++) {
    if (text.charCodeAt(end) === POINT) point = end;
    else if (text.charCodeAt(end) !== 48) last = end;
  }
  if (point < 0) point = end;
  const power = last < point ? point - 1 - last : point - last;
  return { text, negative, first, last, power, exponent: text.slice(end + 1) };
}

function sameDigits(a: Decimal, b: Decimal): boolean {
  let [i, j] = [a.first, b.first];
  while (i <= a.last && j <= b.last) {
    if (a.text.charCodeAt(i) === POINT) i++;
    if (b.text.charCodeAt(j) === POINT) j++;
    if (a.text.charCodeAt(i++) !== b.text.charCodeAt(j++)) return false;
  }
  return i > a.last && j > b.last;
}

/** Maximum digits of an exponent that a double adds exactly. */
const EXACT_DIGITS = 15;
/** Longer exponents are compared as text: parsing a million digits takes a tenth of a second. */
const MAX_EXPONENT_DIGITS = 100;

function samePower(a: Decimal, b: Decimal): boolean {
  const longest = Math.max(a.exponent.length, b.exponent.length);
  if (longest <= EXACT_DIGITS) return Number(a.exponent) + a.power === Number(b.exponent) + b.power;
  if (longest > MAX_EXPONENT_DIGITS) return a.text.toLowerCase() === b.text.toLowerCase();
  return BigInt(a.exponent) + BigInt(a.power) === BigInt(b.exponent) + BigInt(b.power);
}
