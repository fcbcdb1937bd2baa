import { expect, test, vi } from 'vitest';
import { alignedTable, asTable, giveRows, wrappedFor } from '../../src/commands/terminal.js';

test('a table that is too wide gets narrower columns, and then leaves one out', () => {
  const rows = [
    ['RUN', 'MODEL', 'USER'],
    ['0b2c5a3e', 'sepsis-abstractor@3.0', 'nurse-0004'],
  ];
  const columns = [{}, { least: 8 }, { least: 6, leftOut: 1 }];
  const tableIn = (width: number) => alignedTable(rows, { isTTY: true, columns: width }, columns);
  expect(tableIn(45)).toContain('0b2c5a3e  sepsis-abstractor@3.0  nurse-0004\n');
  expect(tableIn(30)).toBe('RUN       MODEL      USER\n0b2c5a3e  sepsis-a…  nurse-00…\n');
  expect(tableIn(20)).toBe('RUN       MODEL\n0b2c5a3e  sepsis-ab…\n');
  expect(alignedTable(rows, { columns: 20 }, columns)).toBe(tableIn(45));
});

test('an answer in blocks has one heading, and ends at its limit', async () => {
  const texts: string[] = [];
  const write = vi.spyOn(process.stdout, 'write').mockImplementation((text) => texts.push(String(text)) > 0);
  function* numbers() {
    for (let number = 0; ; number++) yield number;
  }
  const onBlock = vi.fn();
  const framing = asTable((rows: readonly number[]) =>
    alignedTable([['N'], ...rows.map((n) => [String(n)])]),
  );
  try {
    expect(await giveRows(numbers(), { framing, limit: 2500, onBlock })).toBe(2500);
  } finally {
    write.mockRestore();
  }
  expect(texts.join('')).toBe(`N\n${Array.from({ length: 2500 }, (_, n) => `${n}\n`).join('')}`);
  expect(onBlock.mock.calls.map(([rows]) => (rows as number[]).length)).toEqual([1000, 1000, 500]);
});

const LINE = 'forked: this log and /mnt/worm/0000000000000328.checkpoint part in events 309 to 328';

test('a line is wrapped at spaces for a terminal, with the lines below the first indented', () => {
  expect(wrappedFor({ isTTY: true, columns: 40 }, LINE).split('\n')).toEqual([
    'forked: this log and',
    '  /mnt/worm/0000000000000328.checkpoint',
    '  part in events 309 to 328',
  ]);
  expect(wrappedFor({ isTTY: true, columns: 200 }, LINE)).toBe(LINE);
});

test('a line is not wrapped outside of a terminal', () => {
  expect(wrappedFor({ isTTY: false, columns: 40 }, LINE)).toBe(LINE);
});
