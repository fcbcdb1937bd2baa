/**
 * OTLP/JSON as the OpenTelemetry protocol 1.x specifies it ("JSON Protobuf Encoding"), and as its SDKs send
 * it.
 */
import { isUtf8 } from 'node:buffer';
import { type Fields, isObject } from '@clinical-events/protocol';
import { CLOSE_BRACE, CLOSE_BRACKET, OPEN_BRACE, OPEN_BRACKET, tokenize } from '../../json-text.js';
import { DecodingFault, MOST_LEVELS, MOST_MESSAGES, tooDeep, tooMany } from './fault.js';
import { forEachOf, type Form, type Message, wholeNumber } from './form.js';

/** Maximum opening braces, brackets and commas in a request, which bound what JSON.parse builds. */
const MOST_MARKS = 2 * MOST_MESSAGES;

const MOST_UINT64 = 2n ** 64n - 1n;
const INT64_LIMIT = 2n ** 63n;
const NOT_FINITE: ReadonlySet<unknown> = new Set(['NaN', 'Infinity', '-Infinity']);

export const jsonForm: Form = {
  requestOf(body) {
    if (!isUtf8(body)) throw new DecodingFault('malformed', 'the request is not UTF-8');
    const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
    assertWithinLimits(text);
    let request: unknown;
    try {
      request = JSON.parse(text);
    } catch {
      throw new DecodingFault('malformed', 'the request is not JSON'); // V8's message quotes the text.
    }
    if (!isObject(request)) throw new DecodingFault('malformed', 'the request is not a JSON object');
    return request;
  },
  forEach: (of, name, act) => forEachOf(messages(of, name), name, act),
  message,
  text,
  id(of, name, digits) {
    const value = text(of, name).toLowerCase();
    return value.length === digits && /^[0-9a-f]+$/.test(value) && /[^0]/.test(value) ? value : '';
  },
  time(of, name) {
    const value = member(of, name) ?? 0;
    const time = integer(value);
    if (time === undefined || time < 0n || time > MOST_UINT64) throw wrong(name, 'not a time in nanoseconds');
    return time;
  },
  number(of, name) {
    const value = Number(integer(member(of, name) ?? 0));
    if (!(value >= -(2 ** 31) && value < 2 ** 32)) throw wrong(name, 'not a 32-bit integer');
    return value;
  },
  attributes: (of) => fieldsOf(of, 'attributes'),
  value: valueOf,
};

/** Bounds what JSON.parse builds, before it does. For a text that is not JSON, either fault may result. */
function assertWithinLimits(json: string): void {
  let objects = 0;
  let arrays = 0;
  const counts = tokenize(json, 2 * MOST_LEVELS, (code) => {
    if (code === OPEN_BRACE) objects++;
    else if (code === CLOSE_BRACE) objects--;
    else if (code === OPEN_BRACKET) arrays++;
    else if (code === CLOSE_BRACKET) arrays--;
    if (objects > MOST_LEVELS || arrays > MOST_LEVELS) throw tooDeep();
  });
  if (counts === undefined) throw tooDeep();
  // The outermost value has no mark.
  if (counts.values - 1 > MOST_MARKS) throw tooMany(MOST_MARKS, 'objects, lists and commas');
}

function wrong(name: string, problem: string): DecodingFault {
  return new DecodingFault('malformed', `is ${problem}`).in(name);
}

/** A member; undefined if it is absent or null. */
function member(of: Message, name: string): unknown {
  return (of as Fields)[name] ?? undefined;
}

function messages(of: Message, name: string): readonly Message[] {
  const value = member(of, name) ?? [];
  if (!Array.isArray(value) || !value.every(isObject)) throw wrong(name, 'not a list of objects');
  return value;
}

function message(of: Message, name: string): Message | undefined {
  const value = member(of, name);
  if (value !== undefined && !isObject(value)) throw wrong(name, 'not an object');
  return value;
}

function text(of: Message, name: string): string {
  const value = member(of, name) ?? '';
  if (typeof value !== 'string') throw wrong(name, 'not a string');
  return value.toWellFormed();
}

/** An integer in decimal digits or as a number: SDKs send either. Undefined for other values. */
function integer(value: unknown): bigint | undefined {
  if (typeof value === 'number') return Number.isInteger(value) ? BigInt(value) : undefined;
  return typeof value === 'string' && /^-?\d{1,20}$/.test(value) ? BigInt(value) : undefined;
}

function int64Of(value: unknown): number | string {
  // The usual case. -0 becomes 0.
  if (Number.isSafeInteger(value)) return (value as number) + 0;
  const whole = integer(value);
  if (whole !== undefined && whole >= -INT64_LIMIT && whole < INT64_LIMIT) return wholeNumber(whole);
  // OpenTelemetry for JavaScript sends any number without a fraction as an integer.
  if (whole !== undefined && typeof value === 'number') return value;
  throw wrong('intValue', 'not a 64-bit integer');
}

function doubleOf(value: unknown): number | null {
  const number = typeof value === 'string' && /^-?\d/.test(value) ? Number(value) : value;
  if (NOT_FINITE.has(number)) return null;
  if (typeof number !== 'number' || Number.isNaN(number)) throw wrong('doubleValue', 'not a number');
  return Number.isFinite(number) ? number : null;
}

function booleanOf(value: unknown): boolean {
  if (typeof value !== 'boolean') throw wrong('boolValue', 'neither true nor false');
  return value;
}

function bytesOf(value: unknown): string {
  if (typeof value !== 'string' || !/^[\w+/-]*={0,2}$/.test(value)) throw wrong('bytesValue', 'not base64');
  return Buffer.from(value, 'base64').toString('base64');
}

/** The last of equal names counts, as in JSON.parse. */
function fieldsOf(of: Message, name: string): Fields {
  const fields = Object.create(null) as Record<string, unknown>;
  forEachOf(messages(of, name), name, (item) => {
    fields[text(item, 'key')] = valueOf(item, 'value');
  });
  return fields;
}

/** An AnyValue. The last of its members counts, as in protobuf. */
function valueOf(of: Message, name: string): unknown {
  const any = message(of, name);
  return any === undefined ? null : anyValue(any);
}

function anyValue(any: Message): unknown {
  let value: unknown = null;
  for (const name in any) {
    const said = member(any, name);
    if (said === undefined) continue;
    if (name === 'stringValue') value = text(any, name);
    else if (name === 'intValue') value = int64Of(said);
    else if (name === 'boolValue') value = booleanOf(said);
    else if (name === 'doubleValue') value = doubleOf(said);
    else if (name === 'arrayValue') value = listOf(message(any, name) as Message);
    else if (name === 'kvlistValue') value = fieldsOf(message(any, name) as Message, 'values');
    else if (name === 'bytesValue') value = bytesOf(said);
  }
  return value;
}

function listOf(array: Message): unknown[] {
  const list: unknown[] = [];
  forEachOf(messages(array, 'values'), 'values', (item) => list.push(anyValue(item)));
  return list;
}
