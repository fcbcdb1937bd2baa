/** The columns of numbers and of texts. */
import { GrowingBytes } from './growing-bytes.js';
import { Column, hybrid, type Bounds, type ColumnPlace, type PageValues } from './parquet-column.js';

/** So many texts are put before it is asked whether a dictionary pays, and so many are in one at most. */
const TRIED_TEXTS = 256;
const MOST_TEXTS = 1 << 14;

/**
 * Texts. They go into a dictionary as long as most of them have been there before; from where they have not, the pages
 * of the chunk have them plain, which the format provides for (Encodings.md, "Dictionary Encoding").
 */
export class TextColumn extends Column {
  readonly #known = new Map<string, number>();
  readonly #dictionary = new GrowingBytes();
  readonly #plain = new GrowingBytes();
  #places: number[] = [];
  #put = 0;
  #last: string | undefined;
  #lastPlace = 0;
  /** Whether the page in the making has places in the dictionary, and whether another text may come into it. */
  #byPlace = true;
  #open = true;

  put(text: string): void {
    if (this.slots.begins) this.#between();
    this.define();
    if (this.#byPlace) this.#putPlace(text);
    else this.#plain.text(text);
  }

  protected values(): PageValues {
    if (!this.#byPlace || this.#known.size === 0) return { encoding: 'PLAIN', bytes: this.#plain.bytes() };
    const bitWidth = Math.ceil(Math.log2(this.#known.size));
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
    this.#known.clear();
    this.#dictionary.clear();
    this.#put = 0;
    this.#last = undefined;
    this.#byPlace = this.#open = true;
  }

  protected dictionary(): { texts: number; bytes: Uint8Array } | undefined {
    const texts = this.#known.size;
    return texts === 0 ? undefined : { texts, bytes: this.#dictionary.bytes() };
  }

  protected bounds(): Bounds {
    return {};
  }

  /** Between two rows a page may end. */
  #between(): void {
    if (this.#byPlace && !this.#open) {
      this.endPage();
      this.#byPlace = false;
    } else if (this.isFull(this.#plain.length)) this.endPage();
  }

  #putPlace(text: string): void {
    this.#put++;
    // To see that it is the one before takes half of the time that looking it up does.
    let place = text === this.#last ? this.#lastPlace : this.#known.get(text);
    if (place === undefined) {
      place = this.#known.size;
      this.#known.set(text, place);
      this.#dictionary.text(text);
      if (place >= MOST_TEXTS || (place >= TRIED_TEXTS && 2 * place > this.#put)) this.#open = false;
    }
    this.#last = text;
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
    // Of a zero it is not known which of both it is (parquet.thrift, ColumnOrder).
    return { min_value: least === 0 ? -0 : least, max_value: most === 0 ? 0 : most };
  }
}
