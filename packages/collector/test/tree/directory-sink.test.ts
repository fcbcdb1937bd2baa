import fs from 'node:fs';
import path from 'node:path';
import { parseNote } from '@clinical-events/protocol/verify';
import { describe, expect, test, vi } from 'vitest';
import { signNote } from '../../src/tree/note-signing.js';
import { DirectorySink } from '../../src/tree/disk-sinks.js';
import { rootIn } from '../../src/tree/sink-queue.js';
import { nodeSinkFiles, SinkFilesError, type SinkFiles } from '../../src/tree/sink-files.js';
import { SinkForked, SinkTrouble } from '../../src/tree/sink.js';
import { attemptFor, newKey, ORIGIN, rejection, SampleLog, scratchDirectory } from './sample-log.js';

const log = new SampleLog();

function sinkOn(directory: string, files: SinkFiles = nodeSinkFiles, of = log): DirectorySink {
  return new DirectorySink({ path: directory, shown: `dir:${directory}`, files, log: of });
}

async function give(sink: DirectorySink, ...sizes: readonly number[]): Promise<number> {
  const notes = sizes.map((size) => log.published(size));
  return sink.deliver(notes, attemptFor(notes));
}

function nameOf(size: number, again = ''): string {
  return `${String(size).padStart(16, '0')}${again}.checkpoint`;
}

function contents(directory: string): Record<string, string> {
  const names = fs.readdirSync(directory).sort();
  return Object.fromEntries(names.map((name) => [name, fs.readFileSync(path.join(directory, name), 'utf8')]));
}

function failingWith(code: string, call: keyof SinkFiles): SinkFiles {
  return { ...nodeSinkFiles, [call]: () => Promise.reject(new SinkFilesError(code, 'injected')) };
}

describe('a directory sink', () => {
  test('[R-906] gives each checkpoint a file of its own', async () => {
    const directory = scratchDirectory();
    expect(await give(sinkOn(directory), 0, 1, 200)).toBe(3);
    expect(contents(directory)).toEqual({
      [nameOf(0)]: log.note(0),
      [nameOf(1)]: log.note(1),
      [nameOf(200)]: log.note(200),
    });
  });

  test('takes a checkpoint that it has quietly, and one that another key of the log signed for the same tree', async () => {
    const directory = scratchDirectory();
    await give(sinkOn(directory), 5);
    expect(await give(sinkOn(directory), 5)).toBe(1);
    const rotated = new SampleLog(newKey());
    const both = {
      rootAt: log.rootAt,
      entries: log.entries,
      logKeys: () => [log.signer.key, rotated.signer.key],
    };
    const sink = new DirectorySink({ path: directory, shown: 'dir:', files: nodeSinkFiles, log: both });
    const notes = [rotated.published(5)];
    expect(await sink.deliver(notes, attemptFor(notes))).toBe(1);
    expect(contents(directory)).toEqual({ [nameOf(5)]: log.note(5) });
  });

  test('[R-906] leaves a file that a crash cut short at any byte, and gives the note one further name', async () => {
    const note = log.note(7);
    const whole = Buffer.from(note);
    for (let length = 0; length < whole.length; length++) {
      const directory = scratchDirectory();
      fs.writeFileSync(path.join(directory, nameOf(7)), whole.subarray(0, length));
      await give(sinkOn(directory), 7);
      await give(sinkOn(directory), 7, 8);
      expect(contents(directory)).toMatchObject({ [nameOf(7, '-2')]: note, [nameOf(8)]: log.note(8) });
      expect(fs.statSync(path.join(directory, nameOf(7))).size).toBe(length);
    }
  });

  test('is in trouble when both names hold something else', async () => {
    const directory = scratchDirectory();
    fs.writeFileSync(path.join(directory, nameOf(8)), Buffer.alloc(200));
    fs.writeFileSync(path.join(directory, nameOf(8, '-2')), 'rubbish');
    expect((await rejection(give(sinkOn(directory), 8))).message).toBe(
      `${directory} holds two files for 8 entries that are no checkpoints of this log`,
    );
  });

  test('shares its directory with another log', async () => {
    const directory = scratchDirectory();
    const other = new SampleLog(newKey('log.example/other'), undefined, 'log.example/other');
    fs.writeFileSync(path.join(directory, nameOf(7)), other.note(7));
    fs.writeFileSync(path.join(directory, nameOf(250)), other.note(250));
    await give(sinkOn(directory), 7);
    expect(contents(directory)).toMatchObject({ [nameOf(7)]: other.note(7), [nameOf(7, '-2')]: log.note(7) });
  });

  test('is forked when its newest checkpoint is larger than the ledger', async () => {
    const directory = scratchDirectory();
    await give(sinkOn(directory), 9, 200);
    const sink = sinkOn(directory);
    const error = await rejection(give(sink, 150));
    expect(error).toBeInstanceOf(SinkForked);
    expect(error.message).toBe(
      `${directory}/${nameOf(200)} is a checkpoint of 200 entries, and this ledger has 150: ` +
        'it was restored from an older back-up, or entries were cut off its end',
    );
    expect(Object.keys(contents(directory))).toEqual([nameOf(9), nameOf(200)]);
    fs.rmSync(path.join(directory, nameOf(200)));
    expect(await give(sink, 150)).toBe(1);
  });

  test('is forked when the ledger went on differently, and stays so when it has outgrown what is there', async () => {
    const directory = scratchDirectory();
    const forked = log.forkedAt(100);
    fs.writeFileSync(path.join(directory, nameOf(120)), forked.note(120));
    for (const size of [130, 300]) {
      const error = await rejection(give(sinkOn(directory), size));
      expect(error).toBeInstanceOf(SinkForked);
      expect(error.message).toBe(
        `${directory}/${nameOf(120)} is a checkpoint of 120 entries that are not the first 120 of this ledger: ` +
          'it was altered, or restored from an older back-up and then went on differently; see collector verify',
      );
    }
    expect(Object.keys(contents(directory))).toEqual([nameOf(120)]);
  });

  test('is forked when a file of the same name holds another tree of the same log', async () => {
    const directory = scratchDirectory();
    const sink = sinkOn(directory);
    await give(sink, 110);
    fs.writeFileSync(path.join(directory, nameOf(120)), log.forkedAt(100).note(120));
    expect(await rejection(give(sink, 120))).toBeInstanceOf(SinkForked);
    // What lies there may have become another directory since.
    fs.rmSync(path.join(directory, nameOf(120)));
    fs.writeFileSync(path.join(directory, nameOf(200)), log.note(200));
    expect(await rejection(give(sink, 120))).toBeInstanceOf(SinkForked);
  });

  test('that is forked and large is not read to its end at every try', async () => {
    const directory = scratchDirectory();
    await give(sinkOn(directory), 200);
    const last = vi.fn(nodeSinkFiles.last.bind(nodeSinkFiles));
    const sink = sinkOn(directory, { ...nodeSinkFiles, last });
    for (let i = 0; i < 3; i++) expect(await rejection(give(sink, 150))).toBeInstanceOf(SinkForked);
    expect(last).toHaveBeenCalledTimes(1);
    fs.writeFileSync(path.join(directory, nameOf(200)), 'rubbish');
    expect(await give(sink, 150)).toBe(1);
    expect(last).toHaveBeenCalledTimes(2);
  });

  test('passes over files that are no checkpoints of this log when it looks for the newest', async () => {
    const directory = scratchDirectory();
    await give(sinkOn(directory), 200);
    fs.writeFileSync(path.join(directory, nameOf(9_999)), 'rubbish');
    fs.writeFileSync(path.join(directory, nameOf(8_888)), new SampleLog(newKey()).note(200));
    fs.writeFileSync(path.join(directory, 'zzz.txt'), log.note(250));
    fs.writeFileSync(path.join(directory, nameOf(7_777)), Buffer.alloc(1 << 20, 'x'));
    const text = parseNote(log.note(250)).text.replace(ORIGIN, 'log.example/other');
    const byOurKey = signNote(text, [{ name: ORIGIN, privateKey: log.signer.privateKey }]);
    fs.writeFileSync(path.join(directory, nameOf(6_666)), byOurKey);
    expect(await give(sinkOn(directory), 210)).toBe(1);
    expect(await rejection(give(sinkOn(directory), 190))).toBeInstanceOf(SinkForked);
  });

  test('is not made when it is missing, because it may be a mount that is', async () => {
    const directory = path.join(scratchDirectory(), 'worm');
    const error = await rejection(give(sinkOn(directory), 7));
    expect(error).toBeInstanceOf(SinkTrouble);
    expect(error.message).toBe(
      `${directory} is not there; it is not made either, because that would hide a mount that is missing (ENOENT)`,
    );
    expect(fs.existsSync(directory)).toBe(false);
  });

  test('that is no directory is trouble, and so is one in which a name leads to something else than a file', async () => {
    const file = path.join(scratchDirectory(), 'file');
    fs.writeFileSync(file, '');
    expect((await rejection(give(sinkOn(file), 7))).message).toContain('(ENOTDIR)');
    const directory = scratchDirectory();
    fs.mkdirSync(path.join(directory, nameOf(7)));
    expect((await rejection(give(sinkOn(directory), 7))).message).toContain('is no regular file (ENOTREG)');
  });

  test.each([
    ['EACCES', "cannot be read or written: the collector's user may not (EACCES)"],
    ['EROFS', 'cannot be written: its file system is read-only (EROFS)'],
    ['ENOSPC', 'cannot be written: no space is left (ENOSPC)'],
    ['ESTALE', 'cannot be read or written (ESTALE)'],
  ])('that fails with %s says so', async (code, message) => {
    const directory = scratchDirectory();
    const error = await rejection(give(sinkOn(directory, failingWith(code, 'create')), 7));
    expect(error).toBeInstanceOf(SinkTrouble);
    expect(error).not.toBeInstanceOf(SinkForked);
    expect(error.message).toBe(`${directory} ${message}`);
  });

  test('says that the tree lacks hashes when it has to compare and cannot', async () => {
    const directory = scratchDirectory();
    await give(sinkOn(directory), 200);
    const tiles = { hashes: () => Promise.resolve(Buffer.alloc(0)) };
    const empty = {
      rootAt: (size: number) => rootIn(tiles, size),
      entries: log.entries,
      logKeys: log.logKeys,
    };
    const sink = new DirectorySink({ path: directory, shown: 'dir:', files: nodeSinkFiles, log: empty });
    const notes = [log.published(210)];
    const error = await rejection(sink.deliver(notes, attemptFor(notes)));
    expect(error).not.toBeInstanceOf(SinkForked);
    expect(error.message).toMatch(/^the tree lacks some of the .*; see collector verify$/);
  });
});
