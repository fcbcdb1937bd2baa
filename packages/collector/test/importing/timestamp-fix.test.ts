import { describe, expect, test } from 'vitest';
import { fixTimestamps, Zone } from '../../src/importing/timestamp-fix.js';
import { examine, isFault } from '../../src/ledger/examine.js';

const ID = '6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10';

function fixed(text: string, zone = 'Europe/Berlin'): string | undefined {
  return fixTimestamps(text, 'outcome', new Zone(zone));
}

function outcome(timestamp: string, more = '"outcome":{}'): string {
  return `{"event_id":"${ID}","timestamp":${timestamp},"protocol_version":"0.0.1","system_metadata":{},${more}}`;
}

describe('fixing timestamps [R-714]', () => {
  test('gives them the offset of the zone, records the original, and changes no other byte', () => {
    const text =
      `\t{ "event_id" : "${ID}",\r\n "score": 0.10, "big": 12345678901234567890, "n": 1e400,\n` +
      ' "time\\u0073tamp" : "2026-01-01T10:00:00" , "protocol_version":"\\u0030", "system_metadata":{}, "outcome":{"é":"\\u00e9"} } ';
    expect(fixed(text)).toBe(
      `\t{ "event_id" : "${ID}",\r\n "score": 0.10, "big": 12345678901234567890, "n": 1e400,\n` +
        ' "time\\u0073tamp" : "2026-01-01T10:00:00+01:00" , "protocol_version":"\\u0030", "system_metadata":{}, ' +
        '"outcome":{"é":"\\u00e9"} ,"import_fixes":[{"pointer":"/timestamp","original":"2026-01-01T10:00:00",' +
        '"zone":"Europe/Berlin"}]} ',
    );
  });

  test.each([
    ['"2026-07-01T10:00:00.123456789"', '"2026-07-01T10:00:00.123456789+02:00"'],
    ['"2026-07-01 10:00:00"', '"2026-07-01T10:00:00+02:00"'],
    ['"2026-07-01t10:00:00"', '"2026-07-01T10:00:00+02:00"'],
    ['"2026-07-01T10\\u003a00:00"', '"2026-07-01T10:00:00+02:00"'],
  ])('reads %s', (timestamp, expected) => {
    expect(fixed(outcome(timestamp))).toContain(`"timestamp":${expected},`);
  });

  test('says where clocks were changed', () => {
    expect(JSON.parse(fixed(outcome('"2026-10-25T02:30:00"')) ?? '')).toMatchObject({
      timestamp: '2026-10-25T02:30:00+02:00',
      import_fixes: [{ original: '2026-10-25T02:30:00', clock_change: 'overlap' }],
    });
    expect(JSON.parse(fixed(outcome('"2026-03-29T02:30:00"')) ?? '')).toMatchObject({
      timestamp: '2026-03-29T02:30:00+01:00',
      import_fixes: [{ original: '2026-03-29T02:30:00', clock_change: 'gap' }],
    });
  });

  test('also fixes occurred_at of an outcome', () => {
    const body = '"outcome":{"outcome_type":"validated","occurred_at":"2026-01-02T03:04:05"}';
    const both = fixed(outcome('"2026-07-01T10:00:00"', body));
    expect(JSON.parse(both ?? '')).toMatchObject({
      timestamp: '2026-07-01T10:00:00+02:00',
      outcome: { occurred_at: '2026-01-02T03:04:05+01:00' },
      import_fixes: [
        { pointer: '/timestamp', original: '2026-07-01T10:00:00', zone: 'Europe/Berlin' },
        { pointer: '/outcome/occurred_at', original: '2026-01-02T03:04:05', zone: 'Europe/Berlin' },
      ],
    });
    const one = fixed(outcome('"2026-07-01T10:00:00Z"', body));
    expect(JSON.parse(one ?? '')).toMatchObject({
      timestamp: '2026-07-01T10:00:00Z',
      import_fixes: [{ pointer: '/outcome/occurred_at' }],
    });
  });

  test('finds the members that JSON readers find, and not those in nested objects or strings', () => {
    const text = outcome(
      '"2026-01-01T10:00:00"',
      '"outcome":{"timestamp":"2026-01-01T10:00:00","x":"\\"timestamp\\":1"}',
    );
    const event = JSON.parse(fixed(text, '-03:00') ?? '') as Record<string, unknown>;
    expect(event).toMatchObject({
      timestamp: '2026-01-01T10:00:00-03:00',
      outcome: { timestamp: '2026-01-01T10:00:00', x: '"timestamp":1' },
    });
  });

  test.each([
    ['it is not a date-time', outcome('"yesterday"')],
    ['it is a date', outcome('"2026-01-01"')],
    ['it has no seconds', outcome('"2026-01-01T10:00"')],
    ['it has an invalid offset', outcome('"2026-01-01T10:00:00+1"')],
    ['it is a number', outcome('1767261600')],
    ['it is missing', outcome('null').replace('"timestamp":null,', '')],
    ['something else is invalid', outcome('"2026-01-01T10:00:00Z"', '"outcome":1')],
    ['the text is not JSON', '{"timestamp":"2026-01-01T10:00:00"'],
    ['the text is not an object', '["2026-01-01T10:00:00"]'],
    [
      'the event already has import_fixes',
      outcome('"2026-01-01T10:00:00"', '"import_fixes":[],"outcome":{}'),
    ],
    ['the zone had an offset with seconds at the time', outcome('"1880-01-01T10:00:00"')],
  ])('leaves an event unchanged when %s', (_what, text) => {
    expect(fixed(text)).toBeUndefined();
  });

  test('does not make a faulty day valid', () => {
    const text = fixed(outcome('"2026-02-30T10:00:00"')) ?? '';
    expect(isFault(examine(Buffer.from(text), 'outcome', 'minimum', 64))).toBe(true);
  });
});

function offsetAt(zone: string, local: string): string | undefined {
  const offset = new Zone(zone).offsetOf(Date.parse(`${local}Z`));
  if (offset === undefined) return undefined;
  return offset.clockChange === undefined ? offset.text : `${offset.text} ${offset.clockChange}`;
}

describe('the offset of a local time [R-714]', () => {
  test.each([
    ['+01:00', '2026-07-01T12:00', '+01:00'],
    ['-09:30', '2026-07-01T12:00', '-09:30'],
    ['Z', '2026-07-01T12:00', 'Z'],
    ['UTC', '2026-07-01T12:00', '+00:00'],
    ['Europe/Berlin', '2026-01-01T12:00', '+01:00'],
    ['Europe/Berlin', '2026-07-01T12:00', '+02:00'],
    ['America/New_York', '2026-07-01T12:00', '-04:00'],
    ['Asia/Kolkata', '2026-07-01T12:00', '+05:30'],
    // Clocks there change by half an hour.
    ['Australia/Lord_Howe', '2026-01-01T12:00', '+11:00'],
    ['Australia/Lord_Howe', '2026-07-01T12:00', '+10:30'],
  ])('in %s at %s is %s', (zone, local, offset) => {
    expect(offsetAt(zone, local)).toBe(offset);
  });

  test.each([
    ['Europe/Berlin', '2026-10-25T01:59', '+02:00'],
    ['Europe/Berlin', '2026-10-25T02:00', '+02:00 overlap'],
    ['Europe/Berlin', '2026-10-25T02:59', '+02:00 overlap'],
    ['Europe/Berlin', '2026-10-25T03:00', '+01:00'],
    ['America/New_York', '2026-11-01T01:30', '-04:00 overlap'],
    ['Australia/Lord_Howe', '2026-04-05T01:45', '+11:00 overlap'],
  ])('that occurred twice is that of the first time: %s at %s', (zone, local, offset) => {
    expect(offsetAt(zone, local)).toBe(offset);
  });

  test.each([
    ['Europe/Berlin', '2026-03-29T01:59', '+01:00'],
    ['Europe/Berlin', '2026-03-29T02:00', '+01:00 gap'],
    ['Europe/Berlin', '2026-03-29T02:59', '+01:00 gap'],
    ['Europe/Berlin', '2026-03-29T03:00', '+02:00'],
    ['America/New_York', '2026-03-08T02:30', '-05:00 gap'],
    // 30 December 2011 did not happen there.
    ['Pacific/Apia', '2011-12-30T12:00', '-10:00 gap'],
    ['Pacific/Apia', '2011-12-31T00:00', '+14:00'],
  ])('that never occurred is that before the change: %s at %s', (zone, local, offset) => {
    expect(offsetAt(zone, local)).toBe(offset);
  });

  test('is unknown where it was not a number of whole minutes', () => {
    expect(offsetAt('Europe/Berlin', '1880-01-01T12:00')).toBeUndefined();
  });

  test('is the same for a repeated query', () => {
    const zone = new Zone('Europe/Berlin');
    const overlap = Date.parse('2026-10-25T02:30Z');
    expect(zone.offsetOf(overlap)).toEqual(zone.offsetOf(overlap));
  });

  test.each(['', '+1', '+0100', '+24:00', '+01:60', 'Berlin', 'Europe/Atlantis', '01:00', 'Z '])(
    'is not available for %j, which is not a zone',
    (name) => {
      expect(() => new Zone(name)).toThrow(RangeError);
    },
  );
});
