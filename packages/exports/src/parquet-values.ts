/** The columns of texts, numbers and flags. */
import type { Text } from '@clinical-events/collector/records/run-event';
import { type Bounds, Column, type ColumnPlace, hybrid, type PageValues } from './parquet-column.js';
import { GrowingBytes, TextDictionary } from './parquet-table.js';

/** Number of texts after which the use of the dictionary is judged, and the maximum number of texts in it. */
const TRIED_TEXTS = 256;
const MOST_TEXTS = 1 << 14;

/**
 * Texts, in a dictionary while most of them repeat; otherwise the whole chunk is plain. Encodings.md allows
 * both in one chunk, but fastparquet then reads the plain ones as nulls.
 */
export class TextColumn extends Column {
  readonly #dictionary = new TextDictionary();
  readonly #plain = new GrowingBytes();
  readonly #encoded = new GrowingBytes();
  #places: number[] = [];
  #put = 0;
  #lastPlace = 0;
  /** Whether the unfinished page has dictionary indices; whether the dictionary may grow. */
  #byPlace = true;
  #open = true;

  put(text: Text): void {
    if (this.slots.begins) this.#between();
    this.define();
    if (this.#byPlace) this.#putPlace(text);
    else if (typeof text === 'string') this.#plain.text(text);
    else this.#plain.slice(text.bytes, text.from, text.to);
  }

  protected values(): PageValues {
    if (!this.#byPlace || this.#dictionary.size === 0)
      return { encoding: 'PLAIN', bytes: this.#plain.bytes() };
    const bitWidth = Math.ceil(Math.log2(this.#dictionary.size));
    const places = hybrid(this.#places, bitWidth);
    const bytes = Buffer.allocUnsafe(1 + places.length);
    bytes[0] = bitWidth;
    bytes.set(places, 1);
    return { encoding: 'RLE_DICTIONARY', bytes };
  }

  protected clearPage(): void {
    this.#plain.clear();
    this.#places = [];
  }

  protected clearChunk(): void {
    this.#dictionary.clear();
    this.#put = 0;
    this.#lastPlace = 0;
    this.#byPlace = this.#open = true;
  }

  protected dictionary(): { texts: number; bytes: Uint8Array } | undefined {
    const texts = this.#dictionary.size;
    return texts === 0 ? undefined : { texts, bytes: this.#dictionary.bytes() };
  }

  protected bounds(): Bounds {
    return {};
  }

  /** Called between two rows, where a page may end. */
  #between(): void {
    if (this.#byPlace && !this.#open) this.#leaveDictionary();
    if (!this.#byPlace && this.isFull(this.#plain.length)) this.endPage();
  }

  /** Writes the texts of the unfinished page as plain; there is no earlier page. */
  #leaveDictionary(): void {
    for (const place of this.#places) this.#dictionary.copy(place, this.#plain);
    this.#places = [];
    this.#dictionary.clear();
    this.#byPlace = false;
  }

  #putPlace(text: Text): void {
    if (typeof text === 'string') {
      this.#encoded.clear();
      this.#encoded.utf8(text);
      this.#putBytes(this.#encoded.buffer, 0, this.#encoded.length);
    } else this.#putBytes(text.bytes, text.from, text.to);
  }

  #putBytes(bytes: Buffer, from: number, to: number): void {
    const dictionary = this.#dictionary;
    const known = dictionary.size;
    this.#put++;
    // Comparing with the previous text takes half the time of a search.
    let place = this.#lastPlace;
    if (known === 0 || !dictionary.is(place, bytes, from, to)) place = dictionary.placeOf(bytes, from, to);
    if (
      place === known &&
      (place >= MOST_TEXTS || dictionary.isCrowded || (place >= TRIED_TEXTS && 2 * place > this.#put))
    )
      this.#open = false;
    this.#lastPlace = place;
    this.#places.push(place);
  }
}

export class NumberColumn extends Column {
  readonly #type: ColumnPlace['type'];
  readonly #plain = new GrowingBytes();
  #least = Infinity;
  #most = -Infinity;

  constructor(place: ColumnPlace) {
    super(place);
    this.#type = place.type;
  }

  put(value: number): void {
    if (this.isFull(this.#plain.length)) this.endPage();
    this.define();
    if (this.#type === 'time') this.#plain.int64(value);
    else if (this.#type === 'count') this.#plain.int32(value);
    else this.#plain.double(value);
    if (value < this.#least) this.#least = value;
    if (value > this.#most) this.#most = value;
  }

  protected values(): PageValues {
    return { encoding: 'PLAIN', bytes: this.#plain.bytes() };
  }

  protected clearPage(): void {
    this.#plain.clear();
  }

  protected clearChunk(): void {
    this.#least = Infinity;
    this.#most = -Infinity;
  }

  protected dictionary(): undefined {
    return undefined;
  }

  protected bounds(): Bounds {
    const [least, most] = [this.#least, this.#most];
    if (least > most) return {};
    if (this.#type === 'time') return { min_value: BigInt(least), max_value: BigInt(most) };
    // A zero may be +0 or -0 (parquet.thrift, ColumnOrder).
    return { min_value: least === 0 ? -0 : least, max_value: most === 0 ? 0 : most };
  }
}

const BITS = 8;

export class FlagColumn extends Column {
  /** A byte for each flag. */
  readonly #flags = new GrowingBytes();

  put(value: boolean): void {
    if (this.isFull(this.#flags.length)) this.endPage();
    this.define();
    this.#flags.byte(value ? 1 : 0);
  }

  /** A bit for each flag, from the lowest (Encodings.md, "Plain"). */
  protected values(): PageValues {
    const bytes = new Uint8Array(Math.ceil(this.#flags.length / BITS));
    for (const [i, flag] of this.#flags.bytes().entries()) {
      const at = Math.floor(i / BITS);
      bytes[at] = (bytes[at] ?? 0) | (flag << (i % BITS));
    }
    return { encoding: 'PLAIN', bytes };
  }

  protected clearPage(): void {
    this.#flags.clear();
  }

  protected clearChunk(): void {
    // A chunk has no state other than its page.
  }

  protected dictionary(): undefined {
    return undefined;
  }

  protected bounds(): Bounds {
    return {};
  }
}
