import { spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { IdIndex, type IdIndexOptions } from '../../../../src/store/embedded/id-index/id-index.js';
import { IdIndexReader } from '../../../../src/store/embedded/id-index/sorted-runs.js';
import { addEvents, candidates, FRAME, idOf, missing, scratchDirectory } from './sample-log.js';

function open(directory: string, options: Partial<IdIndexOptions> = {}): IdIndex {
  const index = IdIndex.open({ directory, tableEntries: 256, ...options });
  onTestFinished(() => index.abandon());
  return index;
}

/** Adds and commits events [from, to), 16 at a time. */
function fill(index: IdIndex, from: number, to: number): void {
  for (let at = from; at < to; at += 16) {
    const end = Math.min(to, at + 16);
    addEvents(index, at, end);
    index.commit(end * FRAME);
  }
}

/** Waits until the writing thread has nothing left to do; all events below `end` must be committed. */
async function settled(index: IdIndex, end: number): Promise<void> {
  for (let quiet = 0, runs = -1; quiet < 5; runs = index.stats().runs) {
    await setTimeout(10);
    index.commit(end * FRAME);
    quiet = index.stats().frozenTables === 0 && index.stats().runs === runs ? quiet + 1 : 0;
  }
}

/** A fault in the writing thread's file calls, switched on and off. */
function faults(): { files: string; set: (fault: object | null) => void } {
  const control = path.join(scratchDirectory(), 'fault.json');
  const url = new URL('failing-files.mjs', import.meta.url);
  url.searchParams.set('control', control);
  return {
    files: url.href,
    set: (fault) => {
      if (fault === null) return fs.rmSync(control);
      fs.writeFileSync(`${control}.new`, JSON.stringify(fault));
      fs.renameSync(`${control}.new`, control);
    },
  };
}

describe('the index', () => {
  test('agrees with a map through adding, freezing, merging, closing, ending and losing the tail of the log', async () => {
    const step = fc.oneof(
      {
        weight: 12,
        arbitrary: fc.record({
          do: fc.constant('add' as const),
          ids: fc.array(fc.nat({ max: 400 }), { maxLength: 6 }),
        }),
      },
      { weight: 3, arbitrary: fc.record({ do: fc.constant('rest' as const) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('close' as const, 'die' as const) }) },
      {
        weight: 1,
        arbitrary: fc.record({
          do: fc.constant('cut' as const),
          keep: fc.double({ min: 0, max: 1, noNaN: true }),
        }),
      },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 30, maxLength: 80 }), async (steps) => {
        const directory = scratchDirectory();
        const log: number[] = [];
        const add = (index: IdIndex, ids: readonly number[], first: number): void => {
          ids.forEach((id, i) => {
            index.fingerprint('organisation', idOf(id), 0);
            index.add(index.hi, index.lo, (first + i) * FRAME);
          });
          index.commit((first + ids.length) * FRAME);
        };
        const start = (): IdIndex => {
          const opened = open(directory, { tableEntries: 16, logEnd: log.length * FRAME });
          expect(opened.coveredTo).toBeLessThanOrEqual(log.length * FRAME);
          for (let at = opened.coveredTo / FRAME; at < log.length; at += 6)
            add(opened, log.slice(at, at + 6), at);
          return opened;
        };
        let index = start();
        for (const step of steps) {
          if (step.do === 'add') {
            // Room for a batch is what the ledger asks for first; with tables this small it may have to wait.
            while (index.room < step.ids.length) await setTimeout(1);
            add(index, step.ids, log.length);
            log.push(...step.ids);
          } else if (step.do === 'rest') await setTimeout(3);
          else {
            if (step.do === 'close') await index.close();
            else await index.abandon();
            if (step.do === 'cut') log.length = Math.floor(log.length * step.keep);
            index = start();
          }
          for (const id of [...(step.do === 'add' ? step.ids : []), 0, 1, 2, 401]) {
            expect(candidates(index, id)).toEqual(
              log.flatMap((other, at) => (other === id ? [at * FRAME] : [])),
            );
          }
        }
        for (let id = 0; id <= 401; id++) {
          expect(candidates(index, id)).toEqual(
            log.flatMap((other, at) => (other === id ? [at * FRAME] : [])),
          );
        }
        await index.abandon();
      }),
      { numRuns: 12 },
    );
  });

  test('publishes nothing when it is closed with entries that the log never committed', async () => {
    const directory = scratchDirectory();
    const index = open(directory);
    fill(index, 0, 16);
    addEvents(index, 16, 20);
    await index.close();
    expect(IdIndexReader.read({ directory }).coveredTo).toBe(0);
  });

  test('refuses addresses and commits that go back', () => {
    const index = open(scratchDirectory());
    index.add(1, 1, 10);
    expect(() => index.add(1, 1, 10)).toThrow(RangeError);
    expect(() => index.commit(10)).toThrow(RangeError);
    index.commit(11);
    expect(() => index.commit(10)).toThrow(RangeError);
    expect(() => index.add(1, 1, 9)).toThrow(RangeError);
  });
});

describe('a reader beside a writer', () => {
  test('finds everything below its coverage while the writer publishes, merges and deletes', async () => {
    const directory = scratchDirectory();
    const index = open(directory);
    let covered = 0;
    let readers = 0;
    for (let at = 0; at < 200 * 256; at += 640) {
      fill(index, at, at + 640);
      await setTimeout(1);
      const reader = IdIndexReader.read({ directory, onError: (error) => expect.unreachable(String(error)) });
      expect(reader.coveredTo).toBeGreaterThanOrEqual(covered);
      covered = reader.coveredTo;
      const end = covered / FRAME;
      expect(missing(reader, Math.max(0, end - 1500), end)).toEqual([]);
      if (end > 0) readers++;
      // Opened once, it continues to read files that merges delete.
      fill(index, at + 640, (at += 640) + 640);
      expect(missing(reader, Math.max(0, end - 300), end)).toEqual([]);
      await reader.close();
    }
    expect(readers).toBeGreaterThan(10);
  });
});

describe('a writer that is killed', () => {
  test('leaves an index that is complete below its coverage, five times out of five', async () => {
    for (const patience of [150, 220, 310, 430, 600]) {
      const directory = scratchDirectory();
      const module = new URL('../../../../dist/store/embedded/id-index/id-index.js', import.meta.url);
      const program = `
        const { IdIndex } = await import(${JSON.stringify(module.href)});
        const index = IdIndex.open({ directory: ${JSON.stringify(directory)}, tableEntries: 256 });
        const id = Buffer.alloc(16);
        for (let number = 0; ; ) {
          for (let i = 0; i < 16; i++, number++) {
            id.writeUInt32BE(number, 12);
            index.fingerprint('organisation', id, 0);
            index.add(index.hi, index.lo, number * ${FRAME});
          }
          index.commit(number * ${FRAME});
        }`;
      const child = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: 'inherit' });
      await setTimeout(patience);
      child.kill('SIGKILL');
      await once(child, 'exit');
      const index = open(directory, { onError: (error) => expect.unreachable(String(error)) });
      const end = index.coveredTo / FRAME;
      expect(missing(index, 0, end)).toEqual([]);
      fill(index, end, end + 600);
      expect(missing(index, 0, end + 600)).toEqual([]);
      await index.close();
      expect(IdIndexReader.read({ directory }).coveredTo).toBe((end + 600) * FRAME);
    }
  });
});

describe('a writing thread that cannot write', () => {
  test.each(['openSync', 'writeSync', 'fsyncSync', 'renameSync'])(
    'because %s fails leaves the index complete, bounded and refusing, until it can',
    async (call) => {
      const directory = scratchDirectory();
      const { files, set } = faults();
      const errors: unknown[] = [];
      const index = open(directory, { files, onError: (error) => errors.push(error) });
      fill(index, 0, 300);
      await settled(index, 300);
      const covered = index.coveredTo;
      set({ call, code: 'ENOSPC' });
      let end = 300;
      for (; index.room >= 16; end += 16) {
        fill(index, end, end + 16);
        await setTimeout(0);
      }
      expect(end).toBeLessThan(300 + 4 * 384);
      while (index.room > 0) addEvents(index, end, ++end);
      expect(() => addEvents(index, end, end + 1)).toThrow(
        expect.objectContaining({ code: 'full' }) as Error,
      );
      index.commit(end * FRAME);
      expect(index.stats().frozenTables).toBe(2);
      expect(errors).toContainEqual(expect.objectContaining({ code: 'ENOSPC' }));
      expect(missing(index, 0, end)).toEqual([]);
      expect(IdIndexReader.read({ directory }).coveredTo).toBe(covered);

      set(null);
      // Asking for room is all that a ledger does while it refuses.
      while (index.room < 16) await setTimeout(20);
      fill(index, end, end + 16);
      await index.close();
      const again = open(directory);
      expect(again.coveredTo).toBe((end + 16) * FRAME);
      expect(missing(again, 0, end + 16)).toEqual([]);
    },
  );

  test('when it is closed leaves the rest to the next start', async () => {
    const directory = scratchDirectory();
    const { files, set } = faults();
    const errors: unknown[] = [];
    const index = open(directory, { files, onError: (error) => errors.push(error) });
    fill(index, 0, 100);
    set({ call: 'writeSync', code: 'EIO' });
    await index.close();
    expect(errors).toHaveLength(1);
    expect(open(directory).coveredTo).toBe(0);
  });

  test('fast enough slows the ledger instead of filling the memory', () => {
    const { files, set } = faults();
    set({ slow: 30 });
    const index = open(scratchDirectory(), { files });
    let most = 0;
    for (let at = 0; at < 12 * 256; at += 16) {
      fill(index, at, at + 16);
      most = Math.max(most, index.stats().frozenTables);
      expect(index.room).toBeGreaterThanOrEqual(16);
    }
    expect(most).toBe(2);
    expect(index.stats().waits).toBeGreaterThan(0);
    expect(index.stats().waited).toBeGreaterThan(100);
    expect(missing(index, 0, 12 * 256)).toEqual([]);
  });

  test('because it has ended leaves the index complete and refusing, and closes', async () => {
    const directory = scratchDirectory();
    const errors: unknown[] = [];
    const index = open(directory, { files: 'file:///nowhere.mjs', onError: (error) => errors.push(error) });
    while (errors.length === 0) await setTimeout(10);
    let end = 0;
    while (index.room >= 16) fill(index, end, (end += 16));
    expect(end).toBeGreaterThan(256);
    expect(missing(index, 0, end)).toEqual([]);
    await index.close();
    expect(IdIndexReader.read({ directory }).coveredTo).toBe(0);
  });

  test('because its merge meets a damaged run stops the index, and the next start adds again', async () => {
    const directory = scratchDirectory();
    const index = open(directory);
    fill(index, 0, 256);
    await settled(index, 256);
    const [run] = fs.readdirSync(directory);
    const file = fs.openSync(path.join(directory, run ?? ''), 'r+');
    fs.writeSync(file, Buffer.alloc(8), 0, 8, 4096);
    fs.closeSync(file);
    expect(() => {
      for (let at = 256; ; at += 16) fill(index, at, at + 16);
    }).toThrow(expect.objectContaining({ code: 'corrupt', run }) as Error);
    await index.abandon();
    expect(open(directory).coveredTo).toBe(0);
  });
});
