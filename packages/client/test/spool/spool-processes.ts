/** Real processes with a spool, and a directory for it. */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { onTestFinished } from 'vitest';
import { openSpool } from '../../src/spool/disk-spool.js';
import type { SpooledEvent, SpoolOptions } from '../../src/spool/spool.js';

const SCRIPT = path.join(import.meta.dirname, 'spool-process.mjs');

export function scratchDirectory(): string {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'spool-'));
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  return path.join(directory, 'spool');
}

export interface SpoolProcess {
  readonly child: ChildProcessByStdio<null, Readable, Readable>;
  /** The lines that it has printed so far. */
  readonly lines: string[];
  /** Resolves once it has printed a line that begins like this. */
  said(start: string): Promise<void>;
  readonly ended: Promise<number | null>;
}

/** @param before the prefix of the command, for a restricted process. */
export function startProcess(
  wish: Readonly<Record<string, unknown>>,
  before: readonly string[] = [],
): SpoolProcess {
  const words = [...before, process.execPath, SCRIPT, JSON.stringify(wish)];
  const child = spawn(words[0] ?? '', words.slice(1), { stdio: ['ignore', 'pipe', 'pipe'] });
  const lines: string[] = [];
  let rest = '';
  const listeners = new Set<() => void>();
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const parts = (rest + text).split('\n');
    rest = parts.pop() ?? '';
    lines.push(...parts);
    for (const listener of listeners) listener();
  });
  const errors: string[] = [];
  child.stderr.setEncoding('utf8').on('data', (text: string) => errors.push(text));
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject).on('close', (code) => resolve(code));
  });
  const said = (start: string) =>
    new Promise<void>((resolve, reject) => {
      const look = () => {
        if (!lines.some((line) => line.startsWith(start))) return;
        listeners.delete(look);
        resolve();
      };
      listeners.add(look);
      ended.then(() => reject(new Error(`it ended without "${start}": ${errors.join('')}`))).catch(reject);
      look();
    });
  return { child, lines, said, ended };
}

export const nameOf = (event: SpooledEvent) =>
  (JSON.parse(Buffer.from(event.body).toString()) as { name: string }).name;

/** Takes all events that wait in the directory, marks them as done, and closes the spool. */
export async function drain(
  directory: string,
  more: Partial<SpoolOptions> = {},
): Promise<{ names: string[]; troubles: string[] }> {
  const troubles: string[] = [];
  const spool = await openSpool({
    ...{ directory, durability: 'os' },
    onTrouble: (what, error) => troubles.push(`${what}${error instanceof Error ? `: ${error.message}` : ''}`),
    ...more,
  });
  const names: string[] = [];
  while (spool.state.waiting > 0) {
    for (const event of await spool.take(1000, 1 << 20)) {
      names.push(nameOf(event));
      spool.done(event);
    }
  }
  await spool.take(1, 1, AbortSignal.timeout(20));
  await spool.close();
  return { names, troubles };
}
