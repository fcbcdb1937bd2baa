/** The outline of a JSON text: its members by name and offset, without its values. */
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  OPEN_BRACE,
  OPEN_BRACKET,
  pastScalar,
  pastSpace,
  QUOTE,
  sameString,
  unitAt,
  type Units,
  unitsOf,
} from './json-text.js';

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

/** Of a container: the offset after it, the number of the next container after it, its number of members. */
const CONTAINER_WORDS = 3;
/** Of a member: object, start and end of its name, start of its value, number of a container there, hash. */
const MEMBER_WORDS = 6;

/**
 * Validates a text in one pass and records where containers end and where each member has its value: numbers
 * in typed arrays, no more of them than the text has characters, in time linear in the text. Containers are
 * numbered from 0 in the order in which they open.
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

  /** The number of the container that a member's value is, when it is one. */
  containerOf(member: number): number {
    return this.#members[member * MEMBER_WORDS + 4] ?? 0;
  }

  /** Returns the offset after the text's value, or -1 less the offset of its fault. */
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
   * Closes the containers that end after a value. @returns the offset of the next value, or of what follows
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

  /** Adds a member. @returns the offset of its value, or -1 less the offset of a fault. */
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
