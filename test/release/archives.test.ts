import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { archive, entriesOf } from '../../scripts/release/archives.mjs';

const directory = () => mkdtempSync(path.join(tmpdir(), 'archive-'));
const EPOCH = 1_700_000_000;
const deep = `${'d'.repeat(90)}/${'e'.repeat(90)}`;

/** A directory with files, written in an order and with modes. */
function tree(parent: string, names: readonly string[], mode: number): string {
  for (const name of names) {
    const file = path.join(parent, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, name.repeat(50), { mode: name === 'program' ? mode | 0o100 : mode });
  }
  symlinkSync('x/y', path.join(parent, 'link'));
  return parent;
}

test('[R-2052] tar reads back every entry of an archive, with long names, modes and links', async () => {
  const names = ['program', 'ünïcode', deep];
  const [from, into] = [tree(directory(), names, 0o600), directory()];
  const file = path.join(into, 'archive.tgz');
  await archive(file, entriesOf(from, 'top'), EPOCH);
  execFileSync('tar', ['-xzf', file, '-C', into]);
  const out = path.join(into, 'top');
  for (const name of names) expect(readFileSync(path.join(out, name), 'utf8')).toBe(name.repeat(50));
  expect(readlinkSync(path.join(out, 'link'))).toBe('x/y');
  const modes = ['program', deep].map((name) => statSync(path.join(out, name)).mode & 0o777);
  expect([...modes, statSync(path.join(out, deep)).mtimeMs]).toEqual([0o755, 0o644, EPOCH * 1000]);
});

test('[R-2052] an archive does not depend on the order of its entries or on the files that they come from', async () => {
  const names = ['x', 'program', deep];
  const one = tree(directory(), names, 0o600);
  const two = tree(path.join(directory(), 'a/longer/one'), names.toReversed(), 0o664);
  const bytes = [];
  for (const entries of [entriesOf(one, 'top'), entriesOf(two, 'top').toReversed()]) {
    const file = path.join(directory(), 'archive.tgz');
    await archive(file, entries, EPOCH);
    bytes.push(readFileSync(file));
  }
  expect(bytes[0]?.equals(bytes[1] as Buffer)).toBe(true);
  expect(bytes[0]?.subarray(4, 8)).toEqual(Buffer.alloc(4));
  // The owner of the files is that of the tests.
  const listed = execFileSync('tar', ['-tvz', '--numeric-owner', '-f', '-'], {
    input: bytes[0],
    encoding: 'utf8',
  });
  expect(
    listed
      .trim()
      .split('\n')
      .filter((line) => !/^\S+ 0\/0 /.test(line)),
  ).toEqual([]);
});

test.each([
  ['a repeated name', [{ name: 'a' }, { name: 'b' }, { name: 'a' }], 'a is twice in the archive'],
  ['a name that is too long', [{ name: 'n'.repeat(101) }], 'too long'],
  ['a link that is too long', [{ name: 'n', link: 'l'.repeat(101) }], 'too long'],
])('[R-2052] %s in an archive is an error', async (_, entries, message) => {
  await expect(archive(path.join(directory(), 'archive.tar'), entries, EPOCH)).rejects.toThrow(message);
});
