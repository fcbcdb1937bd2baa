/** Reads JSON texts strictly: with a limit of depth, and without repeated member names. */
import { ERRORS } from '@clinical-events/protocol';
import { NAMED_FIELDS } from '@clinical-events/protocol/validate';
import {
  JsonOutline,
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
 * Reads a JSON text (RFC 8259) strictly. A repeated member name in one object is refused: two readers could
 * make two events of the same bytes, and neither would be evidence.
 *
 * Repeated names are found by counting: each member has one colon outside strings, and JSON.parse keeps one
 * member per name. When the counts differ, a name was repeated. That costs 0.3 microseconds for a body of 1.2
 * KB, a tenth of what a parser with sets of names costs.
 *
 * @param maxDepth the maximum nesting depth of arrays and objects, including the outermost one.
 */
export function readJson(text: string, maxDepth: number): JsonReading {
  const counts = tokenize(text, maxDepth);
  return counts === undefined ? TOO_DEEP : parse(text, counts.members);
}

/**
 * Reads an event as `readJson` does. From a text with many values, it reads only the fields that the schemas
 * name. Building the objects of 1 MiB takes up to 0.1 s and tens of MiB, which a sender can cause with 1 KiB
 * of gzip.
 */
export function readEvent(text: string, maxDepth: number): JsonReading {
  const counts = tokenize(text, maxDepth);
  if (counts === undefined) return TOO_DEEP;
  return counts.values > MAX_PARSED_VALUES ? outlined(text) : parse(text, counts.members);
}

/** A usual event has some 30 values; up to this number, parsing is faster. */
const MAX_PARSED_VALUES = 512;

const TOO_DEEP: JsonReading = { fault: { code: 'nesting_too_deep' } };

function parse(text: string, members: number): JsonReading {
  let value: unknown;
  try {
    value = parseJson(text);
  } catch {
    // V8's message quotes the text, which may be patient data, and does not always have the offset.
    return invalid(text, new JsonOutline(text).faultAt ?? 0);
  }
  return keptMembers(value) === members ? { value } : { fault: { code: 'duplicate_key' } };
}

const BYTE_ORDER_MARK = '\ufeff';
/** If a text ends within one of these words, its fault is where the word begins. */
const LITERALS = ['true', 'false', 'null'];
/** The output of Python, C and JavaScript for numbers that JSON cannot express (RFC 8259 section 6). */
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

/** The fields that the schemas name, as a tree. */
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

/** The value at an offset. An object has only these fields, and an array is empty. */
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

/**
 * The number of members of all objects in the value. JSON.parse makes a member named `__proto__` an own
 * property.
 */
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
