/** Data directories with events in them, made without a collector. */
import fs from 'node:fs';
import path from 'node:path';
import { EmbeddedStore } from '../../../src/store/embedded/embedded-store.js';
import { frameSize } from '../../../src/store/embedded/frame.js';
import { SEGMENT_HEADER_BYTES } from '../../../src/store/embedded/segment.js';
import type { Candidate } from '../../../src/store/store.js';

/** Stores the batches in order; on return the store is closed and in order. */
export async function fillDirectory(
  directory: string,
  batches: readonly (readonly Candidate[])[],
  segmentBytes = 64 << 10,
): Promise<void> {
  const store = await EmbeddedStore.open({ directory, segmentBytes, onTrouble: () => undefined });
  for (const batch of batches) await store.append(batch);
  await store.close();
}

export function segmentPaths(directory: string): string[] {
  const ledger = path.join(directory, 'ledger');
  return fs
    .readdirSync(ledger)
    .filter((name) => name.endsWith('.segment'))
    .sort()
    .map((name) => path.join(ledger, name));
}

/** Where in the file of a segment the frame of `sequence` begins, when `events` are all of the ledger's. */
export function frameOffset(segmentPath: string, events: readonly Candidate[], sequence: number): number {
  const first = Number.parseInt(path.basename(segmentPath), 10);
  return events
    .slice(first - 1, sequence - 1)
    .reduce((offset, event) => offset + frameSize(event), SEGMENT_HEADER_BYTES);
}

export function flipBit(file: string, offset: number): void {
  const bytes = fs.readFileSync(file);
  bytes[offset] = (bytes[offset] ?? 0) ^ 0x10;
  fs.writeFileSync(file, bytes);
}
