/** The spools of test/vectors/spool, read by a decoder that was written from docs/internals/formats.md alone. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { hasPython } from '../../../../test/python.js';
import { sealText } from '../../../client/src/spool/seal.js';

const HERE = import.meta.dirname;
const VECTORS = path.join(HERE, '../../../../test/vectors/spool');

interface Case {
  readonly key?: string;
  readonly truncate?: { readonly file: string; readonly from: number; readonly to: number };
  readonly expect: Readonly<Record<'events' | 'cut' | 'missing' | 'damaged' | 'refused', unknown>>;
}

function casesIn(directory: string): Map<string, Case> {
  const names = fs
    .readdirSync(directory)
    .filter((name) => fs.existsSync(path.join(directory, name, 'case.json')));
  const read = (name: string) => fs.readFileSync(path.join(directory, name, 'case.json'), 'utf8');
  return new Map(names.map((name) => [name, JSON.parse(read(name)) as Case]));
}

function decoded(directory: string): Readonly<Record<string, unknown>> {
  const decoder = path.join(HERE, 'spool.py');
  const { status, stdout, stderr } = spawnSync('python3', ['-B', decoder, directory], { encoding: 'utf8' });
  expect(status, stderr).toBe(0);
  return JSON.parse(stdout) as Record<string, unknown>;
}

function temporaryDirectory(): string {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-spools-'));
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  return directory;
}

test('[R-2055] every spool of the corpus is read by a decoder written from the page alone', () => {
  if (!hasPython) return;
  const directory = temporaryDirectory();
  fs.cpSync(VECTORS, directory, { recursive: true });
  const cases = casesIn(directory);
  for (const [name, { truncate }] of cases) {
    if (truncate === undefined) continue;
    const file = path.join(directory, name, 'spool', truncate.file);
    fs.truncateSync(file, Math.floor((truncate.from + truncate.to) / 2));
  }
  // The decoder ignores who holds a part.
  cases.delete('owner-here-held');
  cases.delete('owner-none-held');
  const found = decoded(directory);
  expect(cases.size).toBeGreaterThan(80);
  for (const [name, { expect: due }] of cases) {
    const { events, cut, missing, damaged, refused } = due;
    expect(found[name], name).toEqual(
      refused === undefined ? { events, cut, missing, damaged } : { refused },
    );
  }
});

test('[R-2055] an encrypted line of the quarantine is read by a decoder written from the page alone', () => {
  if (!hasPython) return;
  const directory = temporaryDirectory();
  const [key, at] = [Buffer.alloc(32, 5), '2026-11-30T08:00:00.000Z'];
  const line = {
    at,
    kind: 'outcome',
    captured_at: at,
    refusal: { status: 400, at },
    event: '{"text":"Größe"}',
  };
  const sealed = { at, sealed: sealText(key, JSON.stringify(line)).toString('base64') };
  fs.mkdirSync(path.join(directory, 'one/spool/quarantine'), { recursive: true });
  fs.writeFileSync(path.join(directory, 'one/case.json'), JSON.stringify({ key: key.toString('hex') }));
  const file = path.join(directory, 'one/spool/quarantine/0190aabbccdd01020304050607.ndjson');
  fs.writeFileSync(file, [line, sealed, line].map((each) => JSON.stringify(each)).join('\n'));
  expect(decoded(directory)['one']).toMatchObject({ quarantine: [line, line] });
});
