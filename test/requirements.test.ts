/** Holds docs/SPEC.md and the tests against each other. */
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

const spec = fs.readFileSync(path.join(ROOT, 'docs/SPEC.md'), 'utf8');
const required = [...spec.matchAll(/^- \*\*(R-\d{3,4})\*\*/gm)].map((match) => match[1]);
const erased = [...spec.matchAll(/^\| (R-\d{3,4}) /gm)].map((match) => match[1]);
const named = new Map<string, string[]>();
for (const file of ['packages', 'tools', 'test', 'clients'].flatMap((name) =>
  testFiles(path.join(ROOT, name)),
)) {
  if (file === import.meta.filename) continue;
  const code = fs.readFileSync(file, 'utf8').replace(/^\s*(\/\/|\/?\*).*$/gm, '');
  if (/\b(test|it|describe)\.(skip|todo|only)\b/.test(code)) throw new Error(`${file} skips a test`);
  for (const [, id] of code.matchAll(/\[(R-\d{3,4})\]/g)) {
    named.set(id as string, [...(named.get(id as string) ?? []), path.relative(ROOT, file)]);
  }
}

test('the requirements are numbered once each', () => {
  expect(required.length).toBeGreaterThan(60);
  expect(new Set(required).size).toBe(required.length);
  expect(new Set([...required, ...erased]).size).toBe(required.length + erased.length);
});

test('every requirement of docs/SPEC.md is named by a test', () => {
  expect(required.filter((id) => !named.has(id as string))).toEqual([]);
});

test('no test names a requirement that is not in docs/SPEC.md', () => {
  expect([...named].filter(([id]) => !required.includes(id))).toEqual([]);
});
