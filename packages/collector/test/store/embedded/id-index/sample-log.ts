import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { Fingerprint, nameOf } from '../../../../src/store/embedded/id-index/sorted-run-format.js';
import type { IdIndexReader } from '../../../../src/store/embedded/id-index/sorted-runs.js';
import type { IdIndex } from '../../../../src/store/embedded/id-index/id-index.js';
import { RunWriter, type Files } from '../../../../src/store/embedded/id-index/sorted-run-writer.js';

/** A log in which event number n has id n and lies at address 10 n: a test that knows n can ask for it. */
export const FRAME = 10;
export const KEY = { k0: 0x1234_5678, k1: 0x9abc_def0 };

export function scratchDirectory(): string {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'id-index-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

export function idOf(number: number): Uint8Array {
  const id = new Uint8Array(16);
  new DataView(id.buffer).setUint32(12, number);
  return id;
}

export function addEvents(index: IdIndex, from: number, to: number): void {
  for (let number = from; number < to; number++) {
    index.fingerprint('organisation', idOf(number), 0);
    index.add(index.hi, index.lo, number * FRAME);
  }
}

/** The addresses that the index offers for event `number`, ascending. */
export function candidates(index: IdIndexReader, number: number): number[] {
  const out: number[] = [];
  index.fingerprint('organisation', idOf(number), 0);
  return out.slice(0, index.find(index.hi, index.lo, out)).sort((a, b) => a - b);
}

/** The events in [from, to) that the index does not offer at exactly their address. */
export function missing(index: IdIndexReader, from: number, to: number): number[] {
  const lost: number[] = [];
  for (let number = from; number < to; number++) {
    const found = candidates(index, number);
    if (found.length !== 1 || found[0] !== number * FRAME) lost.push(number);
  }
  return lost;
}

/** Publishes events [from, to) as one run, as the writing thread would; returns its file name. */
export function writeRun(files: Files, directory: string, level: number, from: number, to: number): string {
  const fingerprint = new Fingerprint(KEY);
  const entries: [number, number, number][] = [];
  for (let number = from; number < to; number++) {
    fingerprint.of('organisation', idOf(number), 0);
    entries.push([fingerprint.hi, fingerprint.lo, number * FRAME]);
  }
  entries.sort(([a, b], [c, d]) => a - c || b - d);
  const header = { level, ...KEY, count: entries.length, from: from * FRAME, to: to * FRAME };
  const writer = new RunWriter(files, directory, header);
  for (const [hi, lo, address] of entries) writer.add(hi, lo, address, 0);
  writer.finish();
  return nameOf(header);
}
