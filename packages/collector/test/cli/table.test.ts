import { expect, test } from 'vitest';
import { alignedTable } from '../../src/cli/table.js';

test('columns are as wide as their widest cell, and no line ends in spaces', () => {
  expect(
    alignedTable([
      ['A', 'LONG', 'C'],
      ['long', 'x', ''],
      ['', '', 'z'],
    ]),
  ).toBe('A     LONG  C\nlong  x\n            z\n');
});
