import fs from 'node:fs';
import path from 'node:path';
import { NoteForged, splitNotes } from '@clinical-events/protocol/verify';
import { describe, expect, onTestFinished, test } from 'vitest';
import { verifyNote } from '../../src/tree/note-signing.js';
import { FileSink } from '../../src/tree/disk-sinks.js';
import { nodeSinkFiles, SinkFilesError, type SinkFiles } from '../../src/tree/sink-files.js';
import { SinkForked } from '../../src/tree/sink.js';
import { attemptFor, newKey, rejection, SampleLog, scratchDirectory } from './sample-log.js';

const log = new SampleLog();

function sinkOn(file: string, files: SinkFiles = nodeSinkFiles): FileSink {
  return new FileSink({ path: file, shown: `file:${file}`, files, log });
}

async function give(sink: FileSink, ...sizes: readonly number[]): Promise<number> {
  const notes = sizes.map((size) => log.published(size));
  return sink.deliver(notes, attemptFor(notes));
}

function scratchFile(content?: string | Uint8Array): string {
  const file = path.join(scratchDirectory(), 'checkpoints');
  if (content !== undefined) fs.writeFileSync(file, content);
  return file;
}

function notes(...sizes: readonly number[]): string {
  return sizes.map((size) => `${log.note(size)}\n`).join('');
}

function held(file: string): string {
  return fs.readFileSync(file, 'utf8');
}

describe('a file sink', () => {
  test('[R-906] has each checkpoint appended, with an empty line behind it', async () => {
    const file = scratchFile();
    const sink = sinkOn(file);
    await give(sink, 0, 1);
    await give(sink, 200);
    expect(held(file)).toBe(notes(0, 1, 200));
    expect(splitNotes(held(file))).toEqual([0, 1, 200].map((size) => log.note(size)));
  });

  test('[R-882] tells that the file was cut, moved aside or deleted since the last delivery, and goes on', async () => {
    let lost = 0;
    const giveTo = (sink: FileSink, size: number) => {
      const given = [log.published(size)];
      return sink.deliver(given, { ...attemptFor(given), lost: () => lost++ });
    };
    const file = scratchFile();
    const sink = sinkOn(file);
    for (const size of [1, 2, 3]) await giveTo(sink, size);
    // What others append is no loss.
    fs.appendFileSync(file, 'more\n\n');
    await giveTo(sink, 4);
    expect(lost).toBe(0);
    fs.truncateSync(file, 1);
    await giveTo(sink, 5);
    fs.rmSync(file);
    await giveTo(sink, 6);
    fs.renameSync(file, `${file}.1`);
    await giveTo(sink, 7);
    expect(lost).toBe(3);
    await giveTo(sink, 8);
    expect(lost).toBe(3);
    expect(held(file)).toBe(notes(7, 8));
  });

  test('[R-906] tells of another log in the file, at the start and later, and does not take a part of a name for one', async () => {
    const other = new SampleLog(newKey('log.example/other'), undefined, 'log.example/other');
    const told: string[] = [];
    const giveTo = (sink: FileSink, size: number) => {
      const given = [log.published(size)];
      return sink.deliver(given, { ...attemptFor(given), alsoHolds: (origin) => told.push(origin) });
    };
    // The own one is the last.
    const file = scratchFile(`${other.note(1)}\n${notes(1)}`);
    const sink = sinkOn(file);
    await giveTo(sink, 1);
    expect(told).toEqual(['log.example/other']);
    await giveTo(sink, 2);
    expect(told).toHaveLength(1);
    fs.appendFileSync(file, `${other.note(2)}\n`);
    await giveTo(sink, 3);
    expect(told).toEqual(Array(2).fill('log.example/other'));
    expect(held(file)).toBe(`${other.note(1)}\n${notes(1, 2)}${other.note(2)}\n${notes(3)}`);
    told.length = 0;
    const many = notes(...Array<number>(100).fill(100));
    for (let more = 0; more < notes(100).length; more += 4) {
      await giveTo(sinkOn(scratchFile(`${'x'.repeat(more)}\n\n${many}`)), 100);
      await giveTo(sinkOn(scratchFile(`${many}${'x'.repeat(more)}\n\n${notes(100)}`)), 100);
    }
    expect(told).toEqual([]);
  });

  test('gives a note that a crash cut short at any byte again, and no other', async () => {
    for (const before of ['', notes(1, 2)]) {
      const whole = Buffer.from(log.note(7));
      for (let length = 0; length < whole.length; length++) {
        const file = scratchFile(Buffer.concat([Buffer.from(before), whole.subarray(0, length)]));
        await give(sinkOn(file), 7, 8);
        const split = splitNotes(held(file));
        expect(split.slice(-2)).toEqual([log.note(7), log.note(8)]);
        expect(split.length).toBe((before === '' ? 0 : 2) + (length === 0 ? 0 : 1) + 2);
      }
    }
  });

  test('ends a note that was cut short at any byte, so that it swallows none and is not taken for a forged one', async () => {
    const whole = Buffer.from(`${log.note(7)}\n`);
    for (let length = 1; length < whole.length; length++) {
      const file = scratchFile(Buffer.concat([Buffer.from(notes(1)), whole.subarray(0, length)]));
      await give(sinkOn(file), 8);
      await give(sinkOn(file), 9);
      const split = splitNotes(held(file));
      expect(split).toHaveLength(4);
      expect(split).toEqual([log.note(1), split[1], log.note(8), log.note(9)]);
      let fault: unknown;
      try {
        verifyNote(split[1] ?? '', log.logKeys());
        expect(split[1]).toBe(log.note(7));
      } catch (error) {
        fault = error;
      }
      expect(fault).not.toBeInstanceOf(NoteForged);
    }
  });

  test('begins behind an empty line in a file that ends with something else', async () => {
    for (const before of ['', '\n', 'some text', 'some text\n', 'some text\n\n', notes(3).slice(0, -1)]) {
      const file = scratchFile(before);
      await give(sinkOn(file), 7);
      expect(held(file).startsWith(before)).toBe(true);
      expect(splitNotes(held(file)).at(-1)).toBe(log.note(7));
    }
  });

  test('is rebuilt when it was moved aside', async () => {
    const file = scratchFile();
    const sink = sinkOn(file);
    await give(sink, 1);
    fs.renameSync(file, `${file}.1`);
    await give(sink, 2);
    expect([held(`${file}.1`), held(file)]).toEqual([notes(1), notes(2)]);
  });

  test('keeps what it has when writing stops half-way, and goes on from there', async () => {
    const file = scratchFile();
    let room = 700;
    const full: SinkFiles = {
      ...nodeSinkFiles,
      append: async (to, bytes) => {
        await nodeSinkFiles.append(to, bytes.subarray(0, room));
        if (bytes.length > room) throw new SinkFilesError('ENOSPC', 'injected');
      },
    };
    const sink = sinkOn(file, full);
    expect((await rejection(give(sink, 1, 2, 3, 4, 5, 6, 7, 8))).message).toBe(
      `${file} cannot be written: no space is left (ENOSPC)`,
    );
    room = Infinity;
    expect(await give(sink, 1, 2, 3, 4, 5, 6, 7, 8)).toBe(8);
    const split = splitNotes(held(file));
    const cut = split.filter((note) => note.includes('was cut short'));
    expect(cut).toHaveLength(1);
    expect(split.filter((note) => !cut.includes(note))).toEqual(
      [1, 2, 3, 4, 5, 6, 7, 8].map((size) => log.note(size)),
    );
  });

  test('is forked when its last checkpoint is larger than the ledger, also behind one that was cut short', async () => {
    for (const torn of ['', log.note(201).slice(0, 30), 'some text\n\n']) {
      const file = scratchFile(notes(9, 200) + torn);
      const sink = sinkOn(file);
      const error = await rejection(give(sink, 150));
      expect(error).toBeInstanceOf(SinkForked);
      expect(error.message).toBe(
        `at the end of ${file} is a checkpoint of 200 entries, and this ledger has 150: ` +
          'it was restored from an older back-up, or entries were cut off its end',
      );
      expect(held(file)).toBe(notes(9, 200) + torn);
    }
  });

  test('is told with the size of the ledger itself, of which the newest checkpoint covers less', async () => {
    const file = scratchFile(notes(200));
    log.held = 163;
    onTestFinished(() => void (log.held = 0));
    expect((await rejection(give(sinkOn(file), 150))).message).toContain('and this ledger has 163: ');
  });

  test('is forked when the ledger went on differently from what is there', async () => {
    const file = scratchFile(`${log.forkedAt(100).note(120)}\n`);
    expect((await rejection(give(sinkOn(file), 130))).message).toContain('not the first 120 of this ledger');
    expect(await rejection(give(sinkOn(file), 300))).toBeInstanceOf(SinkForked);
  });

  test('whose last note is of another log is looked through for one of this log', async () => {
    const other = new SampleLog(undefined, undefined, ORIGIN_OF_ANOTHER);
    const file = scratchFile(`${notes(200)}${other.note(10)}\n`);
    expect(await rejection(give(sinkOn(file), 150))).toBeInstanceOf(SinkForked);
    await give(sinkOn(file), 210);
    expect(splitNotes(held(file))).toEqual([log.note(200), other.note(10), log.note(210)]);
  });

  test('names the directory when that is missing, and does not wait at a pipe', async () => {
    const missing = path.join(scratchDirectory(), 'gone', 'checkpoints');
    expect((await rejection(give(sinkOn(missing), 7))).message).toMatch(/gone is not there; .*\(ENOENT\)$/);
    expect((await rejection(give(sinkOn(scratchDirectory()), 7))).message).toContain('no regular file');
    expect((await rejection(give(sinkOn('/dev/null'), 7))).message).toBe(
      '/dev/null is no regular file (ENOTREG)',
    );
  });
});

const ORIGIN_OF_ANOTHER = 'log.example/other';
