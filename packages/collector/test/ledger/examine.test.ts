import { randomUUID } from 'node:crypto';
import { EVENT_KINDS, PROFILES } from '@clinical-events/protocol';
import { NAMED_FIELDS, validateEvent } from '@clinical-events/protocol/validate';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { examine, isFault, type Examined, type Fault } from '../../src/ledger/examine.js';
import { outcomeText, sampleEvent } from '../running/sample-events.js';
import { runs } from '../../../../test/property-runs.js';

const DEPTH = 64;

function faultOf(body: Uint8Array | string, depth = DEPTH): Fault | undefined {
  const result = examine(Buffer.from(body as Uint8Array), 'outcome', 'minimum', depth);
  return isFault(result) ? result : undefined;
}

function examined(body: string, kind: (typeof EVENT_KINDS)[number] = 'outcome'): Examined {
  const result = examine(Buffer.from(body), kind, 'minimum', DEPTH);
  if (isFault(result)) throw new Error(result.code);
  return result;
}

/** An event whose extra member is a string of these bytes. */
function withBytes(...bytes: readonly number[]): Buffer {
  const [before = '', after = ''] = outcomeText('"?"').split('?');
  return Buffer.concat([Buffer.from(before), Buffer.from(bytes), Buffer.from(after)]);
}

describe('the encoding [R-314]', () => {
  test.each([
    ['a lone continuation', [0x80]],
    ['a start without its continuation', [0xc3]],
    ['a start before another character', [0xc3, 0x41]],
    ['an overlong slash of two bytes', [0xc0, 0xaf]],
    ['an overlong slash of three bytes', [0xe0, 0x80, 0xaf]],
    ['an overlong slash of four bytes', [0xf0, 0x80, 0x80, 0xaf]],
    ['an overlong NUL', [0xc0, 0x80]],
    ['an overlong quote', [0xc0, 0xa2]],
    ['a high surrogate', [0xed, 0xa0, 0x80]],
    ['a pair of surrogates (CESU-8)', [0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80]],
    ['a code point beyond U+10FFFF', [0xf4, 0x90, 0x80, 0x80]],
    ['a sequence of five bytes', [0xf8, 0x88, 0x80, 0x80, 0x80]],
    ['0xFE', [0xfe]],
    ['0xFF', [0xff]],
    ['Latin-1', [0xe9]],
  ])('is refused with %s', (_what, bytes) => {
    expect(faultOf(withBytes(...bytes))).toEqual({ code: 'invalid_encoding' });
  });

  test.each([
    ['U+0080', [0xc2, 0x80]],
    ['U+07FF', [0xdf, 0xbf]],
    ['U+0800', [0xe0, 0xa0, 0x80]],
    ['U+D7FF', [0xed, 0x9f, 0xbf]],
    ['U+FEFF inside', [0xef, 0xbb, 0xbf]],
    ['U+FFFF', [0xef, 0xbf, 0xbf]],
    ['U+10FFFF', [0xf4, 0x8f, 0xbf, 0xbf]],
    ['DEL', [0x7f]],
  ])('may hold %s', (_what, bytes) => {
    expect(faultOf(withBytes(...bytes))).toBeUndefined();
  });

  test.each(['utf16le', 'latin1'] as const)('is refused in %s', (encoding) => {
    const code = faultOf(Buffer.from(outcomeText('"é"'), encoding))?.code;
    expect(code).toBeOneOf(['invalid_encoding', 'invalid_json']);
  });

  test('is refused with a byte order mark, which RFC 8259 section 8.1 forbids to send, and says so [R-314]', () => {
    expect(faultOf(`\ufeff${outcomeText('1')}`)).toEqual({
      code: 'invalid_json',
      message: 'The body is not JSON: it begins with a byte order mark.',
      details: { offset: 0 },
    });
  });

  test.each([0xfeff, 0xfffe])('says that it is UTF-16 when it begins with its mark %i [R-314]', (mark) => {
    const body = Buffer.from(`\ufeff${outcomeText('1')}`, 'utf16le');
    if (mark === 0xfeff) body.swap16();
    expect(faultOf(body)).toEqual({
      code: 'invalid_encoding',
      message: 'The body is not UTF-8: it begins with the byte order mark of UTF-16.',
    });
  });
});

describe('a fault [R-314]', () => {
  test.each([
    ['', 'invalid_json'],
    ['{"a":NaN}', 'invalid_json'],
    [`${outcomeText('1')}${outcomeText('1')}`, 'invalid_json'],
    [outcomeText('{"a":1,"a":1}'), 'duplicate_key'],
    [outcomeText('1').replace('"extra"', '"event_id"'), 'duplicate_key'],
    [outcomeText('1').replace('"extra"', String.raw`"event\u005fid"`), 'duplicate_key'],
    ['{"a":1,"a":1}', 'duplicate_key'],
    ['{}', 'validation_failed'],
  ] as const)('of %s is %s', (body, code) => {
    expect(faultOf(body)?.code).toBe(code);
  });

  test('of depth begins one beyond the limit, the event itself counted', () => {
    const deep = (levels: number) => outcomeText(`${'['.repeat(levels)}${']'.repeat(levels)}`);
    expect(faultOf(deep(DEPTH - 1))).toBeUndefined();
    expect(faultOf(deep(DEPTH))).toEqual({ code: 'nesting_too_deep' });
    expect(faultOf(deep(7), 8)).toBeUndefined();
    expect(faultOf(deep(8), 8)).toEqual({ code: 'nesting_too_deep' });
  });

  test('of JSON gives its offset in details', () => {
    expect(faultOf('{"a":1 "b":2}')).toEqual({
      code: 'invalid_json',
      message: 'The body is not JSON: unexpected character at line 1, column 8.',
      details: { offset: 7 },
    });
  });

  test('of the schema lists its issues', () => {
    expect(faultOf(JSON.stringify(sampleEvent('outcome', { event_id: undefined })))).toEqual({
      code: 'validation_failed',
      details: { issues: [{ pointer: '/event_id', rule: 'required', message: 'is required' }] },
    });
  });
});

describe('the result for a valid body', () => {
  test.each([(id: string) => id, (id: string) => id.toUpperCase()])(
    'has its id as 16 bytes, in either case',
    (spelt) => {
      const id = randomUUID();
      expect(Buffer.from(examined(outcomeText('1', spelt(id))).eventId).toString('hex')).toBe(
        id.replaceAll('-', ''),
      );
    },
  );

  test.each(EVENT_KINDS)('has the run that it names: %s [R-203]', (kind) => {
    const run = randomUUID();
    const { runId } = examined(JSON.stringify(sampleEvent(kind, { run_id: run.toUpperCase() })), kind);
    expect(Buffer.from(runId).toString('hex')).toBe(run.replaceAll('-', ''));
  });

  test.each(EVENT_KINDS)('has, without a named run, the run that it opens or none: %s [R-201]', (kind) => {
    const { runId, eventId } = examined(JSON.stringify(sampleEvent(kind)), kind);
    expect(runId).toEqual(kind === 'inference-start' ? eventId : new Uint8Array(16));
  });

  test.each(EVENT_KINDS)('has the parent that it names, or none: %s [R-204]', (kind) => {
    const parent = randomUUID();
    const parentOf = (more: Record<string, unknown>) =>
      Buffer.from(examined(JSON.stringify(sampleEvent(kind, more)), kind).parentId).toString('hex');
    expect(parentOf({ parent_event_id: parent.toUpperCase() })).toBe(parent.replaceAll('-', ''));
    expect([parentOf({}), parentOf({ parent_event_id: null })]).toEqual(['0'.repeat(32), '0'.repeat(32)]);
  });

  test('never has a nested member of the same name', () => {
    const body = outcomeText('{"event_id":"x","run_id":"y"}').replace('{', '{"__proto__":{"run_id":"z"},');
    expect(examined(body).runId).toEqual(new Uint8Array(16));
  });
});

describe('a body of many values [R-314]', () => {
  /** Larger than what is parsed; members among them, so that a name is looked up among many. */
  const MANY = `"many":[${'0,'.repeat(600)}0],${Array.from({ length: 600 }, (_, i) => `"m${i}":{}`).join()}`;
  const withMany = (body: string) => `${body.slice(0, -1)},${MANY}}`;

  /** Sets the field at a pointer; a parent that is not an object becomes one. */
  function set(event: Record<string, unknown>, pointer: string, value: unknown): void {
    const [first = '', second] = pointer.slice(1).split('/');
    if (second === undefined) event[first] = value;
    else event[first] = { ...(event[first] as object), [second]: value };
  }

  const field = fc.tuple(
    fc.constantFrom(...NAMED_FIELDS),
    fc.oneof(
      fc.constantFrom('clinician', 'other', 'text', 'rating', 'unknown', 's3://a/b', '2026-01-01T00:00:00Z'),
      fc.constantFrom(5, 0.5, 2 ** 31, null, true, undefined),
      fc.jsonValue({ maxDepth: 2 }),
    ),
  );

  test('gets the same result as from a check of its whole value', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...EVENT_KINDS),
        fc.constantFrom(...PROFILES),
        fc.array(field, { maxLength: 3 }),
        (kind, profile, fields) => {
          const event = sampleEvent(kind);
          for (const [pointer, value] of fields) set(event, pointer, value);
          const body = withMany(JSON.stringify(event));
          const result = examine(Buffer.from(body), kind, profile, DEPTH);
          const issues = validateEvent(kind, profile, JSON.parse(body));
          expect(isFault(result) ? result.details : undefined).toEqual(issues && { issues });
          if (!isFault(result))
            expect(result).toEqual(examine(Buffer.from(JSON.stringify(event)), kind, profile, DEPTH));
        },
      ),
      { numRuns: runs(1000) },
    );
  });

  test('is not an event when it is not an object', () => {
    for (const body of [`[${'{},'.repeat(1000)}{}]`, ` [${'1,'.repeat(1000)}1]`]) {
      expect(faultOf(body)).toMatchObject({
        code: 'validation_failed',
        details: { issues: [{ pointer: '' }] },
      });
    }
  });

  test('says where its JSON is invalid [R-314]', () => {
    const body = withMany(outcomeText('"😀"'));
    expect(faultOf(`${body}x`)).toMatchObject({ code: 'invalid_json', details: { offset: body.length } });
    const cut = body.slice(0, -1);
    expect(faultOf(cut)).toMatchObject({ code: 'invalid_json', details: { offset: cut.length } });
  });

  test('is refused when a name repeats, in any spelling and place', () => {
    expect(faultOf(withMany(outcomeText('{"a":[{"bé":1,"b\\u00e9":2}]}')))).toEqual({
      code: 'duplicate_key',
    });
    expect(faultOf(withMany(outcomeText('1')).replace('"m599"', String.raw`"\u006d0"`))?.code).toBe(
      'duplicate_key',
    );
    expect(faultOf(withMany(outcomeText('{"a":{"b":1},"b":{"a":1}}')))).toBeUndefined();
  });

  test('is not built: the parser gets no text longer than a field', () => {
    const parse = vi.spyOn(JSON, 'parse');
    onTestFinished(() => parse.mockRestore());
    expect(faultOf(withMany(outcomeText('1')))).toBeUndefined();
    const longest = Math.max(...parse.mock.calls.map(([text]) => text.length));
    expect(longest).toBeGreaterThan(30);
    expect(longest).toBeLessThan(100);
  });
});
