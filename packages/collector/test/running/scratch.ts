/** Directories that are deleted at the end of the test that made them. */
import fs from 'node:fs';
import { onTestFinished } from 'vitest';
import { temporaryDirectory } from './collector-process.js';

export function scratch(): string {
  const directory = temporaryDirectory();
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** A copy of a directory. */
export function copyOf(directory: string): string {
  const copy = scratch();
  fs.cpSync(directory, copy, { recursive: true });
  return copy;
}
