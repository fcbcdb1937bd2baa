import fc from 'fast-check';
import { expect, test } from 'vitest';
import { hourOfWeek, nextOfficeHour, spread, workingWeek } from '../src/random.js';

const HOUR = 3_600_000;
const OFFICE = workingWeek((hour) => (hour >= 8 && hour < 17 ? 10 : 0), 0);

test('the week begins on Monday at midnight, an hour ahead of UTC', () => {
  expect(hourOfWeek(Date.parse('2026-11-15T23:00:00Z'))).toBe(0);
  expect(hourOfWeek(Date.parse('2026-11-20T11:59:59Z'))).toBe(4 * 24 + 12);
});

test('episodes lie within the period, each not before the one before it', () => {
  const week = fc.array(fc.nat(5), { minLength: 168, maxLength: 168 });
  fc.assert(
    fc.property(
      week,
      fc.nat(4e12),
      fc.integer({ min: 1, max: 1e9 }),
      fc.integer({ min: 1, max: 50 }),
      (...given) => {
        const [busy, since, length, episodes] = given;
        const startOf = spread(busy, { since, until: since + length }, episodes);
        let before = since;
        for (let number = 0; number < episodes; number++) {
          for (const shift of [0, 0.999_999]) {
            const at = startOf(number, shift);
            expect(at).toBeGreaterThanOrEqual(before);
            expect(at).toBeLessThan(since + length);
            before = at;
          }
        }
      },
    ),
  );
});

test('more happens where the week is busier', () => {
  const since = Date.parse('2026-11-01T00:00:00Z');
  const startOf = spread(OFFICE, { since, until: since + 28 * 24 * HOUR }, 1000);
  for (let number = 0; number < 1000; number++) {
    const hour = hourOfWeek(startOf(number, 0.5));
    expect(hour).toBeLessThan(5 * 24);
    expect(hour % 24).toBeGreaterThanOrEqual(8);
    expect(hour % 24).toBeLessThan(17);
  }
});

test('appointments are on quarters of office hours, and not put off longer than needed', () => {
  fc.assert(
    fc.property(fc.nat(4e12), (at) => {
      const appointment = nextOfficeHour(at);
      expect(appointment % (HOUR / 4)).toBe(0);
      expect(appointment).toBeGreaterThanOrEqual(at);
      expect(appointment - at).toBeLessThan(64 * HOUR);
      const hour = hourOfWeek(appointment);
      expect(hour < 120 && hour % 24 >= 8 && hour % 24 < 17).toBe(true);
    }),
  );
});
