/** Compares the commands of all guides, and the pages for privacy officers, with the program. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import {
  planFile,
  planText,
  PLAN_FORMAT,
  type PlanEvent,
} from '../packages/collector/src/commands/lifecycle/plan-file.js';
import { parsePolicy } from '../packages/collector/src/privacy/retention-policy.js';
import { SequenceSet } from '../packages/collector/src/privacy/sequence-set.js';

const ROOT = path.resolve(import.meta.dirname, '..');
const textOf = (file: string) => fs.readFileSync(path.join(ROOT, file), 'utf8');
const GUIDE = 'docs/guide/privacy';
const PAGES = fs.readdirSync(path.join(ROOT, GUIDE)).filter((name) => name.endsWith('.md'));

/** The options of each command, by its words; none for a group. The page is generated (R-1240). */
const commands = new Map<string, Set<string>>();
for (const part of textOf('docs/reference/cli.md')
  .split(/^#{2,5} collector /m)
  .slice(1)) {
  const [name = ''] = part.split('\n');
  commands.set(
    name,
    new Set([
      ...[...part.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, option = '']) => option),
      ...(/^Common options: (.*)$/m.exec(part)?.[1] ?? '').split(', '),
    ]),
  );
}

/** Code blocks and inline code that begin with a command of the program. */
function* commandLines(text: string): Generator<string[]> {
  // The marks of a fenced block are no pair of backticks.
  const unfenced = text.replace(/^```.*$/gm, '');
  for (const [, block, inline] of unfenced.matchAll(/^(?: {4}|\t| {7})(.+)$|`([^`]+)`/gm)) {
    const line = (block ?? inline ?? '').replace(/\s+#.*/, '');
    for (const each of line.split(/ (?:>|&&|\|) /))
      yield each
        .trim()
        .replace(/^(sudo -u \w+ )?(\.\/)?collector /, '')
        .split(/\s+/);
  }
}

const GUIDES = fs.readdirSync(path.join(ROOT, GUIDE, '..')).filter((name) => name.endsWith('.md'));

test.each([...PAGES, ...GUIDES.map((name) => `../${name}`), '../../../README.md'])(
  '[R-1240] every command and option in %s exists',
  (page) => {
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
  },
);

test('[R-1240] the example policy is valid, and its floor covers ten years after three of treatment', () => {
  const [, json = ''] =
    /^( {4}\{\n(?: {4}.*\n)+? {4}\}\n)/m.exec(textOf(`${GUIDE}/retention-concept.md`)) ?? [];
  const policy = parsePolicy(json);
  const received = Date.UTC(2026, 0, 31);
  expect(policy.heldBy({ organisation: 'icu' }, received, Date.UTC(2039, 0, 30))?.id).toBe('record');
});

test('[R-1240] letters have the closing paragraph, and no page promises what copies of keys prevent', () => {
  const [, letters = ''] = textOf(`${GUIDE}/erasure-request.md`).split('## Letters');
  const [closing = '', ...others] = letters.trim().split('\n\n');
  for (const right of ['supervisory authority', 'judicial remedy', 'data protection officer'])
    expect(closing).toContain(right);
  expect(others).toHaveLength(5);
  for (const letter of others) expect(letter).toMatch(/_Closing paragraph\._$/);
  for (const page of PAGES)
    expect(textOf(path.join(GUIDE, page))).not.toMatch(/no longer be read|by anyone|for ever gone/);
});

const LETTERS = textOf(`${GUIDE}/erasure-request.md`);

/** Runs a Python program of the page, by its position. */
function run(program: number, input: string): string {
  const found = [...LETTERS.matchAll(/^( {4}import .*\n(?: {4}.*\n)*)/gm)].map(([, lines = '']) =>
    lines.replaceAll(/^ {4}/gm, ''),
  );
  expect(found).toHaveLength(2);
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-guide-'));
  try {
    const file = path.join(directory, 'input.json');
    fs.writeFileSync(file, input);
    const { stdout, stderr } = spawnSync('python3', ['-c', found[program] ?? '', file], { encoding: 'utf8' });
    expect(stderr).toBe('');
    return stdout;
  } finally {
    fs.rmSync(directory, { recursive: true });
  }
}

test.skipIf(spawnSync('python3', ['--version']).status !== 0)(
  '[R-1240] the programs of the guide print the events of an entry, and both hashes of a plan',
  () => {
    const set = SequenceSet.of([1, 2, 3, 127, 128, 300, 70_000, 70_001]).toText();
    const entry = { does: 'erase', keys: [{ bucket: '0132a1a5', organisation: 'icu', sequences: set }] };
    expect(run(0, JSON.stringify(entry))).toBe(
      'icu 1 to 3\nicu 127 to 128\nicu 300 to 300\nicu 70000 to 70001\n',
    );
    const event: Omit<PlanEvent, 'sequence' | 'blocked' | 'erase'> = {
      id: '2e4a6c8d-0b1f-4a3c-9d5e-7f9b1d3f5a62',
      run: '2e4a6c8d-0b1f-4a3c-9d5e-7f9b1d3f5a62',
      organisation: 'Süd "1"/\u007f',
      kind: 'outcome',
      received_at: '2026-11-01T00:00:00.000Z',
      size: 500,
      because: 'target',
      about: 'this person',
      why: '',
    };
    const blocked = [{ by: 'hold', name: 'CASE-7', until: null }] as const;
    const plan = planFile({
      ...{ format: PLAN_FORMAT, log: '0'.repeat(32), made: '2026-11-02T00:00:00.000Z', through: 70_001 },
      ...{
        policy: null,
        holds: [],
        asked: 'a subject (1 id)',
        searched: 'starts',
        unread: 0,
        unmatched: [2],
      },
      late: [],
      events: [
        { sequence: 2, ...event, blocked: [], erase: true },
        { sequence: 70_001, ...event, blocked, why: 'on hold by CASE-7', erase: false },
      ],
    });
    expect(run(1, planText(plan))).toBe(`plan ${plan.sha256}\nmarks ${plan.marks}\n`);
  },
);

test('[R-1240] letters promise a later erasure only with a diary, and name what keys may still open', () => {
  const [procedure = '', letters = ''] = LETTERS.split('## Letters');
  expect(procedure).toContain('Without a diary no letter may promise an erasure.');
  const [a = ''] = /^\*\*A\. .*$/m.exec(letters) ?? [];
  for (const reservation of ['encrypted contents', 'Copies of these keys', 'replaced key files', 'index'])
    expect(a).toContain(reservation);
  for (const [letter] of letters.matchAll(/^\*\*[A-E]\. .*$/gm)) {
    expect(letter.replaceAll(/\[[^\]]*\]/g, '')).not.toMatch(/will erase|further request/);
    for (const [choice] of letter.matchAll(/\[[^\]]*will erase[^\]]*\]/g))
      expect(choice).toContain('our diary has it');
  }
});
