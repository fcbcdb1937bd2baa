/**
 * Finds the members of a JSON object in its bytes without parsing values: for formats that copy most of an
 * object. It handles plain text only; other text goes to JSON.parse.
 *
 * Plain text is what JSON.stringify writes, except for the spelling of numbers: no white space between
 * tokens, no duplicate name in an object, no name that begins with a digit (JavaScript sorts those first), no
 * unnecessary escape or other spelling of one, and no escape in a name. So the bytes of a value can be copied
 * as its text.
 */

/**
 * Fields of an entry on the tape. The entries of an object's members follow its own entry, two levels deep.
 */
const SIGNATURE = 0;
const NAME_FROM = 1;
const VALUE_FROM = 2;
const VALUE_TO = 3;
/** The entry after its members. */
const NEXT = 4;
const ESCAPED = 5;
const ENTRY = 6;

const NONE = -1;
const NOTED_LEVELS = 2;
const MOST_LEVELS = 64;
/** Limit of names in the enclosing objects, so that comparing all pairs stays cheap. */
const MOST_NAMES = 128;

/** Largest offset that fits on the tape. */
const LAST_PLACE = 0x7fff_ffff;

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/**
 * Characters after a backslash in JSON.stringify's output, except for control characters without a short
 * form.
 */
const ESCAPES = tableOf('"\\bfnrt');
const IN_NUMBERS = tableOf('0123456789+-.eE');

function tableOf(characters: string): Uint8Array {
  const table = new Uint8Array(256);
  for (const byte of Buffer.from(characters)) table[byte] = 1;
  return table;
}

/** The part of a name in which most names differ. */
function signatureOf(bytes: Uint8Array, from: number, to: number): number {
  return ((to - from) << 16) | ((bytes[from] ?? 0) << 8) | (bytes[to - 1] ?? 0);
}

/** A name to search for. */
export class MemberName {
  readonly bytes: Buffer;
  readonly signature: number;

  constructor(readonly text: string) {
    this.bytes = Buffer.from(text);
    this.signature = signatureOf(this.bytes, 0, this.bytes.length);
  }
}

export class JsonScan {
  bytes: Buffer = Buffer.alloc(0);
  #view = new DataView(this.bytes.buffer);
  #to = 0;
  #tape = new Int32Array(ENTRY << 8);
  #used = 0;
  /** 1 if the last string has an escape, otherwise 0. */
  #escaped = 0;
  /** Signature and place of each name in the objects around the current position. */
  readonly #names = new Int32Array(2 * MOST_NAMES);
  #named = 0;

  /** Discards all objects, and continues with other bytes. */
  begin(bytes: Buffer): void {
    this.bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#used = 0;
  }

  /** @returns the object from `from` to `to`, which is JSON; -1 if it is not plain. */
  scan(from: number, to: number): number {
    const object = this.#used;
    this.#to = to;
    this.#named = 0;
    if (this.bytes[from] !== OPEN_BRACE || to > LAST_PLACE) return NONE;
    this.#push(0, from, from);
    if (this.#object(from, 0) !== to) {
      this.#used = object;
      return NONE;
    }
    this.#end(object, to);
    return object;
  }

  /** @returns the first member of an object; -1 if it is empty. */
  first(object: number): number {
    return object + ENTRY < this.#at(object + NEXT) ? object + ENTRY : NONE;
  }

  /** @returns the next member of an object; -1 after the last one. */
  after(member: number, object: number): number {
    const next = this.#at(member + NEXT);
    return next < this.#at(object + NEXT) ? next : NONE;
  }

  /** @returns the member with a name; -1 if there is none. */
  find(object: number, name: MemberName): number {
    const end = this.#at(object + NEXT);
    for (let member = object + ENTRY; member < end; member = this.#at(member + NEXT)) {
      if (this.#at(member + SIGNATURE) === name.signature && this.isNamed(member, name)) return member;
    }
    return NONE;
  }

  isNamed(member: number, { bytes }: MemberName): boolean {
    const from = this.#at(member + NAME_FROM);
    for (let i = 0; i < bytes.length; i++) if (this.bytes[from + i] !== bytes[i]) return false;
    return this.bytes[from + bytes.length] === QUOTE;
  }

  signature(member: number): number {
    return this.#at(member + SIGNATURE);
  }

  /** Offset of the value. */
  from(member: number): number {
    return this.#at(member + VALUE_FROM);
  }

  /** Offset after the value. */
  to(member: number): number {
    return this.#at(member + VALUE_TO);
  }

  /** The complete member with its name. */
  text(member: number): string {
    return this.bytes.toString('utf8', this.#at(member + NAME_FROM) - 1, this.to(member));
  }

  isObject(member: number): boolean {
    return this.bytes[this.from(member)] === OPEN_BRACE;
  }

  isString(member: number): boolean {
    return this.bytes[this.from(member)] === QUOTE;
  }

  /** Whether the value is a string with escapes. */
  isEscaped(member: number): boolean {
    return this.#at(member + ESCAPED) !== 0;
  }

  #at(place: number): number {
    return this.#tape[place] ?? 0;
  }

  #push(signature: number, nameFrom: number, valueFrom: number): number {
    const entry = this.#used;
    this.#used += ENTRY;
    if (this.#used > this.#tape.length) {
      const larger = new Int32Array(2 * this.#tape.length);
      larger.set(this.#tape);
      this.#tape = larger;
    }
    const tape = this.#tape;
    tape[entry + SIGNATURE] = signature;
    tape[entry + NAME_FROM] = nameFrom;
    tape[entry + VALUE_FROM] = valueFrom;
    return entry;
  }

  #end(entry: number, valueTo: number): void {
    const tape = this.#tape;
    tape[entry + VALUE_TO] = valueTo;
    tape[entry + NEXT] = this.#used;
    tape[entry + ESCAPED] = this.#escaped;
  }

  /**
   * @param from offset of the brace. @returns the offset after the closing brace; -1 if it is not plain. The
   *   following methods do the same.
   */
  #object(from: number, level: number): number {
    const { bytes } = this;
    if (bytes[from + 1] === CLOSE_BRACE) return from + 2;
    const own = this.#named;
    for (let at = from + 1; ; at++) {
      if (bytes[at] !== QUOTE) return NONE;
      const nameFrom = at + 1;
      const nameEnd = this.#string(at);
      if (nameEnd < 0 || this.#escaped !== 0 || bytes[nameEnd] !== COLON) return NONE;
      const signature = signatureOf(bytes, nameFrom, nameEnd - 1);
      if (!this.#isNew(signature, nameFrom, nameEnd, own)) return NONE;
      at = nameEnd + 1;
      if (level < NOTED_LEVELS) {
        const entry = this.#push(signature, nameFrom, at);
        at = this.#value(at, level + 1);
        this.#end(entry, at);
      } else at = this.#value(at, level + 1);
      if (at < 0) return NONE;
      if (bytes[at] === COMMA) continue;
      this.#named = own;
      return bytes[at] === CLOSE_BRACE ? at + 1 : NONE;
    }
  }

  #isNew(signature: number, from: number, end: number, own: number): boolean {
    const { bytes } = this;
    const names = this.#names;
    const first = bytes[from] ?? 0;
    if ((first >= 0x30 && first <= 0x39) || this.#named === 2 * MOST_NAMES) return false;
    for (let i = own; i < this.#named; i += 2) {
      if (names[i] !== signature) continue;
      const other = names[i + 1] ?? 0;
      let same = 0;
      while (from + same < end && bytes[from + same] === bytes[other + same]) same++;
      if (from + same === end) return false;
    }
    names[this.#named] = signature;
    names[this.#named + 1] = from;
    this.#named += 2;
    return true;
  }

  #value(from: number, level: number): number {
    const { bytes } = this;
    const first = bytes[from] ?? 0;
    switch (first) {
      case QUOTE:
        return this.#string(from);
      case OPEN_BRACE:
        return level < MOST_LEVELS ? this.#object(from, level) : NONE;
      case OPEN_BRACKET:
        return level < MOST_LEVELS ? this.#array(from, level) : NONE;
      case 0x74: // true
      case 0x6e: // null
        return from + 4;
      case 0x66: // false
        return from + 5;
      default: {
        let at = from;
        while (IN_NUMBERS[bytes[at] ?? 0] === 1) at++;
        return at > from ? at : NONE;
      }
    }
  }

  #array(from: number, level: number): number {
    const { bytes } = this;
    if (bytes[from + 1] === CLOSE_BRACKET) return from + 2;
    for (let at = from + 1; ; at++) {
      // Members of objects in arrays are not recorded.
      at = this.#value(at, Math.max(level + 1, NOTED_LEVELS));
      if (at < 0) return NONE;
      if (bytes[at] === COMMA) continue;
      return bytes[at] === CLOSE_BRACKET ? at + 1 : NONE;
    }
  }

  /** @param from offset of the quotation mark. */
  #string(from: number): number {
    const { bytes } = this;
    const view = this.#view;
    const to = this.#to;
    this.#escaped = 0;
    for (let at = from + 1; at < to; at++) {
      // Four bytes at a time, which saves a fifth of the whole scan.
      while (at + 4 <= to && !hasStop(view.getInt32(at, true))) at += 4;
      const byte = bytes[at];
      if (byte === QUOTE) return at + 1;
      if (byte !== BACKSLASH) continue;
      at++;
      if (ESCAPES[bytes[at] ?? 0] !== 1) return NONE;
      this.#escaped = 1;
    }
    return NONE;
  }
}

/** Whether one of four bytes is a quotation mark or a backslash. */
function hasStop(word: number): boolean {
  return hasZero(word ^ 0x2222_2222) || hasZero(word ^ 0x5c5c_5c5c);
}

/** Whether one of four bytes is 0. A borrow sets a wrong bit only above a byte that is 0. */
function hasZero(word: number): boolean {
  return ((word - 0x0101_0101) & ~word & 0x8080_8080) !== 0;
}
