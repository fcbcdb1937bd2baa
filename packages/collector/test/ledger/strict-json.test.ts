import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readEvent, readJson } from '../../src/ledger/strict-json.js';
import { growth, LINEAR } from '../running/growth.js';
import { runs } from '../../../../test/property-runs.js';

const DEPTH = 64;

/** The result of reading a text: its value, or the code of its fault. */
function outcome(text: string, maxDepth = DEPTH): { value: unknown } | string {
  const { fault, ...reading } = readJson(text, maxDepth);
  return fault === undefined ? { value: (reading as { value: unknown }).value } : fault.code;
}

/**
 * A parser that is slow and plain: RFC 8259 by recursive descent, with a set of the names of each object. It throws
 * the code of the fault. Where a text has several, JSON that cannot be read comes before a repeated name.
 */
class Reference {
  #at = 0;
  #repeated = false;
  #deepest = 0;

  private constructor(private readonly text: string) {}

  static outcome(text: string): { depth: number; value: { value: unknown } | string } {
    const parser = new Reference(text);
    try {
      const value = parser.#value(0);
      parser.#space();
      if (parser.#at < text.length) throw new SyntaxError();
      return { depth: parser.#deepest, value: parser.#repeated ? 'duplicate_key' : { value } };
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      return { depth: parser.#deepest, value: 'invalid_json' };
    }
  }

  #space(): void {
    while (' \t\n\r'.includes(this.text[this.#at] ?? 'x')) this.#at++;
  }

  #take(token: string): boolean {
    this.#space();
    if (!this.text.startsWith(token, this.#at)) return false;
    this.#at += token.length;
    return true;
  }

  #match(pattern: RegExp): string {
    this.#space();
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.text)?.[0];
    if (found === undefined) throw new SyntaxError();
    this.#at += found.length;
    return found;
  }

  #value(depth: number): unknown {
    for (const [word, value] of [
      ['null', null],
      ['true', true],
      ['false', false],
    ] as const) {
      if (this.#take(word)) return value;
    }
    this.#space();
    if (this.text[this.#at] === '"') return this.#string();
    if (this.text[this.#at] === '{') return this.#object(depth + 1);
    if (this.text[this.#at] === '[') return this.#array(depth + 1);
    return Number(this.#match(/-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y));
  }

  #string(): string {
    // eslint-disable-next-line no-control-regex -- RFC 8259 section 7 names exactly these characters.
    const spelt = this.#match(/"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y).slice(1, -1);
    const short: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };
    return spelt.replace(/\\(?:u(.{4})|(.))/g, (_all, hex: string | undefined, one: string) =>
      hex === undefined ? (short[one] ?? one) : String.fromCharCode(parseInt(hex, 16)),
    );
  }

  #object(depth: number): unknown {
    this.#deepest = Math.max(this.#deepest, depth);
    this.#take('{');
    const members = new Map<string, unknown>();
    if (!this.#take('}')) {
      do {
        this.#space();
        const name = this.#string();
        if (!this.#take(':')) throw new SyntaxError();
        if (members.has(name)) this.#repeated = true;
        members.set(name, this.#value(depth));
      } while (this.#take(','));
      if (!this.#take('}')) throw new SyntaxError();
    }
    const object = {};
    for (const [name, value] of members) {
      Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
    }
    return object;
  }

  #array(depth: number): unknown {
    this.#deepest = Math.max(this.#deepest, depth);
    this.#take('[');
    const items: unknown[] = [];
    if (this.#take(']')) return items;
    do items.push(this.#value(depth));
    while (this.#take(','));
    if (!this.#take(']')) throw new SyntaxError();
    return items;
  }
}

describe('a text is read', () => {
  test.each([
    ...['{}', '[]', ' null ', '"a"', '-0', '1e400', '\r\n\t [1, {"a": [true, false]}]\n', '"\\ud800"'],
    '"\u2028"',
  ])('as JSON.parse reads it: %j', (text) => {
    expect(outcome(text)).toEqual({ value: JSON.parse(text) as unknown });
  });

  test.each([
    '{"a":{"a":{"a":1}},"b":{"a":1}}',
    '[{"a":1},{"a":1}]',
    '{"a":":","b":"{:,}","c\\"":"\\\\","d":"\\\\\\":"}',
    '{"a":1,"A":1,"\\u00e4":1,"a\\u0308":1}',
    '{"__proto__":1,"constructor":2,"toString":3,"hasOwnProperty":4,"length":5}',
    '{"":1," ":2}',
    '{"0":1,"00":2,"-0":3}',
    '{"\\ud800":1,"\\udc00":2,"\\ud800\\udc00":3}',
  ])('where names are equal only in different objects, or look alike: %s', (text) => {
    expect(outcome(text)).toEqual({ value: JSON.parse(text) as unknown });
  });

  test('and __proto__ becomes an ordinary member of its own object only', () => {
    const { value } = outcome('{"__proto__":{"polluted":true}}') as { value: object };
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(Object.hasOwn(value, '__proto__')).toBe(true);
    expect('polluted' in {}).toBe(false);
  });
});

describe('a repeated name is refused [R-314]', () => {
  const REPEATED = String.raw`{"a":1,"a":1} {"a":1,"b":2,"a":3} {"a":1,"\u0061":2} {"\u0061":1,"\u0061":2} {"é":1,"\u00E9":2}
    {"😀":1,"\ud83d\ude00":2} {"\/":1,"/":2} {"\n":1,"\u000a":2} {"":1,"":2} {"__proto__":1,"__proto__":2}
    {"__proto__":{},"__pro\u0074o__":null} {"constructor":1,"constructor":2} {"1":1,"1":2}
    {"a":{"b":[{"c":{"d":1,"d":2}}]}} [[[{"x":1,"x":{}}]]] {"a":{"b":1},"a":{"b":1,"c":2}} {"a":[1,{"b":2}],"a":[]}
    {"a":"\"","a":"\\"}`;

  test.each([...REPEATED.split(/\s+/), ' { "a" : 1 ,\n "a" : 2 } '])('%j', (text) => {
    expect(outcome(text)).toBe('duplicate_key');
  });

  test('also when the first object has more members than the second, or fewer', () => {
    for (let dropped = 0; dropped < 5; dropped++) {
      for (let kept = 0; kept < 5; kept++) {
        const object = (size: number) => `{${Array.from({ length: size }, (_, i) => `"k${i}":0`).join()}}`;
        expect(outcome(`{"a":${object(dropped)},"b":0,"a":${object(kept)}}`)).toBe('duplicate_key');
      }
    }
  });
});

test('a name with an escape is never confused with an earlier name with a backslash [R-314]', () => {
  expect(outcome('{"x":0,"\\\\":1}')).toEqual({ value: { x: 0, '\\': 1 } });
  expect(outcome('{"x":0,"\\n":1,"\\\\":2}')).toEqual({ value: { x: 0, '\n': 1, '\\': 2 } });
  expect(outcome('{"x":0,"\\n":1,"\\u000a":2}')).toBe('duplicate_key');
});

describe('texts that are not JSON are refused [R-314]', () => {
  const WORDS = String.raw`{}{} [1]2 NaN Infinity -Infinity undefined True nul +1 01 1. .5 0x10 1e --1 {'a':1} {a:1}
    {"a":1,} [1,] [,1] {"a":} {"a"} {:1} {1:2} { } [ ] [} {] " "\" "\x41" "\u12"`;
  const SPACED = ['', ' ', '\ufeff{}', '{} {}', '[1 2]', '{"a" 1}', '"\n"', '"\t"', '"\0"', 'null\0'];
  const COMMENTED = ['{}// comment', '/* comment */{}', '{"a":1}\v', '\u00a0{}'];

  test.each([...WORDS.split(/\s+/), ...SPACED, ...COMMENTED])('%j', (text) => {
    expect(outcome(text)).toBe('invalid_json');
  });

  test.each([
    ['{"name":"😀" "b":1}', 13, 'unexpected character at line 1, column 14'],
    ['{"a":\n  [1, MRN 4711]}', 12, 'unexpected character at line 2, column 7'],
    ['{"a":NaN}', 5, 'NaN and Infinity are not JSON values at line 1, column 6'],
    ['[-Infinity]', 2, 'NaN and Infinity are not JSON values at line 1, column 3'],
    ['[1,nan]', 3, 'NaN and Infinity are not JSON values at line 1, column 4'],
    ['[info]', 1, 'unexpected character at line 1, column 2'],
    ['', 0, 'it is empty'],
    ['\ufeff{"a":1}', 0, 'it begins with a byte order mark'],
    ['{"a":1', 6, 'it ends too soon, at line 1, column 7'],
    ['{"a":tru', 5, 'it ends too soon, at line 1, column 6'],
  ])('and %j says where, in UTF-16 units, without any of its text [R-314]', (text, offset, cause) => {
    const fault = { code: 'invalid_json', offset, message: `The body is not JSON: ${cause}.` };
    expect(readJson(text, DEPTH)).toEqual({ fault });
  });

  test.each([
    'x at position 4711',
    'x in JSON at position 4711',
    'x in JSON at position 4711 (line 1 column 2)',
    '" in JSON at position 4711',
    '{"a":x in JSON at position 4711',
  ])('and a text that resembles an error of the parser does not change it: %s [R-403]', (text) => {
    expect(JSON.stringify(readJson(text, DEPTH))).not.toContain('4711');
  });
});

describe('nesting [R-314]', () => {
  const nested = (open: string, close: string, depth: number) =>
    `${open.repeat(depth)}${close.repeat(depth)}`;

  test.each([1, 8, 64, 1024])('is read to a depth of %i and no deeper', (depth) => {
    expect(outcome(nested('[', ']', depth), depth)).toEqual({
      value: JSON.parse(nested('[', ']', depth)) as unknown,
    });
    expect(outcome(nested('[', ']', depth + 1), depth)).toBe('nesting_too_deep');
    const objects = `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`;
    expect(outcome(objects, depth)).toHaveProperty('value');
    expect(outcome(`[${objects}]`, depth)).toBe('nesting_too_deep');
  });

  test('counts how deep, not how many, and no brackets in strings', () => {
    expect(outcome(`[${'[],{},'.repeat(500)}[]]`, 2)).toHaveProperty('value');
    expect(outcome(`["${'[{'.repeat(500)}","\\"[[["]`, 1)).toHaveProperty('value');
  });

  test('of a million levels is refused without recursion', () => {
    expect(outcome('['.repeat(1_000_000))).toBe('nesting_too_deep');
    expect(outcome('{"a":'.repeat(200_000))).toBe('nesting_too_deep');
  });

  test('is not extended by more closing brackets than opening ones', () => {
    expect(outcome(`${']'.repeat(100)}${'['.repeat(100)}`)).toBe('invalid_json');
  });
});

test('a megabyte of quotes and backslashes is read in time that grows with its length', () => {
  const read = (units: number) => {
    for (const unit of ['\\"', '\\\\', '\\\\\\"']) outcome(`"${unit.repeat(units)}"`);
    outcome(`"${'\\'.repeat(3 * units)}`);
  };
  expect(growth(read, 40_000)).toBeLessThan(LINEAR);
});

describe('on arbitrary texts the reading agrees with a parser that keeps the names of each object [R-314]', () => {
  /** Few names, in several spellings, so that some are equal. */
  const NAMES = String.raw`"a" "\u0061" "b" "" "__proto__" "\u005f_proto__" ":" "\"" "{" "1" "\n" "\u000a" "\\" "\u005c" "a\\" "a\/"`;
  const name = fc.constantFrom(...NAMES.split(' '));
  const leaf = fc.oneof(
    fc.constantFrom(...String.raw`null true 1 -0.5e3 1e400 "" ":,{}[]" "\\" "\\\"" "\ud800"`.split(' ')),
    fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text)),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => JSON.stringify(number)),
  );
  const space = fc.constantFrom('', '', '', ' ', '\r\n\t');
  const { json } = fc.letrec<{ json: string; object: string; array: string }>((tie) => ({
    json: fc.oneof({ maxDepth: 6, withCrossShrink: true }, leaf, tie('object'), tie('array')),
    object: fc
      .array(fc.tuple(space, name, space, tie('json'), space), { maxLength: 4 })
      .map((members) => `{${members.map(([a, n, b, v, c]) => `${a}${n}${b}:${v}${c}`).join()}}`),
    array: fc.array(tie('json'), { maxLength: 4 }).map((items) => `[${items.join()}]`),
  }));
  const character = fc.constantFrom(...Array.from('{}[]":,\\ae01 \n-'));
  /** Some characters removed, inserted or doubled: mostly invalid JSON, sometimes another valid text. */
  const mutated = fc
    .tuple(json, fc.array(fc.tuple(fc.nat(), fc.nat(4), character), { maxLength: 3 }))
    .map(([text, changes]) =>
      changes.reduce((changed, [place, length, character]) => {
        const at = place % (changed.length + 1);
        return length === 0
          ? changed.slice(0, at) + changed.slice(at, at + 8) + changed.slice(at)
          : changed.slice(0, at) + character + changed.slice(at + length - 1);
      }, text),
    );

  /** The same text among enough values that none of them is built [R-314]. */
  const agreesAmongMany = (text: string): void => {
    const many = `[${text}${',0'.repeat(520)}]`;
    const { value } = Reference.outcome(many);
    expect(readEvent(many, DEPTH).fault?.code).toBe(typeof value === 'string' ? value : undefined);
  };

  const agrees = (text: string) => {
    const expected = Reference.outcome(text);
    // Invalid JSON may be found too deep before it is found invalid.
    if (expected.depth <= DEPTH) expect(outcome(text)).toEqual(expected.value);
    if (expected.depth < DEPTH) agreesAmongMany(text);
    for (const limit of [1, 2, 3]) {
      const tooDeep = expected.depth > limit;
      const found = outcome(text, limit);
      if (expected.value !== 'invalid_json') expect(found === 'nesting_too_deep').toBe(tooDeep);
    }
  };

  test('of JSON with equal names', () => {
    fc.assert(fc.property(json, agrees), { numRuns: runs(3000) });
  });

  test('of JSON that was damaged', () => {
    fc.assert(fc.property(mutated, agrees), { numRuns: runs(3000) });
  });

  test('of JSON in which one member was inserted again', () => {
    let repeated = 0;
    const again = fc.tuple(fc.jsonValue(), fc.nat()).map(([value, place]) => {
      const text = JSON.stringify(value);
      const members = [...text.matchAll(/"(?:[^"\\]|\\.)*":/g)];
      const member = members[place % Math.max(1, members.length)];
      return member === undefined
        ? text
        : `${text.slice(0, member.index)}${member[0]}0,${text.slice(member.index)}`;
    });
    fc.assert(
      fc.property(again, (text) => {
        agrees(text);
        if (outcome(text) === 'duplicate_key') repeated++;
      }),
      { numRuns: runs(1000) },
    );
    expect(repeated).toBeGreaterThan(runs(100));
  });
});
