/** Directories that vanish with the test that asked for them. */
import fs from 'node:fs';
import { onTestFinished } from 'vitest';
import { temporaryDirectory } from './collector-process.js';

export function scratch(): string {
  const directory = temporaryDirectory();
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** With the same in it. */
export function copyOf(directory: string): string {
  const copy = scratch();
  fs.cpSync(directory, copy, { recursive: true });
  return copy;
}
