import { expect, test } from 'vitest';
import { alignedTable, wrappedFor } from '../../src/commands/terminal.js';

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

const LINE = 'forked: this log and /mnt/worm/0000000000000328.checkpoint part in events 309 to 328';

test('a line is wrapped at spaces for a terminal, with the lines below the first indented', () => {
  expect(wrappedFor({ isTTY: true, columns: 40 }, LINE).split('\n')).toEqual([
    'forked: this log and',
    '  /mnt/worm/0000000000000328.checkpoint',
    '  part in events 309 to 328',
  ]);
  // A word that is longer than the terminal is wide stays whole.
  expect(wrappedFor({ isTTY: true, columns: 20 }, LINE).split('\n')).toEqual([
    'forked: this log and',
    '  /mnt/worm/0000000000000328.checkpoint',
    '  part in events 309',
    '  to 328',
  ]);
  expect(wrappedFor({ isTTY: true, columns: 200 }, LINE)).toBe(LINE);
});

test('where no one looks on, or the width is not known, a line stays one', () => {
  expect(wrappedFor({ isTTY: false, columns: 40 }, LINE)).toBe(LINE);
  expect(wrappedFor({ isTTY: true, columns: 0 }, LINE)).toBe(LINE);
  expect(wrappedFor({}, LINE)).toBe(LINE);
});
