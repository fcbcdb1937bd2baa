/**
 * The entries of one temporary file, put together by run: chains in typed arrays, because a map of arrays takes five
 * times as long, and most of it to collect them as garbage.
 */
import { ENTRY_BYTES, entryAddress, entryFlags, idHash, isSameRecord } from './run-entry.js';

const NONE = -1;

export class RunTable {
  /** How many runs there are. They have numbers from 0 on, in the order of their first events in the log. */
  readonly runs: number;
  readonly #entries: Buffer;
  /** Of each run, where its first and its last entry are. */
  readonly #first: Int32Array;
  readonly #last: Int32Array;
  /** What flags its entries have, together. */
  readonly #flags: Uint8Array;
  /** By the number of an entry, where the next of the same run is. */
  readonly #next: Int32Array;
  /** The numbers of runs, by the hashes of their ids. */
  readonly #slots: Int32Array;

  constructor(entries: Buffer) {
    const count = entries.length / ENTRY_BYTES;
    this.#entries = entries;
    this.#first = new Int32Array(count);
    this.#last = new Int32Array(count);
    this.#flags = new Uint8Array(count);
    this.#next = new Int32Array(count).fill(NONE);
    this.#slots = slotsFor(count);
    this.runs = this.#chain();
  }

  /** Where the first entry of a run is. */
  first(run: number): number {
    return this.#first[run] ?? NONE;
  }

  /** Where the entry is that comes behind this one in its run, by address; below 0 when it is the last. */
  after(at: number): number {
    return this.#next[at / ENTRY_BYTES] ?? NONE;
  }

  flags(run: number): number {
    return this.#flags[run] ?? 0;
  }

  /** @returns the number of the run that an entry of another list is of, or -1. */
  find(source: Buffer, at: number): number {
    return this.#slots[this.#slotOf(source, at)] ?? NONE;
  }

  /** @returns how many runs there are. */
  #chain(): number {
    const entries = this.#entries;
    let runs = 0;
    for (const at of inOrder(entries)) {
      const slot = this.#slotOf(entries, at);
      let run = this.#slots[slot] ?? NONE;
      if (run === NONE) {
        run = runs++;
        this.#slots[slot] = run;
        this.#first[run] = at;
      } else this.#next[(this.#last[run] ?? 0) / ENTRY_BYTES] = at;
      this.#last[run] = at;
      this.#flags[run] = this.flags(run) | entryFlags(entries, at);
    }
    return runs;
  }

  /** Where the run of an entry is among the slots, or would be. */
  #slotOf(source: Buffer, at: number): number {
    const mask = this.#slots.length - 1;
    let slot = idHash(source, at) & mask;
    for (;;) {
      const run = this.#slots[slot] ?? NONE;
      if (run === NONE || isSameRecord(this.#entries, this.first(run), source, at)) return slot;
      slot = (slot + 1) & mask;
    }
  }
}

/** At most half of the slots are taken. */
function slotsFor(count: number): Int32Array {
  let size = 16;
  while (size < 2 * count) size *= 2;
  return new Int32Array(size).fill(NONE);
}

/** Where the entries are, by address. Only what named no run was noted after the pass, behind all others. */
function inOrder(entries: Buffer): Int32Array {
  const order = new Int32Array(entries.length / ENTRY_BYTES);
  for (let i = 0; i < order.length; i++) order[i] = i * ENTRY_BYTES;
  let sorted = 1;
  const addressAt = (i: number) => entryAddress(entries, order[i] ?? 0);
  while (sorted < order.length && addressAt(sorted - 1) <= addressAt(sorted)) sorted++;
  if (sorted >= order.length) return order;
  const late = order.slice(sorted).sort((a, b) => entryAddress(entries, a) - entryAddress(entries, b));
  // Merged from the end, where there is room.
  let from = sorted - 1;
  let to = order.length - 1;
  for (let i = late.length - 1; i >= 0; to--) {
    if (from >= 0 && addressAt(from) > entryAddress(entries, late[i] ?? 0)) order[to] = order[from--] ?? 0;
    else order[to] = late[i--] ?? 0;
  }
  return order;
}
