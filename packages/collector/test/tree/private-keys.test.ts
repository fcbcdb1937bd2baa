import fs from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createDurably } from '../../src/files.js';
import { signingDirectory, signingProgram } from '../../src/tree/key-files.js';
import { scratchDirectory } from '../access/scratch-keys.js';

test('a file is flushed before it has its name, and its name after', () => {
  const file = scratchDirectory('made');
  const steps: string[] = [];
  const sync = fs.fsyncSync;
  const spy = vi.spyOn(fs, 'fsyncSync').mockImplementation((fd) => {
    steps.push(
      `${fs.fstatSync(fd).isDirectory() ? 'directory' : 'file'} flushed, ${fs.existsSync(file) ? '' : 'not '}there`,
    );
    sync(fd);
  });
  onTestFinished(() => spy.mockRestore());
  createDurably(file, 'content');
  expect(steps).toEqual(['file flushed, not there', 'directory flushed, there']);
  expect(fs.readFileSync(file, 'utf8')).toBe('content');
  expect(fs.statSync(file).mode & 0o777).toBe(0o600);
  expect(fs.readdirSync(path.dirname(file))).toEqual(['made']);
});

test('a file that is there is never replaced', () => {
  const file = scratchDirectory('made');
  createDurably(file, 'first');
  expect(() => createDurably(file, 'second')).toThrow(expect.objectContaining({ code: 'EEXIST' }));
  expect(fs.readFileSync(file, 'utf8')).toBe('first');
  expect(fs.readdirSync(path.dirname(file))).toEqual(['made']);
});

test('a file that cannot be flushed is not made', () => {
  const file = scratchDirectory('made');
  const spy = vi.spyOn(fs, 'fsyncSync').mockImplementation(() => {
    throw new Error('no space');
  });
  onTestFinished(() => spy.mockRestore());
  expect(() => createDurably(file, 'content')).toThrow('no space');
  expect(fs.readdirSync(path.dirname(file))).toEqual([]);
});

test('[R-905] with a signing command, key files are in the data directory', () => {
  const [kept, asked] = [
    { dataDir: '/data', signingKeys: '/keys' },
    { dataDir: '/data', signingKeys: 'command:/sign' },
  ];
  expect([signingProgram(kept.signingKeys), signingDirectory(kept)]).toEqual([undefined, '/keys']);
  expect([signingProgram(asked.signingKeys), signingDirectory(asked)]).toEqual([
    '/sign',
    '/data/signing-keys',
  ]);
});
