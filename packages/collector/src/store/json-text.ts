/** The marks of a JSON text (RFC 8259), for those who walk one without building anything of it. */

export const QUOTE = 34;
export const COMMA = 44;
export const COLON = 58;
export const OPEN_BRACKET = 91;
const BACKSLASH = 92;
export const CLOSE_BRACKET = 93;
export const OPEN_BRACE = 123;
export const CLOSE_BRACE = 125;

/** The offset of the quote that ends the string beginning at `start`, or -1: jumps from quote to quote. */
export function stringEnd(text: string, start: number): number {
  let end = start;
  for (;;) {
    end = text.indexOf('"', end + 1);
    if (end < 0) return -1;
    let backslashes = 0;
    while (text.charCodeAt(end - 1 - backslashes) === BACKSLASH) backslashes++;
    // An even number of backslashes escape each other, and the quote is a quote.
    if (backslashes % 2 === 0) return end;
  }
}
