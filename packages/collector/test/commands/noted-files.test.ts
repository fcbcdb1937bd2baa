import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { importedFiles, namedFiles } from '../../src/commands/noted-files.js';
import type { InputTally } from '../../src/importing/importer.js';

/** A tenth of what verify takes for a line. */
const MOST = (16 << 20) / 10;

function tally(name: string, more: Partial<InputTally> = {}): InputTally {
  return { name, lines: 3, empty: 0, stored: 2, repeats: 0, fixed: 0, refused: 1, whole: undefined, ...more };
}

describe('the files of an import in the access log [R-716]', () => {
  test('are each told, up to a thousand', () => {
    const names = Array.from({ length: 1000 }, (_, i) => `${i}.ndjson`);
    expect(namedFiles(names)).toEqual({ files: names });
    expect(namedFiles([])).toEqual({ files: [] });
    const { files, more_files } = importedFiles(names.map((name) => tally(name)));
    expect([files.length, more_files]).toEqual([1000, undefined]);
  });

  test('are counted beyond that, under one hash of what would have been told', () => {
    const names = Array.from({ length: 1003 }, (_, i) => `${i}.ndjson`);
    expect(namedFiles(names)).toEqual({
      files: names.slice(0, 1000),
      more_files: { count: 3, sha256: hash('sha256', '"1000.ndjson"\n"1001.ndjson"\n"1002.ndjson"\n') },
    });
    const whole = { bytes: 9, sha256: hash('sha256', 'its bytes') };
    const { files, more_files } = importedFiles(names.map((name) => tally(name, { whole })));
    expect(files).toHaveLength(1000);
    const json = (name: string) =>
      `{"file":"${name}","lines":3,"stored":2,"repeats":0,"refused":1,"bytes":9,"sha256":"${whole.sha256}"}\n`;
    expect(more_files).toEqual({
      ...{ count: 3, lines: 9, stored: 6, repeats: 0, refused: 3 },
      sha256: hash('sha256', names.slice(1000).map(json).join('')),
    });
  });

  test('make no line that is too long, whatever their names', () => {
    const name = fc.oneof(fc.string({ unit: 'binary' }), fc.constant('\u0001'.repeat(1000)));
    const names = fc.tuple(
      fc.array(name, { minLength: 1, maxLength: 20 }),
      fc.integer({ min: 1, max: 1200 }),
    );
    fc.assert(
      fc.property(names, ([some, count]) => {
        const all = Array.from({ length: count }, (_, i) => some[i % some.length] ?? '');
        const begun = namedFiles(all);
        const ended = importedFiles(all.map((one) => tally(one)));
        for (const { files, more_files } of [begun, ended]) {
          expect(files.length + (more_files?.count ?? 0)).toBe(count);
          expect(Buffer.byteLength(JSON.stringify({ files, more_files }))).toBeLessThan(MOST);
        }
      }),
      { numRuns: 10 },
    );
  });
});
