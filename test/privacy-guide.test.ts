/** Compares the guide for privacy officers with the program. */
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { parsePolicy } from '../packages/collector/src/privacy/retention-policy.js';

const ROOT = path.resolve(import.meta.dirname, '..');
const textOf = (file: string) => fs.readFileSync(path.join(ROOT, file), 'utf8');
const GUIDE = 'docs/guide/privacy';
const PAGES = fs.readdirSync(path.join(ROOT, GUIDE)).filter((name) => name.endsWith('.md'));

/** By the words of a command, its options; of a group, none. The page is generated (R-1240). */
const commands = new Map<string, Set<string>>();
for (const part of textOf('docs/reference/cli.md')
  .split(/^#{2,5} collector /m)
  .slice(1)) {
  const [name = ''] = part.split('\n');
  commands.set(
    name,
    new Set([...part.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, option = '']) => option)),
  );
}

/** Lines of code and code within a line that begin with a command of the program. */
function* commandLines(text: string): Generator<string[]> {
  for (const [, block, inline] of text.matchAll(/^(?: {4}|\t| {7})(.+)$|`([^`]+)`/gm)) {
    const line = (block ?? inline ?? '').replace(/\s+#.*/, '');
    for (const each of line.split(/ (?:>|&&|\|) /))
      yield each
        .trim()
        .replace(/^(sudo -u \w+ )?(\.\/)?collector /, '')
        .split(/\s+/);
  }
}

test.each(PAGES)('[R-1530] every command that %s names is one of the program, with its options', (page) => {
  for (const words of commandLines(textOf(path.join(GUIDE, page)))) {
    const [first = ''] = words;
    if (!commands.has(first)) {
      expect(words.join(' ')).not.toMatch(/^collector /);
      continue;
    }
    let name = first;
    for (const word of words.slice(1)) if (commands.has(`${name} ${word}`)) name += ` ${word}`;
    for (const option of words.filter((word) => word.startsWith('--')))
      expect([...(commands.get(name) ?? [])], words.join(' ')).toContain(option.replace(/[=,].*/, ''));
  }
});

test('[R-1531] the example policy can be set, and its floor outlasts ten years from the end of a treatment of three', () => {
  const [, json = ''] =
    /^( {4}\{\n(?: {4}.*\n)+? {4}\}\n)/m.exec(textOf(`${GUIDE}/retention-concept.md`)) ?? [];
  const policy = parsePolicy(json);
  const received = Date.UTC(2026, 0, 31);
  expect(policy.heldBy({ organisation: 'icu' }, received, Date.UTC(2039, 0, 30))?.id).toBe('record');
});

test('[R-1532] every letter ends with complaint, court and data protection officer, and no page promises what copies of keys deny', () => {
  const [, letters = ''] = textOf(`${GUIDE}/erasure-request.md`).split('## Letters');
  const [closing = '', ...others] = letters.trim().split('\n\n');
  for (const right of ['supervisory authority', 'judicial remedy', 'data protection officer'])
    expect(closing).toContain(right);
  expect(others).toHaveLength(5);
  for (const letter of others) expect(letter).toMatch(/_Closing paragraph\._$/);
  for (const page of PAGES)
    expect(textOf(path.join(GUIDE, page))).not.toMatch(/no longer be read|by anyone|for ever gone/);
});
