/** Reads JSON texts strictly: with a limit of depth, and without repeated member names. */
import { ERRORS } from '@clinical-events/protocol';
import { NAMED_FIELDS } from '@clinical-events/protocol/validate';
import { JsonOutline } from '../json-outline.js';
import {
  OPEN_BRACE,
  OPEN_BRACKET,
  parseJson,
  pastScalar,
  pastSpace,
  placeIn,
  tokenize,
  type Units,
  unitsOf,
} from '../json-text.js';

/** Why a text is refused. `offset` counts UTF-16 units; `message` holds no part of the text. */
export type JsonFault =
  | { readonly code: 'invalid_json'; readonly offset: number; readonly message: string }
  | { readonly code: 'nesting_too_deep' }
  | { readonly code: 'duplicate_key' };

export type JsonReading =
  { readonly value: unknown; readonly fault?: undefined } | { readonly fault: JsonFault };

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
  const counts = tokenize(text, maxDepth);
  return counts === undefined ? TOO_DEEP : parse(text, counts.members);
}

/**
 * Reads an event as `readJson` does, but of a text with many values only the fields that the schemas name.
 * To build a MiB of objects takes up to 0.1 s and tens of MiB of memory, which a sender buys with a KiB of gzip.
 */
export function readEvent(text: string, maxDepth: number): JsonReading {
  const counts = tokenize(text, maxDepth);
  if (counts === undefined) return TOO_DEEP;
  return counts.values > MAX_PARSED_VALUES ? outlined(text) : parse(text, counts.members);
}

/** An event of the usual kind has some 30; up to this number, to parse is the faster way. */
const MAX_PARSED_VALUES = 512;

const TOO_DEEP: JsonReading = { fault: { code: 'nesting_too_deep' } };

function parse(text: string, members: number): JsonReading {
  let value: unknown;
  try {
    value = parseJson(text);
  } catch {
    // V8 quotes the text in its message, which may be patient data, and does not always name the place.
    return invalid(text, new JsonOutline(text).faultAt ?? 0);
  }
  return keptMembers(value) === members ? { value } : { fault: { code: 'duplicate_key' } };
}

const BYTE_ORDER_MARK = '\ufeff';
/** A text that is cut inside one of them is at fault where the word begins. */
const LITERALS = ['true', 'false', 'null'];
/** What Python, C and JavaScript print for numbers that JSON cannot express (RFC 8259 section 6). */
const NOT_FINITE = /^[-+]?(?:nan|inf|infinity)(?!\w)/i;

function invalid(text: string, offset: number): JsonReading {
  const cause = causeOf(text, offset, placeIn(text, offset));
  const message = `${ERRORS.invalid_json.message.slice(0, -1)}: ${cause}.`;
  return { fault: { code: 'invalid_json', offset, message } };
}

function causeOf(text: string, offset: number, place: string): string {
  if (text === '') return 'it is empty';
  if (text.startsWith(BYTE_ORDER_MARK)) return 'it begins with a byte order mark';
  if (LITERALS.some((literal) => literal.startsWith(text.slice(offset))))
    return `it ends too soon, at ${place}`;
  const from = text[offset - 1] === '-' ? offset - 1 : offset;
  const notFinite = NOT_FINITE.test(text.slice(from, from + 12));
  return `${notFinite ? 'NaN and Infinity are not JSON values' : 'unexpected character'} at ${place}`;
}

function outlined(text: string): JsonReading {
  const outline = new JsonOutline(text);
  const { faultAt } = outline;
  if (faultAt !== undefined) return invalid(text, faultAt);
  if (outline.repeatedAt !== undefined) return { fault: { code: 'duplicate_key' } };
  const at = pastSpace(outline.units, 0);
  return { value: fieldsAt(outline, at, 0, NAMED) };
}

/** The fields that the schemas name, by object. */
interface Named {
  readonly name: string;
  readonly units: Units;
  readonly fields: readonly Named[];
}

function namedBelow(path: string): readonly Named[] {
  return NAMED_FIELDS.filter((pointer) => pointer.slice(0, pointer.lastIndexOf('/')) === path).map(
    (pointer) => {
      const name = pointer.slice(path.length + 1);
      return { name, units: unitsOf(name), fields: namedBelow(pointer) };
    },
  );
}

const NAMED = namedBelow('');

/** The value at a place, of an object with these fields alone, of an array with nothing. */
function fieldsAt(outline: JsonOutline, at: number, container: number, fields: readonly Named[]): unknown {
  const { text, units } = outline;
  if (units[at] === OPEN_BRACKET) return [];
  if (units[at] !== OPEN_BRACE) return JSON.parse(text.slice(at, pastScalar(units, at))) as unknown;
  const value: Record<string, unknown> = {};
  for (const { name, units: spelt, fields: inner } of fields) {
    const member = outline.find(container, spelt, 0, name.length);
    if (member < 0) continue;
    value[name] = fieldsAt(outline, outline.valueOf(member), outline.containerOf(member), inner);
  }
  return value;
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
