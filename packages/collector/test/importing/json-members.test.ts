import fc from 'fast-check';
import { expect, test } from 'vitest';
import { membersOf } from '../../src/importing/json-members.js';

/** The members of the object in a text, each parsed from where it is said to stand. */
function parsedMembers(text: string, from?: number): Record<string, unknown> | undefined {
  const members = membersOf(text, from);
  if (members === undefined) return undefined;
  expect(text[members.close]).toBe('}');
  return Object.fromEntries(
    [...members.places].map(([name, { start, end }]) => [
      name,
      JSON.parse(text.slice(start, end)) as unknown,
    ]),
  );
}

test('the members of an object are found where they stand, whatever white space is between', () => {
  const text = ' {\t"a" : 1.50 ,\r\n"b":{"c":[1,{"d":"}"}]},"\\u0065":"\\\\", "f":null,"g":[ ]} ';
  const places = membersOf(text)?.places;
  const textOf = (name: string) => text.slice(places?.get(name)?.start, places?.get(name)?.end);
  expect([...(places?.keys() ?? [])]).toEqual(['a', 'b', 'e', 'f', 'g']);
  expect(['a', 'b', 'e', 'f', 'g'].map(textOf)).toEqual([
    '1.50',
    '{"c":[1,{"d":"}"}]}',
    '"\\\\"',
    'null',
    '[ ]',
  ]);
  expect(text.slice(membersOf(text)?.close)).toBe('} ');
  expect(parsedMembers(text, places?.get('b')?.start)).toEqual({ c: [1, { d: '}' }] });
});

test.each(['[]', '"{}"', '1', 'null', ' [{"a":1}]'])('%s holds no object', (text) => {
  expect(membersOf(text)).toBeUndefined();
});

test('any object is read as JSON.parse reads it', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.constantFrom(undefined, 1, '\t'),
      (object, indent) => {
        const text = JSON.stringify(object, undefined, indent);
        expect(parsedMembers(text)).toEqual(JSON.parse(text));
      },
    ),
  );
});
