import fc from 'fast-check';
import { renderToString } from 'preact-render-to-string';
import { expect, test } from 'vitest';
import { plot, roundUp, type Step } from '../../../src/operate/console/traffic.js';

function pathOf(steps: readonly Step[], area = false): string | undefined {
  const series = [{ className: 'accepted', area, steps }];
  const html = renderToString(plot({ label: '', series, format: String, least: 10, marked: undefined }));
  return /<path class="accepted" d="([^"]*)"/.exec(html)?.[1];
}

test('a line continues from second to second, and breaks where nothing was measured', () => {
  const steps = [5, 10, null, 0].map((value, i) => ({ ago: 3 - i, seconds: 1, value }));
  expect(pathOf(steps)).toBe('M296 50H297V0H298M299 100H300');
});

test('the scale ends at a round number that is at least any value, and at most twice that', () => {
  expect([2, 2.1, 11, 60, 99, 1204, 0.07].map(roundUp)).toEqual([
    2,
    4,
    20,
    60,
    100,
    2000,
    expect.closeTo(0.08),
  ]);
  fc.assert(
    fc.property(fc.double({ min: 1e-3, max: 1e12, noNaN: true }), (value) => {
      expect(roundUp(value)).toBeGreaterThanOrEqual(value * 0.999_999);
      expect(roundUp(value)).toBeLessThanOrEqual(value * 2.000_001);
    }),
  );
});
