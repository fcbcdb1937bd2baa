/** Compares docs/SPEC.md with the titles of the tests. */
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '..');

function testFiles(directory: string): string[] {
  return fs.readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    if (entry.name === 'node_modules' || entry.name === 'dist') return [];
    const file = path.join(directory, entry.name);
    if (entry.isDirectory()) return testFiles(file);
    return /\.test\.ts$|^test_\w+\.py$/.test(entry.name) ? [file] : [];
  });
}

const [spec = '', unused = ''] = fs
  .readFileSync(path.join(ROOT, 'docs/SPEC.md'), 'utf8')
  .split('## Numbers that are no longer used');
const required = [...spec.matchAll(/^- \*\*(R-\d{3,4})\*\*/gm)].map(([, id = '']) => id);
const included = [...unused.matchAll(/^\| (R-\d{3,4}) +\| ((?:R-\d{3,4}(?:, )?)+) *\|$/gm)];
const gone = [
  ...included.flatMap(([, , ids = '']) => ids.trim().split(', ')),
  ...[...unused.matchAll(/^\| (R-\d{3,4}) +\| [^R]/gm)].map(([, id = '']) => id),
];
const named = new Map<string, string[]>();
for (const file of ['packages', 'tools', 'test', 'clients'].flatMap((name) =>
  testFiles(path.join(ROOT, name)),
)) {
  if (file === import.meta.filename) continue;
  const code = fs.readFileSync(file, 'utf8').replace(/^\s*(\/\/|\/?\*).*$/gm, '');
  if (/\b(test|it|describe)\.(skip|todo|only)\b/.test(code)) throw new Error(`${file} skips a test`);
  for (const [, id = ''] of code.matchAll(/\[(R-\d{3,4})\]/g)) {
    named.set(id, [...(named.get(id) ?? []), path.relative(ROOT, file)]);
  }
}

test('each number is used once', () => {
  expect(required.length).toBeGreaterThan(100);
  expect(gone.length).toBeGreaterThan(300);
  expect(new Set([...required, ...gone]).size).toBe(required.length + gone.length);
  expect(included.filter(([, id = '']) => !required.includes(id))).toEqual([]);
});

test('every requirement of docs/SPEC.md is named by a test', () => {
  expect(required.filter((id) => !named.has(id))).toEqual([]);
});

test('no test names a requirement that is not in docs/SPEC.md', () => {
  expect([...named].filter(([id]) => !required.includes(id))).toEqual([]);
});
