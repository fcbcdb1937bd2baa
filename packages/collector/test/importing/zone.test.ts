import { describe, expect, test } from 'vitest';
import { Zone } from '../../src/importing/zone.js';

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
    // The clocks there are changed by half an hour.
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
  ])('that came twice is the one of the first time: %s at %s', (zone, local, offset) => {
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
  ])('that never came is the one before the change: %s at %s', (zone, local, offset) => {
    expect(offsetAt(zone, local)).toBe(offset);
  });

  test('is not known where it was not one of whole minutes', () => {
    expect(offsetAt('Europe/Berlin', '1880-01-01T12:00')).toBeUndefined();
  });

  test('is the same whether it was asked for before or not', () => {
    const zone = new Zone('Europe/Berlin');
    const overlap = Date.parse('2026-10-25T02:30Z');
    expect(zone.offsetOf(overlap)).toEqual(zone.offsetOf(overlap));
  });

  test.each(['', '+1', '+0100', '+24:00', '+01:60', 'Berlin', 'Europe/Atlantis', '01:00', 'Z '])(
    'is not to be had of %j, which is no zone',
    (name) => {
      expect(() => new Zone(name)).toThrow(RangeError);
    },
  );
});
