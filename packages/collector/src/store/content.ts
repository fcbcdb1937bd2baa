/** When two bodies say the same: the test behind "201 for a repeat, 409 for a conflict". */
import { isDeepStrictEqual } from 'node:util';

/** A JSON number as the mathematical value that its text denotes, so that 1, 1.0 and 10e-1 are equal. */
class Decimal {
  constructor(
    readonly digits: string,
    readonly exponent: bigint,
  ) {}
}

const MAX_EXPONENT_DIGITS = 100;

/**
 * Doubles would call 12345678901234567890 and 12345678901234567891 equal, and 1e400 and 1e500 too.
 * @param text a number as RFC 8259 section 6 writes it.
 */
function decimal(text: string): Decimal {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e');
  const negative = mantissa.startsWith('-');
  const [whole = '', fraction = ''] = mantissa.slice(negative ? 1 : 0).split('.');
  const all = whole + fraction;
  let first = 0;
  while (all.charCodeAt(first) === 48) first++;
  let last = all.length;
  while (last > first && all.charCodeAt(last - 1) === 48) last--;
  if (first === last) return new Decimal('0', 0n);
  // To read an exponent of a million digits takes a tenth of a second, which one sender could spend at will. Such a
  // number is equal to itself as it is written, and to nothing else.
  if (exponent.length > MAX_EXPONENT_DIGITS) return new Decimal(text, 0n);
  const shift = BigInt(all.length - last - fraction.length);
  return new Decimal((negative ? '-' : '') + all.slice(first, last), BigInt(exponent) + shift);
}

function read(body: Uint8Array): unknown {
  // The reviver's third argument carries the source text of a primitive (ECMAScript proposal "JSON.parse source
  // text access", in Node from 22 on; the compiler's library does not know it yet).
  const reviver = (_key: string, value: unknown, context?: { source?: string }): unknown => {
    if (typeof value !== 'number') return value;
    // An older Node would call numbers equal that differ: better no answer than a false one.
    if (context?.source === undefined) throw new Error('JSON.parse does not tell the source text of numbers');
    return decimal(context.source);
  };
  return JSON.parse(
    Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString(),
    reviver,
  ) as unknown;
}

/**
 * True when both are the same JSON value: members in any order, white space aside, numbers by their exact value.
 * @param a @param b valid JSON texts in UTF-8 without repeated member names.
 */
export function sameContent(a: Uint8Array, b: Uint8Array): boolean {
  return isDeepStrictEqual(read(a), read(b));
}
