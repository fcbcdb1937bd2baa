import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { entriesOf, tar, tarGz } from '../../scripts/release/archives.mjs';

const directory = () => mkdtempSync(path.join(tmpdir(), 'archive-'));
const long = `${'deep/'.repeat(30)}${'name'.repeat(40)}.txt`;
const ENTRIES = [
  { name: 'b/text', data: 'text' },
  { name: 'a/', mode: 0o755 },
  { name: 'a/program', mode: 0o755, data: Buffer.alloc(1000, 7) },
  { name: long, data: 'ünïcode' },
  { name: `${'d'.repeat(90)}/${'e'.repeat(90)}`, data: 'in the prefix' },
  { name: 'link', link: `a/${'x'.repeat(120)}` },
];

test('[R-2052] tar reads back every entry of an archive, with long names, modes and links', async () => {
  const into = directory();
  const file = path.join(into, 'archive.tgz');
  await tarGz(file, ENTRIES, { epoch: 1_700_000_000 });
  mkdirSync(path.join(into, 'out'));
  execFileSync('tar', ['-xzf', file, '-C', path.join(into, 'out')]);
  const read = (name: string) => readFileSync(path.join(into, 'out', name), 'utf8');
  expect(read('b/text')).toBe('text');
  expect(read(long)).toBe('ünïcode');
  expect(read(`${'d'.repeat(90)}/${'e'.repeat(90)}`)).toBe('in the prefix');
  expect(readlinkSync(path.join(into, 'out/link'))).toBe(`a/${'x'.repeat(120)}`);
  const program = statSync(path.join(into, 'out/a/program'));
  expect([program.mode & 0o777, program.size, program.mtimeMs]).toEqual([0o755, 1000, 1_700_000_000_000]);
});

test('[R-2052] an archive does not depend on the order of its entries or on the files that they come from', async () => {
  const [one, two] = [directory(), path.join(directory(), 'a/longer/one')];
  mkdirSync(path.join(one, 'tree'), { recursive: true });
  mkdirSync(path.join(two, 'tree'), { recursive: true });
  for (const name of ['x', 'y']) writeFileSync(path.join(one, 'tree', name), name, { mode: 0o600 });
  for (const name of ['y', 'x']) writeFileSync(path.join(two, 'tree', name), name, { mode: 0o664 });
  const bytes = [];
  for (const [at, entries] of [
    [one, ENTRIES],
    [two, ENTRIES.toReversed()],
  ] as const) {
    const file = path.join(at, 'archive.tgz');
    await tarGz(file, [...entries, ...entriesOf(path.join(at, 'tree'), 'tree')]);
    bytes.push(readFileSync(file));
  }
  expect(bytes[0]?.equals(bytes[1] as Buffer)).toBe(true);
  expect(bytes[0]?.subarray(4, 8)).toEqual(Buffer.alloc(4));
});

test('[R-2052] a name that is twice in an archive is an error', async () => {
  const file = path.join(directory(), 'archive.tar');
  const twice = [
    { name: 'a', data: '' },
    { name: 'b', data: '' },
    { name: 'a', data: '' },
  ];
  await expect(tar(file, twice)).rejects.toThrow('a is twice in the archive');
});
