/** Where the members of an object stand in its JSON text, so that one can be taken out or changed and nothing else moves. */
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  stringEnd,
} from '../store/json-text.js';

/** The text of a value: from `start` up to, not including, `end`. */
export interface Place {
  readonly start: number;
  readonly end: number;
}

export interface Members {
  /** By name as it reads, without escapes. */
  readonly places: ReadonlyMap<string, Place>;
  /** Where the object's closing brace stands. */
  readonly close: number;
}

/**
 * @param text a JSON text that has been read without a fault (RFC 8259).
 * @param from where the object begins, white space before it allowed.
 * @returns undefined when the value there is no object.
 */
export function membersOf(text: string, from = 0): Members | undefined {
  let at = pastSpace(text, from);
  if (text.charCodeAt(at) !== OPEN_BRACE) return undefined;
  const places = new Map<string, Place>();
  at = pastSpace(text, at + 1);
  while (text.charCodeAt(at) === QUOTE) {
    const nameEnd = stringEnd(text, at) + 1;
    const name = JSON.parse(text.slice(at, nameEnd)) as string;
    const start = pastSpace(text, pastSpace(text, nameEnd) + 1);
    const end = valueEnd(text, start);
    places.set(name, { start, end });
    at = pastSpace(text, end);
    if (text.charCodeAt(at) === COMMA) at = pastSpace(text, at + 1);
  }
  return { places, close: at };
}

function pastSpace(text: string, from: number): number {
  let at = from;
  while (isSpace(text.charCodeAt(at))) at++;
  return at;
}

function isSpace(code: number): boolean {
  return code === 32 || code === 10 || code === 13 || code === 9;
}

/** Where the value that begins at `start` ends, however deep it is, without recursion. */
function valueEnd(text: string, start: number): number {
  let depth = 0;
  let at = start;
  do {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = stringEnd(text, at) + 1;
    else if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      depth++;
      at++;
    } else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
      depth--;
      at++;
    } else if (code === COMMA || code === COLON || isSpace(code)) at++;
    else at = scalarEnd(text, at);
  } while (depth > 0);
  return at;
}

function scalarEnd(text: string, start: number): number {
  let at = start;
  while (at < text.length && !endsScalar(text.charCodeAt(at))) at++;
  return at;
}

function endsScalar(code: number): boolean {
  return code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET || isSpace(code);
}
