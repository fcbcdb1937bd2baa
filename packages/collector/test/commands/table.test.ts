import { expect, test } from 'vitest';
import { alignedTable } from '../../src/commands/terminal.js';

test('on a terminal the last column is wrapped within itself, or where it has no room below the line', () => {
  const rows = [
    ['CHECKED', 'FOUND'],
    ['sink', 'checkpoints stay on this host, unseen'],
  ];
  expect(alignedTable(rows, { isTTY: true, columns: 33 }).split('\n').slice(1, -1)).toEqual([
    'sink     checkpoints stay on this',
    '         host, unseen',
  ]);
  expect(alignedTable(rows, { isTTY: true, columns: 30 }).split('\n').slice(1, -1)).toEqual([
    'sink     checkpoints stay on',
    '    this host, unseen',
  ]);
  expect(alignedTable(rows, { isTTY: false, columns: 30 })).toContain('on this host, unseen\n');
});

test('columns are as wide as their widest cell, and no line ends in spaces', () => {
  expect(
    alignedTable([
      ['A', 'LONG', 'C'],
      ['long', 'x', ''],
      ['', '', 'z'],
    ]),
  ).toBe('A     LONG  C\nlong  x\n            z\n');
});
