/** Texts by their bytes, each with the place at which it came in: the dictionary of a column chunk. */
import { randomBytes } from 'node:crypto';
import { GrowingBytes } from './growing-bytes.js';

const FIRST_SLOTS = 1 << 10;
/**
 * So many places are looked at for a text. What is made to collide could else cost a search of all: it comes in once
 * more each time, which the format does not mind.
 */
const MOST_PROBES = 64;
const LENGTH_BYTES = 4;
const SEED = randomBytes(4).readInt32LE();

export class TextDictionary {
  /** The texts in the order of their places, each behind its length in four bytes: as a page has them. */
  readonly #texts = new GrowingBytes();
  /** Where each begins there, and its hash. */
  readonly #starts: number[] = [];
  readonly #hashes: number[] = [];
  /** Places plus one. */
  #slots = new Int32Array(FIRST_SLOTS);
  #crowded = false;

  get size(): number {
    return this.#starts.length;
  }

  /** Whether a text has come in that may be there already. */
  get isCrowded(): boolean {
    return this.#crowded;
  }

  /** A view, valid until another text comes in. */
  bytes(): Buffer {
    return this.#texts.bytes();
  }

  clear(): void {
    this.#texts.clear();
    this.#starts.length = 0;
    this.#hashes.length = 0;
    this.#slots.fill(0);
    this.#crowded = false;
  }

  /** @returns the place of a text, which it may get by this. */
  placeOf(bytes: Buffer, from: number, to: number): number {
    const hash = hashOf(bytes, from, to);
    const mask = this.#slots.length - 1;
    let slot = hash & mask;
    let probes = 0;
    for (; probes < MOST_PROBES && this.#slots[slot] !== 0; probes++) {
      const place = (this.#slots[slot] ?? 0) - 1;
      if (this.#hashes[place] === hash && this.is(place, bytes, from, to)) return place;
      slot = (slot + 1) & mask;
    }
    if (probes < MOST_PROBES) this.#slots[slot] = this.size + 1;
    else this.#crowded = true;
    this.#starts.push(this.#texts.length);
    this.#hashes.push(hash);
    this.#texts.slice(bytes, from, to);
    if (2 * this.size > this.#slots.length) this.#grow();
    return this.size - 1;
  }

  /** Whether it is the text at that place. */
  is(place: number, bytes: Buffer, from: number, to: number): boolean {
    const texts = this.#texts.buffer;
    const start = (this.#starts[place] ?? 0) + LENGTH_BYTES;
    const end = this.#starts[place + 1] ?? this.#texts.length;
    if (end - start !== to - from) return false;
    for (let at = from, own = start; at < to; at++, own++) if (bytes[at] !== texts[own]) return false;
    return true;
  }

  #grow(): void {
    const slots = new Int32Array(2 * this.#slots.length);
    const mask = slots.length - 1;
    for (let place = 0; place < this.size; place++) {
      let slot = (this.#hashes[place] ?? 0) & mask;
      let probes = 0;
      for (; probes < MOST_PROBES && slots[slot] !== 0; probes++) slot = (slot + 1) & mask;
      if (probes < MOST_PROBES) slots[slot] = place + 1;
    }
    this.#slots = slots;
  }
}

/** FNV-1a of four bytes at once, begun with a number of the process. */
function hashOf(bytes: Buffer, from: number, to: number): number {
  let hash = SEED;
  let at = from;
  for (; at + 4 <= to; at += 4) {
    const word =
      (bytes[at] ?? 0) |
      ((bytes[at + 1] ?? 0) << 8) |
      ((bytes[at + 2] ?? 0) << 16) |
      ((bytes[at + 3] ?? 0) << 24);
    hash = mixed(hash ^ word);
  }
  for (; at < to; at++) hash = mixed(hash ^ (bytes[at] ?? 0));
  return hash;
}

function mixed(hash: number): number {
  const product = Math.imul(hash, 0x0100_0193);
  return product ^ (product >>> 15);
}
