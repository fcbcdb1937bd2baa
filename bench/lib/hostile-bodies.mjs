/** Bodies of a MiB that cost more than their size, one for each check of a body. */
import { randomUUID } from 'node:crypto';
import zlib from 'node:zlib';
import { KIND } from './event.mjs';

/** A whole event has at most a MiB; the rest of it takes less than this. */
const VALUE_BYTES = (1 << 20) - 400;
const DEPTH = 60;

function eventOf(value, id = randomUUID()) {
  return (
    `{"event_id":"${id}","timestamp":"2026-03-02T08:31:44.611Z","protocol_version":"0.0.1",` +
    `"system_metadata":{},"artifact":{"artifact_type":"other","artifact_uri":"s3://a/b"},"more":${value}}`
  );
}

/** As many items as fit, between two brackets. */
function filled([open, close], itemOf) {
  const items = [];
  let length = 2;
  for (let i = 0; ; i++) {
    const item = itemOf(i);
    length += item.length + 1;
    if (length > VALUE_BYTES) break;
    items.push(item);
  }
  return `${open}${items.join()}${close}`;
}

const nested = (open, inner, close) => `${open.repeat(DEPTH)}${inner}${close.repeat(DEPTH)}`;
const name = (i) => i.toString(36);
const text = () => `"${'x'.repeat(VALUE_BYTES - 2)}"`;
const members = () => filled('{}', (i) => `"${name(i)}":0`);
const escapedNames = () => filled('{}', (i) => `"\\u0061${name(i)}":0`);
/** Values as a monitor sends them. */
const observations = () =>
  filled(
    '[]',
    (i) =>
      `{"code":"8867-4","display":"Heart rate","value":${60 + (i % 60)},"unit":"beats/minute",` +
      `"at":"2026-03-02T08:31:44.611Z"}`,
  );
/** Names that differ in their last character alone. */
const rowOfNames = `{${Array.from({ length: 26_000 }, (_, i) => `"${String.fromCharCode(0x3400 + i)}":0`).join()}}`;

/** The contents of large events, by the check for which they are the worst. */
const VALUES = {
  text,
  observations,
  'objects, empty': () => filled('[]', () => '{}'),
  'arrays, empty': () => filled('[]', () => '[]'),
  'members of one object': members,
  'objects of a name each': () => filled('[]', (i) => `{"${name(i)}":1}`),
  'objects of names in a row': () => filled('[]', () => rowOfNames),
  'depth, arrays': () => filled('[]', () => nested('[', '', ']')),
  'depth, objects': () => filled('[]', () => nested('{"a":', '1', '}')),
  'numbers, short': () => filled('[]', () => '1'),
  'numbers, exponents': () => filled('[]', (i) => `${i}.5e-99999999`),
  'number, long': () => '1'.repeat(VALUE_BYTES),
  'escapes in text': () => `"${'\\"'.repeat(VALUE_BYTES / 2 - 1)}"`,
  'escapes in names': escapedNames,
};

const reversed = (object) => `{${object.slice(1, -1).split(',').toReversed().join()}}`;

function nestedPair() {
  let [a, b] = [1, 1].fill(`[${'{"b":1},'.repeat(VALUE_BYTES / 8 - 200)}0]`);
  for (let i = 0; i < DEPTH; i++) [a, b] = [`{"a":${a},"z":1}`, `{"z":1,"a":${b}}`];
  return [a, b];
}

/** Two spellings of one value, for the values that take longest to compare. */
const PAIRS = {
  'observations, reversed': () => [observations(), observations().replace(/\{[^}]*\}/g, reversed)],
  'text after a space': () => [text(), ` ${text()}`],
  'objects in objects, reversed': nestedPair,
  'small objects, reversed': () => [filled('[]', () => '{"a":1,"b":2}'), filled('[]', () => '{"b":2,"a":1}')],
  'members, reversed': () => [members(), reversed(members())],
  'numbers, spelt in two ways': () => [filled('[]', () => '1e1'), filled('[]', () => '1E1')],
  'numbers, long exponents': () => [
    filled('[]', () => '1e1000000000000000000'),
    filled('[]', () => '10e999999999999999999'),
  ],
  'escapes in names, twice': () => [escapedNames(), escapedNames().replaceAll('\\u0061', 'a')],
};

/** The plain body of its size, alone and as a duplicate in another order. */
export const PLAIN_BODY = 'observations';
export const PLAIN_PAIR = 'observations, reversed';

export const HOSTILE_BODIES = Object.keys(VALUES);
export const HOSTILE_PAIRS = Object.keys(PAIRS);

/** A body, or two bodies of one event with equal content and different bytes. */
export function hostileBodies(kind) {
  const id = randomUUID();
  return Object.hasOwn(PAIRS, kind)
    ? PAIRS[kind]().map((value) => eventOf(value, id))
    : [eventOf(VALUES[kind]())];
}

const CODINGS = {
  identity: (body) => body,
  gzip: (body) => zlib.gzipSync(body, { level: 9 }),
  br: (body) => zlib.brotliCompressSync(body),
  zstd: (body) => zlib.zstdCompressSync(body),
};

/** A whole request. */
export function hostileRequest({ port, key, coding }, body) {
  const coded = CODINGS[coding](Buffer.from(body));
  const head =
    `POST /event/${KIND} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\n` +
    `X-API-Key: ${key}\r\nContent-Encoding: ${coding}\r\nContent-Length: ${coded.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head, 'latin1'), coded]);
}
