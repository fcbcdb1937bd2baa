import fs from 'node:fs';
import path from 'node:path';
import { NoteForged, splitNotes } from '@clinical-events/protocol/verify';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { DirectorySink, FileSink } from '../../src/tree/disk-sinks.js';
import { verifyNote } from '../../src/tree/note-signing.js';
import { newKey, ORIGIN, SampleLog, scratchDirectory } from './sample-log.js';

const log = new SampleLog();
const quiet = () => undefined;

function nameOf(size: number, again = ''): string {
  return `${String(size).padStart(16, '0')}${again}.checkpoint`;
}

function contents(directory: string): Record<string, string> {
  const names = fs.readdirSync(directory).sort();
  return Object.fromEntries(names.map((name) => [name, fs.readFileSync(path.join(directory, name), 'utf8')]));
}

/** Gives each checkpoint to a sink of its own start. */
function give(directory: string, ...sizes: readonly number[]): void {
  for (const size of sizes) expect(new DirectorySink(directory).keep(log.note(size))).toBeUndefined();
}

describe('a directory sink', () => {
  test('[R-906] gives each checkpoint its own file, and accepts one that it already has', () => {
    const directory = scratchDirectory();
    give(directory, 0, 1, 200, 1);
    const held = { [nameOf(0)]: log.note(0), [nameOf(1)]: log.note(1), [nameOf(200)]: log.note(200) };
    expect(contents(directory)).toEqual(held);
    // The same tree, signed by another key.
    expect(new DirectorySink(directory).keep(new SampleLog(newKey()).note(200))).toBeUndefined();
    expect(contents(directory)).toEqual(held);
  });

  test('[R-906] leaves a file that was cut short at any byte, and gives the note another name', () => {
    const note = log.note(7);
    const whole = Buffer.from(note);
    for (let length = 0; length < whole.length; length++) {
      const directory = scratchDirectory();
      fs.writeFileSync(path.join(directory, nameOf(7)), whole.subarray(0, length));
      give(directory, 7, 7, 8);
      expect(contents(directory)).toMatchObject({ [nameOf(7, '-2')]: note, [nameOf(8)]: log.note(8) });
      expect(fs.statSync(path.join(directory, nameOf(7))).size).toBe(length);
    }
  });

  test('[R-906] uses one name on a full disk, and finishes that file when there is room', () => {
    const directory = scratchDirectory();
    const sink = new DirectorySink(directory);
    const write = fs.writeSync.bind(fs);
    const full = vi.spyOn(fs, 'writeSync');
    onTestFinished(() => full.mockRestore());
    // One more byte at each try.
    full.mockImplementation(((fd: number, bytes: Buffer, at: number) => {
      if (at % 2 === 0) return write(fd, bytes, at, 1);
      write(fd, bytes, at, 1);
      throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
    }) as typeof fs.writeSync);
    for (let i = 0; i < 20; i++) expect(() => sink.keep(log.note(7))).toThrow(/ENOSPC/);
    expect(fs.readdirSync(directory)).toEqual([nameOf(7)]);
    full.mockRestore();
    expect(sink.keep(log.note(7))).toBeUndefined();
    expect(contents(directory)).toEqual({ [nameOf(7)]: log.note(7) });
  });

  test('fails when every name for a size has other content', () => {
    const directory = scratchDirectory();
    fs.writeFileSync(path.join(directory, nameOf(8)), Buffer.alloc(200));
    for (let i = 2; i < 10; i++) fs.writeFileSync(path.join(directory, nameOf(8, `-${i}`)), 'rubbish');
    expect(() => new DirectorySink(directory).keep(log.note(8))).toThrow(/9 files for 8 entries/);
    fs.rmSync(path.join(directory, nameOf(8, '-9')));
    give(directory, 8);
  });

  test('[R-906] reports a checkpoint of another tree or log under its name, and leaves it', () => {
    const other = new SampleLog(newKey('log.example/other'), undefined, 'log.example/other');
    for (const note of [log.forkedAt(5).note(7), other.note(7)]) {
      const directory = scratchDirectory();
      fs.writeFileSync(path.join(directory, nameOf(7)), note);
      expect(new DirectorySink(directory).keep(log.note(7))).toBe(note);
      expect(contents(directory)).toEqual({ [nameOf(7)]: note });
    }
  });

  test('[R-906] returns the newest whole checkpoint, and skips other files', () => {
    const directory = scratchDirectory();
    expect(new DirectorySink(directory).newest(quiet)).toBe('');
    give(directory, 9, 200);
    fs.writeFileSync(path.join(directory, nameOf(9_999)), 'rubbish');
    fs.writeFileSync(path.join(directory, nameOf(8_888)), log.note(8).slice(0, -20));
    fs.writeFileSync(path.join(directory, nameOf(7_777)), Buffer.alloc(1 << 20, 'x'));
    fs.writeFileSync(path.join(directory, 'zzz.txt'), log.note(250));
    for (let i = 0; i < 100; i++) fs.writeFileSync(path.join(directory, String(i)), '');
    expect(new DirectorySink(directory).newest(quiet)).toBe(log.note(200));
  });

  test('is not created when it is missing, because a mount may be missing', () => {
    const directory = path.join(scratchDirectory(), 'worm');
    const sink = new DirectorySink(directory);
    for (const act of [() => sink.newest(quiet), () => sink.keep(log.note(7))]) expect(act).toThrow(/ENOENT/);
    expect(fs.existsSync(directory)).toBe(false);
  });
});

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

/** Gives the checkpoints to one sink, as it is started. */
function append(file: string, ...sizes: readonly number[]): FileSink {
  const sink = new FileSink(file);
  sink.newest();
  for (const size of sizes) sink.keep(log.note(size));
  return sink;
}

describe('a file sink', () => {
  test('[R-906] gets each checkpoint once, followed by an empty line', () => {
    const file = scratchFile();
    append(file, 0, 1);
    append(file, 1, 200);
    expect(held(file)).toBe(notes(0, 1, 200));
    expect(splitNotes(held(file))).toEqual([0, 1, 200].map((size) => log.note(size)));
  });

  test('[R-906] fails once after the file was cut, moved or deleted, and continues from what is there', () => {
    const file = scratchFile();
    const sink = append(file, 1, 2, 3);
    // Text that others append is not a loss.
    fs.appendFileSync(file, 'more\n\n');
    sink.keep(log.note(4));
    let size = 5;
    for (const act of [
      () => fs.truncateSync(file, 1),
      () => fs.rmSync(file),
      () => fs.renameSync(file, `${file}.1`),
    ]) {
      act();
      expect(() => sink.keep(log.note(size))).toThrow(/holds less/);
      sink.newest();
      sink.keep(log.note(size++));
    }
    sink.keep(log.note(size));
    expect(held(file)).toBe(notes(7, 8));
  });

  test('gets a note again that a crash cut short at any byte, and no other', () => {
    for (const before of ['', notes(1, 2)]) {
      const whole = Buffer.from(log.note(7));
      for (let length = 0; length < whole.length; length++) {
        const file = scratchFile(Buffer.concat([Buffer.from(before), whole.subarray(0, length)]));
        append(file, 7, 8);
        const split = splitNotes(held(file));
        expect(split.slice(-2)).toEqual([log.note(7), log.note(8)]);
        expect(split.length).toBe((before === '' ? 0 : 2) + (length === 0 ? 0 : 1) + 2);
      }
    }
  });

  test('separates a note that was cut short at any byte, so that it hides no other and does not look forged', () => {
    const whole = Buffer.from(`${log.note(7)}\n`);
    for (let length = 1; length < whole.length; length++) {
      const file = scratchFile(Buffer.concat([Buffer.from(notes(1)), whole.subarray(0, length)]));
      append(file, 8);
      append(file, 9);
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

  test('separates its notes by an empty line from other content of the file', () => {
    for (const before of ['', '\n', 'some text', 'some text\n', 'some text\n\n', notes(3).slice(0, -1)]) {
      const file = scratchFile(before);
      append(file, 7);
      expect(held(file).startsWith(before)).toBe(true);
      expect(splitNotes(held(file)).at(-1)).toBe(log.note(7));
    }
  });

  test('[R-906] returns the largest checkpoint at its end, and never an incomplete one', () => {
    expect(new FileSink(scratchFile()).newest()).toBe('');
    // Several collectors append in any order.
    expect(new FileSink(scratchFile(`${notes(1, 9, 3)}torn`)).newest()).toBe(log.note(9));
    const many = notes(...Array<number>(100).fill(100));
    for (let more = 0; more < notes(100).length; more += 4) {
      const file = scratchFile(`${many}${'x'.repeat(more)}\n\n${notes(100)}`);
      expect(new FileSink(file).newest().startsWith(`${ORIGIN}\n100\n`)).toBe(true);
    }
  });

  test('says that its directory is missing', () => {
    const file = path.join(scratchDirectory(), 'gone', 'checkpoints');
    expect(() => new FileSink(file).newest()).toThrow(/ENOENT.*gone'/);
  });
});
