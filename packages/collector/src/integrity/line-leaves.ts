/** The lines of a file as leaves of a tree: the hash of each is SHA-256(00 ‖ its bytes without the line feed), RFC 6962 2.1. Pure. */
import { createHash, hash, type Hash } from 'node:crypto';
import { HASH_BYTES } from './merkle.js';

const LINE_FEED = 0x0a;
const LEAF_PREFIX = Buffer.of(0);
/** Lines up to this are copied behind the prefix and hashed there, which takes a third of the time. */
const SHORT = 4096;

export interface Line {
  /** The hash of the leaf, 32 bytes; good until the next is asked for, as `bytes` is. */
  readonly leaf: Buffer;
  /** How many bytes the line has, its line feed among them. */
  readonly length: number;
  /** Without the line feed; undefined when it is longer than the limit. */
  readonly bytes: Buffer | undefined;
}

export class LineLeaves {
  /** Of a line whose end has not come. */
  #hash: Hash | undefined;
  #begun: Buffer[] = [];
  #length = 0;
  readonly #leaf = Buffer.alloc(HASH_BYTES);
  readonly #short = Buffer.alloc(LEAF_PREFIX.length + SHORT);

  /** @param limit the longest line whose bytes are handed over; the hash of a longer one is right as well. */
  constructor(private readonly limit: number) {}

  /** Bytes behind the last line feed. */
  get pending(): number {
    return this.#length;
  }

  /** The lines that end in this piece, which follows the one before. */
  *take(piece: Buffer): Generator<Line, void> {
    let at = 0;
    for (;;) {
      const end = piece.indexOf(LINE_FEED, at);
      if (end < 0) break;
      yield this.#line(piece.subarray(at, end));
      at = end + 1;
    }
    if (at < piece.length) this.#keep(piece.subarray(at));
  }

  #keep(part: Buffer): void {
    this.#hash ??= createHash('sha256').update(LEAF_PREFIX);
    this.#hash.update(part);
    this.#length += part.length;
    if (this.#length > this.limit) this.#begun = [];
    else this.#begun.push(Buffer.from(part));
  }

  #line(rest: Buffer): Line {
    const length = this.#length + rest.length;
    let bytes: Buffer | undefined;
    if (length <= this.limit) bytes = this.#length === 0 ? rest : Buffer.concat([...this.#begun, rest]);
    if (this.#hash === undefined && rest.length <= SHORT) {
      rest.copy(this.#short, LEAF_PREFIX.length);
      const leaf = this.#short.subarray(0, LEAF_PREFIX.length + rest.length);
      this.#leaf.write(hash('sha256', leaf, 'binary'), 'latin1');
    } else {
      (this.#hash ?? createHash('sha256').update(LEAF_PREFIX)).update(rest).digest().copy(this.#leaf);
    }
    this.#hash = undefined;
    this.#begun = [];
    this.#length = 0;
    return { leaf: this.#leaf, length: length + 1, bytes };
  }
}
