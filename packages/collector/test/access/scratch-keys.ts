/** Key stores in directories that are deleted with the test. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { KeyDatabase } from '../../src/store/embedded/key-database.js';

/** A new data directory; `inside` names one in it that does not exist yet. */
export function scratchDirectory(inside = ''): string {
  const directory = mkdtempSync(path.join(tmpdir(), 'collector-keys-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return path.join(directory, inside);
}

/** The keys of a data directory, closed when the test ends. */
export function openKeys(dataDir = scratchDirectory()): KeyDatabase {
  const keys = KeyDatabase.open(dataDir);
  onTestFinished(() => keys.close());
  return keys;
}
