import * as fs from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { IdIndex } from '../../../../src/store/embedded/id-index/id-index.js';
import { IdIndexReader } from '../../../../src/store/embedded/id-index/sorted-runs.js';
import { Merge, RunWriter, type Files } from '../../../../src/store/embedded/id-index/sorted-run-writer.js';
import { nameOf } from '../../../../src/store/embedded/id-index/sorted-run-format.js';
import { Run } from '../../../../src/store/embedded/id-index/sorted-run.js';
import { FRAME, KEY, missing, scratchDirectory, writeRun } from './sample-log.js';

const PAGE = 4096;
const COUNT = 700;
/** Of a run of 700 entries: header, three pages of entries, one of the filter, then the page table. */
const TABLE_AT = 5 * PAGE;
const FILE_BYTES = TABLE_AT + 4 * (4 + 3);

/** Two runs side by side, of events [0, 700) and [700, 1400). */
function twoRuns(): { directory: string; first: string; second: string } {
  const directory = scratchDirectory();
  const first = path.join(directory, writeRun(fs, directory, 0, 0, COUNT));
  const second = path.join(directory, writeRun(fs, directory, 0, COUNT, 2 * COUNT));
  return { directory, first, second };
}

async function coverage(
  directory: string,
  verify = true,
): Promise<{ coveredTo: number; errors: unknown[]; lost: number[] }> {
  const errors: unknown[] = [];
  const reader = IdIndexReader.read({ directory, verify, onError: (error) => errors.push(error) });
  const { coveredTo } = reader;
  const lost = missing(reader, 0, coveredTo / FRAME);
  await reader.close();
  return { coveredTo, errors, lost };
}

function flip(file: string, at: number): void {
  const bytes = fs.readFileSync(file);
  bytes[at] = (bytes[at] ?? 0) ^ 0x10;
  fs.writeFileSync(file, bytes);
}

describe('a run', () => {
  test('answers for every entry, equal fingerprints across pages included, with its filter on disk or not', () => {
    const word = fc.oneof(
      { weight: 1, arbitrary: fc.constant(5) },
      { weight: 3, arbitrary: fc.nat({ max: 9 }) },
    );
    const list = fc.array(fc.tuple(word, word), { minLength: 250, maxLength: 800 });
    fc.assert(
      fc.property(list, fc.constantFrom(0, 1 << 20), (pairs, filterMemory) => {
        const directory = fs.mkdtempSync(path.join(scratchDirectory(), 'run-'));
        const sorted = pairs
          .map(([hi, lo], i) => ({ hi, lo, address: i * FRAME }))
          .sort((a, b) => a.hi - b.hi || a.lo - b.lo);
        const header = { level: 0, ...KEY, count: sorted.length, from: 0, to: sorted.length * FRAME };
        const writer = new RunWriter(fs, directory, header);
        for (const { hi, lo, address } of sorted) writer.add(hi, lo, address, 1);
        writer.finish();
        const run = Run.open(directory, nameOf(header), filterMemory);
        for (let hi = 0; hi < 11; hi++) {
          for (let lo = 0; lo < 11; lo++) {
            const out: number[] = [];
            const found = run.find(hi, lo, out, 0);
            const expected = sorted
              .filter((entry) => entry.hi === hi && entry.lo === lo)
              .map(({ address }) => address + 2 ** 32);
            expect(out.slice(0, found).sort()).toEqual(expected.sort());
          }
        }
        run.close();
      }),
      { numRuns: 20 },
    );
  });
});

describe('a damaged run', () => {
  const header = Array.from({ length: 56 }, (_, at) => at);
  const pages = [1, 2, 3, 4].flatMap((page) => [page * PAGE, page * PAGE + 2048, (page + 1) * PAGE - 1]);
  const table = Array.from({ length: FILE_BYTES - TABLE_AT }, (_, i) => TABLE_AT + i);

  test('is discarded whichever byte of header, pages or page table is damaged', async () => {
    const { directory, second } = twoRuns();
    expect(fs.statSync(second).size).toBe(FILE_BYTES);
    for (const at of [...header, ...pages, ...table]) {
      flip(second, at);
      const { coveredTo, errors, lost } = await coverage(directory);
      expect({ at, coveredTo, errors: errors.length, lost }).toEqual({
        at,
        coveredTo: COUNT * FRAME,
        errors: 1,
        lost: [],
      });
      flip(second, at);
    }
    expect(await coverage(directory)).toEqual({ coveredTo: 2 * COUNT * FRAME, errors: [], lost: [] });
  });

  test('is discarded at whatever length it was cut off or grew to', async () => {
    const { directory, second } = twoRuns();
    const whole = fs.readFileSync(second);
    for (const length of [
      0,
      1,
      51,
      55,
      56,
      PAGE - 1,
      PAGE,
      2 * PAGE,
      TABLE_AT,
      FILE_BYTES - 4,
      FILE_BYTES - 1,
      FILE_BYTES + 1,
    ]) {
      fs.writeFileSync(second, Buffer.concat([whole, Buffer.alloc(1)]).subarray(0, length));
      const { coveredTo, errors } = await coverage(directory);
      expect({ length, coveredTo, errors: errors.length }).toEqual({
        length,
        coveredTo: COUNT * FRAME,
        errors: 1,
      });
    }
  });

  test('is discarded with the runs after it, because coverage has no gaps', async () => {
    const { directory, first } = twoRuns();
    flip(first, PAGE);
    const index = IdIndex.open({ directory });
    expect(index.coveredTo).toBe(0);
    await index.close();
    expect(fs.readdirSync(directory)).toEqual([]);
  });

  test('that was damaged after it was opened is an error, not an answer, and is gone at the next start', async () => {
    const { directory, second } = twoRuns();
    const reader = IdIndexReader.read({ directory, verify: false });
    const index = IdIndex.open({ directory, verify: false });
    for (const page of [1, 2, 3]) flip(second, page * PAGE + 5);
    for (const opened of [reader, index]) {
      expect(() => missing(opened, 0, 2 * COUNT)).toThrow(
        expect.objectContaining({ code: 'corrupt' }) as Error,
      );
    }
    expect(() => index.commit(index.coveredTo)).toThrow(/checksum/);
    await index.abandon();
    await reader.close();
    expect(await coverage(directory, false)).toEqual({ coveredTo: COUNT * FRAME, errors: [], lost: [] });
  });

  test('of another index, or under another name, is not used', async () => {
    const { directory, first, second } = twoRuns();
    const foreign = { level: 0, k0: 1, k1: 2, count: 0, from: COUNT * FRAME, to: 3 * COUNT * FRAME };
    new RunWriter(fs, directory, foreign).finish();
    expect(await coverage(directory)).toMatchObject({
      coveredTo: 2 * COUNT * FRAME,
      errors: [{ code: 'corrupt' }],
      lost: [],
    });
    fs.copyFileSync(first, second);
    fs.rmSync(path.join(directory, nameOf(foreign)));
    expect(await coverage(directory)).toMatchObject({
      coveredTo: COUNT * FRAME,
      errors: [{ code: 'corrupt' }],
    });
  });

  test('from a merge is replaced by its inputs while they are there', async () => {
    const { directory } = twoRuns();
    const merged = path.join(directory, writeRun(fs, directory, 1, 0, 2 * COUNT));
    flip(merged, 3 * PAGE);
    expect(await coverage(directory)).toMatchObject({
      coveredTo: 2 * COUNT * FRAME,
      errors: [{ code: 'corrupt' }],
      lost: [],
    });
  });
});

describe('a run that covers more than the log holds', () => {
  test('is not used and deleted, so that it does not match when the log has grown again', async () => {
    const { directory } = twoRuns();
    const index = IdIndex.open({ directory, logEnd: 2 * COUNT * FRAME - 1 });
    expect(index.coveredTo).toBe(COUNT * FRAME);
    await index.close();
    expect(await coverage(directory)).toEqual({ coveredTo: COUNT * FRAME, errors: [], lost: [] });
  });
});

/** File calls that record their order and throw at one of them: before it or after it took effect. */
function crashingFiles(crashAt: number, takesEffect: boolean): { files: Files; calls: string[] } {
  const calls: string[] = [];
  const watch = <A extends unknown[], R>(name: string, call: (...args: A) => R): ((...args: A) => R) => {
    return (...args) => {
      const at = calls.push(name) - 1;
      if (at > crashAt || (at === crashAt && !takesEffect)) throw new Error('crash');
      const result = call(...args);
      if (at === crashAt) throw new Error('crash');
      return result;
    };
  };
  const files = {
    openSync: watch('open', fs.openSync),
    writeSync: watch('write', fs.writeSync as (...args: unknown[]) => number),
    fdatasyncSync: watch('fdatasync', fs.fdatasyncSync),
    fsyncSync: watch('fsync', fs.fsyncSync),
    renameSync: watch('rename', fs.renameSync),
    unlinkSync: watch('unlink', fs.unlinkSync),
    closeSync: watch('close', fs.closeSync),
  };
  return { files, calls };
}

/** Four runs, then what the writing thread does: a fifth from a table, the merge of four, their deletion. */
function publishMergeDelete(directory: string, files: Files): void {
  writeRun(files, directory, 0, 4 * COUNT, 5 * COUNT);
  const inputs = [0, 1, 2, 3].map((i) =>
    Run.open(directory, nameOf({ from: i * COUNT * FRAME, to: (i + 1) * COUNT * FRAME }), 1 << 20),
  );
  try {
    new Merge(files, directory, inputs).step(Infinity);
    for (const { image } of inputs) files.unlinkSync(path.join(directory, image.name));
  } finally {
    for (const run of inputs) run.close();
  }
}

function fourRuns(): string {
  const directory = scratchDirectory();
  for (let i = 0; i < 4; i++) writeRun(fs, directory, 0, i * COUNT, (i + 1) * COUNT);
  return directory;
}

describe('a crash while runs are published, merged and deleted', () => {
  test('comes after the sync of everything that the next step relies on', () => {
    const { files, calls } = crashingFiles(Infinity, false);
    publishMergeDelete(fourRuns(), files);
    const published = [
      'open',
      ...'write '.repeat(4).trim().split(' '),
      'fsync',
      'close',
      'rename',
      'open',
      'fsync',
      'close',
    ];
    expect(calls.filter((call, i) => call !== 'write' || calls[i - 1] !== 'write')).toEqual([
      ...published.filter((call, i) => call !== 'write' || published[i - 1] !== 'write'),
      ...published.filter((call, i) => call !== 'write' || published[i - 1] !== 'write'),
      ...Array.from({ length: 4 }, () => 'unlink'),
    ]);
  });

  test('leaves a usable index at every step, whether or not the step took effect', async () => {
    const { files, calls } = crashingFiles(Infinity, false);
    publishMergeDelete(fourRuns(), files);
    for (const takesEffect of [false, true]) {
      for (let step = 0; step < calls.length; step++) {
        const directory = fourRuns();
        const crashing = crashingFiles(step, takesEffect);
        expect(() => publishMergeDelete(directory, crashing.files)).toThrow('crash');
        const before = await coverage(directory);
        expect({ step, ...before }).toMatchObject({ errors: [], lost: [] });
        expect([4, 5]).toContain(before.coveredTo / FRAME / COUNT);
        const index = IdIndex.open({ directory });
        expect(index.coveredTo).toBe(before.coveredTo);
        await index.abandon();
        expect(fs.readdirSync(directory).filter((name) => !name.endsWith('.run'))).toEqual([]);
        expect(await coverage(directory)).toEqual(before);
      }
    }
  });
});
