/** The list of licences that a release may contain. */
import { expect, test } from 'vitest';
import { isAllowed, licences } from '../../scripts/release/licences.mjs';

test.each([
  ['MIT', true],
  ['(Apache-2.0 AND BSD-3-Clause)', true],
  ['(MIT OR GPL-3.0-only)', true],
  ['MIT AND GPL-3.0-only', false],
  ['AGPL-3.0-only', false],
  ['CC-BY-NC-4.0', false],
  ['SEE LICENSE IN LICENSE.txt', false],
  ['UNLICENSED', false],
  ['', false],
  ['(MIT OR GPL-3.0-only) AND ISC', false],
  ['(MIT) OR (ISC)', false],
])('[R-2054] %j is allowed for a dependency: %s', (expression, allowed) => {
  expect(isAllowed(expression)).toBe(allowed);
});

test('[R-2054] a release with a licence that is not on the list fails, and names the dependency', () => {
  const good = { name: 'a', version: '1.0.0', licenses: [{ license: { id: 'MIT' } }] };
  expect(licences([good, good])).toEqual([{ name: 'a', version: '1.0.0', licence: 'MIT' }]);
  const bad = { name: 'b', version: '2.0.0', licenses: [{ license: { name: 'Proprietary' } }] };
  expect(() => void licences([good, bad])).toThrow('b 2.0.0 (Proprietary)');
  expect(() => void licences([{ name: 'c', version: '3.0.0' }])).toThrow('c 3.0.0 (none)');
});
