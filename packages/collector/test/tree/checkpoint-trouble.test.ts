import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { CheckpointTrouble, StateFileDamaged, readCheckpointTrouble } from '../../src/tree/state-files.js';
import { scratchDirectory } from './sample-log.js';

const AT = '2026-01-01T00:00:00.000Z';

function fileIn(dataDir: string): string {
  return path.join(dataDir, 'checkpoints', 'trouble.json');
}

describe('the trouble with checkpoints', () => {
  test('[R-903] is kept with its start and its newest reason, across restarts, until it ends', () => {
    const dataDir = scratchDirectory();
    let now = Date.parse(AT);
    const trouble = new CheckpointTrouble(dataDir, () => now);
    expect([trouble.over(), readCheckpointTrouble(dataDir)]).toEqual([false, undefined]);
    trouble.failed('the disk is full');
    expect(fs.statSync(fileIn(dataDir)).mode & 0o777).toBe(0o600);
    now += 5000;
    trouble.failed('no answer\n\u001b[2J');
    expect(readCheckpointTrouble(dataDir)).toEqual({ since: AT, reason: 'no answer [2J' });
    const next = new CheckpointTrouble(dataDir, () => now);
    next.failed('no key');
    expect(readCheckpointTrouble(dataDir)).toEqual({ since: AT, reason: 'no key' });
    expect([next.over(), next.over()]).toEqual([true, false]);
    expect(fs.readdirSync(path.dirname(fileIn(dataDir)))).toEqual([]);
    next.failed('no key');
    expect(readCheckpointTrouble(dataDir)?.since).toBe('2026-01-01T00:00:05.000Z');
  });

  test('is written once while its reason is the same', () => {
    const dataDir = scratchDirectory();
    const trouble = new CheckpointTrouble(dataDir);
    trouble.failed('no key');
    const written = fs.statSync(fileIn(dataDir)).ino;
    for (let i = 0; i < 5; i++) trouble.failed('no key');
    expect(fs.statSync(fileIn(dataDir)).ino).toBe(written);
  });

  test('throws nothing at the writer if its file cannot be written, and a reader reports a damaged file', () => {
    const dataDir = scratchDirectory();
    fs.writeFileSync(path.join(dataDir, 'checkpoints'), '');
    const trouble = new CheckpointTrouble(dataDir);
    trouble.failed('the disk is full');
    fs.rmSync(path.join(dataDir, 'checkpoints'));
    trouble.failed('the disk is full');
    expect(readCheckpointTrouble(dataDir)?.reason).toBe('the disk is full');
    for (const rubbish of [
      '',
      '[]',
      '{"since":"x","reason":"y"}',
      `{"since":"${AT}","reason":"a\\u001bb"}`,
    ]) {
      fs.writeFileSync(fileIn(dataDir), rubbish);
      expect(() => readCheckpointTrouble(dataDir)).toThrow(StateFileDamaged);
      expect(new CheckpointTrouble(dataDir).over()).toBe(true);
      expect(fs.existsSync(fileIn(dataDir))).toBe(false);
    }
  });
});
