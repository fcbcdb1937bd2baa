import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { Refusal } from '../../src/importing/line-fault.js';
import { RejectFile, RejectsExist, RejectsUnsafe } from '../../src/importing/reject-file.js';
import { temporaryDirectory } from '../running/collector-process.js';

let file: string;

beforeEach(() => {
  const directory = temporaryDirectory();
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  file = path.join(directory, 'rejects.ndjson');
});

function refusal(more: Partial<Refusal> = {}): Refusal {
  return { line: 1, code: 'invalid_json', outcome: 'rejected', bytes: Buffer.from('{'), ...more };
}

function written(...refusals: readonly Refusal[]): unknown[] {
  const rejects = RejectFile.open(file);
  rejects.write('events.ndjson', refusals);
  rejects.close();
  const lines = fs.readFileSync(file, 'utf8').split('\n');
  expect(lines.pop()).toBe('');
  return lines.map((line) => JSON.parse(line) as unknown);
}

describe('a reject file [R-714]', () => {
  test('holds each line with its place, its fault and its exact text', () => {
    const eventId = '6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10';
    const text = ' {"a":"\u2028é\\u00e9\t"}\r';
    const conflict = refusal({
      ...{ line: 7, code: 'event_id_conflict', outcome: 'conflict', eventId, bytes: Buffer.from(text) },
    });
    expect(written(refusal({ details: { offset: 1 } }), conflict)).toEqual([
      {
        file: 'events.ndjson',
        line: 1,
        code: 'invalid_json',
        details: { offset: 1 },
        outcome: 'rejected',
        text: '{',
      },
      {
        file: 'events.ndjson',
        line: 7,
        code: 'event_id_conflict',
        event_id: eventId,
        outcome: 'conflict',
        text,
      },
    ]);
  });

  test('holds the bytes of a line that is no text', () => {
    const bytes = Buffer.from([0x7b, 0xff, 0x00, 0x7d]);
    expect(written(refusal({ bytes }))).toMatchObject([{ text_base64: bytes.toString('base64') }]);
  });

  test('holds the place alone of a line that was too long', () => {
    const notRead = refusal({ bytes: undefined, details: { bytes: 1e9, offset: 5 } });
    const lines = written(notRead, refusal({ bytes: Buffer.alloc((16 << 20) + 1, 'x') }));
    expect(lines).toHaveLength(2);
    for (const line of lines) expect(line).not.toHaveProperty('text');
  });

  test('is for its owner alone, whatever the umask, and also when it was there, empty', () => {
    fs.writeFileSync(file, '', { mode: 0o644 });
    written(refusal());
    expect(fs.statSync(file).mode & 0o777).toBe(0o600);
  });

  test('is not left behind when nothing was refused', () => {
    RejectFile.open(file).close();
    expect(fs.existsSync(file)).toBe(false);
  });

  test('does not take the place of one that holds something', () => {
    fs.writeFileSync(file, 'of yesterday');
    expect(() => RejectFile.open(file)).toThrow(RejectsExist);
    expect(() => RejectFile.open(path.dirname(file))).toThrow(RejectsExist);
    expect(fs.readFileSync(file, 'utf8')).toBe('of yesterday');
  });

  test('is not written through a link, nor into a file with another name', () => {
    const elsewhere = path.join(path.dirname(file), 'elsewhere');
    fs.symlinkSync(elsewhere, file);
    expect(() => RejectFile.open(file)).toThrow(RejectsUnsafe);
    expect(fs.existsSync(elsewhere)).toBe(false);
    fs.writeFileSync(elsewhere, '');
    expect(() => RejectFile.open(file)).toThrow(`${file} is a link`);
    fs.rmSync(file);
    fs.linkSync(elsewhere, file);
    expect(() => RejectFile.open(file)).toThrow(RejectsUnsafe);
  });

  test.skipIf(process.getuid?.() !== 0)('of root is not one that another user has put there', () => {
    fs.writeFileSync(file, '');
    fs.chownSync(file, 65_534, 65_534);
    expect(() => RejectFile.open(file)).toThrow(`${file} exists, and belongs to another user`);
    expect(fs.statSync(file).uid).toBe(65_534);
  });

  test('takes any number of lines', () => {
    const many = Array.from({ length: 3000 }, (_, i) => refusal({ line: i, bytes: Buffer.alloc(1000, 'x') }));
    expect(written(...many)).toHaveLength(3000);
  });
});
