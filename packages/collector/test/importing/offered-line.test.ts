import { hash, randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readLine, uuidIn, type LineRules, type Stated } from '../../src/importing/offered-line.js';
import { uuidText } from '../../src/store/text.js';
import { outcomeText, sampleEvent } from '../running/sample-events.js';

const NOTHING: Stated = { kind: undefined, organisation: undefined, profile: undefined };

function read(line: string | Buffer, stated: Partial<Stated> = {}) {
  const rules: LineRules = {
    stated: { ...NOTHING, ...stated },
    ...{ organisation: 'default', profile: 'minimum', maxDepth: 64 },
  };
  const result = readLine(Buffer.from(line as Buffer), rules);
  if ('code' in result) return result;
  const { body, ...rest } = result;
  return { ...rest, body: body.toString() };
}

function issueIn(line: string): unknown {
  const result = read(line);
  if (!('code' in result)) throw new Error('it is not refused');
  expect(result.code).toBe('wrapper_invalid');
  const issues = result.details?.['issues'] as { pointer: string; rule: string }[];
  expect(issues).toHaveLength(1);
  return `${issues[0]?.pointer} ${issues[0]?.rule}`;
}

const ID = randomUUID();
const TEXT = ` {"event_id" : "${ID}", "a":1.0,"é":"\\u00e9"}`;

/** As `collector events` prints it. */
const PRINTED = {
  ...{ sequence: 7, received_at: '2026-01-01T00:00:00.000Z', kind: 'user-feedback', profile: 'full' },
  ...{ organisation: 'ward', key_id: 'abcdefghij23', event_id: ID, run_id: null },
  ...{ sha256: hash('sha256', TEXT, 'hex'), body: TEXT },
};

describe('a line of an import [R-714]', () => {
  test('is the event itself, of the kind that was stated', () => {
    expect(read(TEXT, { kind: 'outcome' })).toEqual({
      ...{ kind: 'outcome', organisation: 'default', profile: 'minimum', body: TEXT, eventId: undefined },
    });
    expect(read(TEXT, { kind: 'outcome', organisation: 'icu', profile: 'full' })).toMatchObject({
      ...{ organisation: 'icu', profile: 'full' },
    });
  });

  test('is one that collector events prints, and says itself what it is', () => {
    expect(read(JSON.stringify(PRINTED))).toEqual({
      ...{ kind: 'user-feedback', organisation: 'ward', profile: 'full', body: TEXT, eventId: undefined },
    });
  });

  test('is less trusted than what the operator has stated', () => {
    const stated = { kind: 'outcome', organisation: 'icu', profile: 'minimum' } as const;
    expect(read(JSON.stringify(PRINTED), stated)).toMatchObject(stated);
  });

  test('wraps the event itself, whose text is taken as it stands there', () => {
    const line = `{"event" : ${TEXT} ,"kind":"outcome","organisation":"icu"}`;
    expect(read(line)).toMatchObject({ kind: 'outcome', organisation: 'icu', body: TEXT.trim() });
    const named = { event_id: ID.toUpperCase() };
    expect(read(`${line.slice(0, -1)},${JSON.stringify(named).slice(1)}`)).toMatchObject({ eventId: ID });
    const hashed = { sha256: hash('sha256', TEXT.trim(), 'hex').toUpperCase() };
    expect(read(`${line.slice(0, -1)},${JSON.stringify(hashed).slice(1)}`)).toMatchObject({
      body: TEXT.trim(),
    });
  });

  test('needs no more than a kind and a body', () => {
    expect(read(JSON.stringify({ kind: 'outcome', body: TEXT }))).toMatchObject({ organisation: 'default' });
    expect(read(JSON.stringify({ body: TEXT }), { kind: 'outcome' })).toMatchObject({ kind: 'outcome' });
    const nulls = { kind: 'outcome', organisation: null, profile: null, sha256: null, event_id: null };
    expect(read(JSON.stringify({ ...nulls, body: TEXT }))).toMatchObject({ eventId: undefined });
  });

  test('is not taken for a wrapper when it is an event, whatever fields that has', () => {
    for (const more of [{ body: 'text' }, { event: {} }, { kind: 'outcome', body: '{}' }]) {
      const text = JSON.stringify(sampleEvent('outcome', more));
      expect(read(text, { kind: 'outcome' })).toMatchObject({ body: text });
    }
    const inside = JSON.stringify(sampleEvent('outcome', { note: { body: '{}', event: {} } }));
    expect(read(inside, { kind: 'outcome' })).toMatchObject({ body: inside });
  });

  test('is not changed by being taken out of its wrapper', () => {
    const texts = [
      outcomeText('"\u2028\u007f\u{1f469}\\ud83d\\udc69"'),
      outcomeText('1.0e+00'),
      '\ufeff{}',
      '{\n}\r\n',
    ];
    for (const text of texts) {
      expect(
        read(JSON.stringify({ ...PRINTED, body: text, sha256: hash('sha256', text, 'hex') })),
      ).toMatchObject({
        body: text,
      });
    }
  });

  test('has to say of which kind it is, where nobody else has', () => {
    expect(read(TEXT)).toEqual({ code: 'kind_missing', eventId: ID });
    expect(read(outcomeText('1', 'MRN 4711'))).toEqual({ code: 'kind_missing', eventId: undefined });
    expect(issueIn(JSON.stringify({ body: TEXT }))).toBe('/kind required');
  });

  test('is told to be no JSON rather than to have no kind', () => {
    expect(read('{"event_id":')).toMatchObject({ code: 'invalid_json' });
    expect(read(Buffer.from([0x7b, 0xff]))).toEqual({ code: 'invalid_encoding' });
    expect(read('{"a":1,"a":2}')).toEqual({ code: 'duplicate_key' });
    expect(read('['.repeat(100))).toEqual({ code: 'nesting_too_deep' });
    expect(read(JSON.stringify(PRINTED).slice(0, -20))).toMatchObject({ code: 'invalid_json' });
  });

  test.each([
    [{ kind: 'Outcome' }, '/kind enum'],
    [{ kind: 5 }, '/kind type'],
    [{ organisation: 'a ward' }, '/organisation pattern'],
    [{ organisation: '' }, '/organisation pattern'],
    [{ organisation: ['ward'] }, '/organisation type'],
    [{ profile: 'FULL' }, '/profile enum'],
    [{ body: { event_id: ID } }, '/body type'],
    [{ event: {} }, '/event not'],
    [{ sha256: 5 }, '/sha256 type'],
    [{ event_id: 'MRN 4711', sha256: null }, '/event_id format'],
    [{ event_id: 5, sha256: null }, '/event_id type'],
    // Of an event that was erased or encrypted, which can be read no more.
    [{ body: null, sha256: null, payload_state: 'retired' }, '/body required'],
  ])('is refused with %j around its body', (more, issue) => {
    expect(issueIn(JSON.stringify({ ...PRINTED, ...more }))).toBe(issue);
  });

  test.each(['[]', '"{}"', '5', 'null'])('is refused when its event is %s', (event) => {
    expect(issueIn(`{"kind":"outcome","event":${event}}`)).toBe('/event type');
  });

  test('is refused when its body is not the one that was hashed', () => {
    const line = JSON.stringify({ ...PRINTED, body: TEXT.replace('1.0', '1.1') });
    expect(read(line)).toEqual({ code: 'sha256_mismatch', eventId: ID });
  });

  test('is refused when its body holds half a character, which no text of UTF-8 can', () => {
    const line = '{"kind":"outcome","body":"{\\"a\\":\\"\\ud83d\\"}"}';
    expect(read(line)).toEqual({ code: 'invalid_encoding', eventId: undefined });
  });

  test('is read alike whether its body stands last or not', () => {
    const { body, ...before } = PRINTED;
    const names = fc.subarray(Object.keys(before));
    const bodies = fc.constantFrom(body, '', '"', ',"body":"x"', '"}', '\\"}', '{"body":"\\\\"}');
    fc.assert(
      fc.property(names, bodies, (kept, text) => {
        const some = Object.fromEntries(Object.entries(before).filter(([name]) => kept.includes(name)));
        const sha256 = hash('sha256', text, 'hex');
        const last = read(JSON.stringify({ ...some, sha256, body: text }));
        expect(read(JSON.stringify({ body: text, ...some, sha256 }))).toEqual(last);
        if (kept.includes('kind')) expect(last).toMatchObject({ body: text });
      }),
    );
  });

  test.each([
    '{"kind":"outcome","body":"{}","body":"[]"}',
    '{"kind":"outcome","body":"{}","kind":"outcome"}',
    '{"kind":"outcome","kind":"user-feedback","body":"{}"}',
    '{"body":"{}","kind":"outcome","body":"[]"}',
  ])('is refused when it names something twice: %s', (line) => {
    expect(read(line)).toEqual({ code: 'duplicate_key' });
  });

  test.each([
    ['{"a":{"b":1,"body":"{}"}', 'invalid_json'],
    ['{"kind":"outcome","body":"{}"x"}', 'invalid_json'],
    ['{"kind":"outcome","body":"{}\\"}', 'invalid_json'],
    ['["kind","body":"{}"}', 'invalid_json'],
    ['{"a":{"b":1,"body":"{}"}}', 'kind_missing'],
  ])('is not taken for a wrapper by its looks: %s', (line, code) => {
    expect(read(line)).toMatchObject({ code });
  });

  test('never shows a value in what is said of it', () => {
    const lines = [
      JSON.stringify({ ...PRINTED, kind: 'MRN 4711' }),
      JSON.stringify({ ...PRINTED, organisation: 'MRN 4711' }),
      JSON.stringify({ ...PRINTED, event_id: 'MRN 4711' }),
      '{"MRN 4711":',
    ];
    for (const line of lines) expect(JSON.stringify(read(line))).not.toContain('MRN 4711');
  });
});

test('an id is shown only when it is one', () => {
  expect(uuidIn({ event_id: ID.toUpperCase() })).toBe(ID);
  for (const value of [{ event_id: 'MRN 4711' }, { event_id: 5 }, {}, [ID], null, ID]) {
    expect(uuidIn(value)).toBeUndefined();
  }
  expect(uuidText(Buffer.from(ID.replaceAll('-', ''), 'hex'))).toBe(ID);
});
