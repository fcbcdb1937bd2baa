/** Data directories with events in them, made without a collector. */
import fs from 'node:fs';
import path from 'node:path';
import { openKeys } from '../../../src/privacy/open-keys.js';
import type { Suite } from '../../../src/privacy/sealing.js';
import { EmbeddedStore, type Encryption } from '../../../src/store/embedded/embedded-store.js';
import { nodeFiles, type Files } from '../../../src/files.js';
import { decodeFrame, frameSize } from '../../../src/store/embedded/frame.js';
import { readToEnd } from '../../../src/store/embedded/log-frames.js';
import { FrameOpener } from '../../../src/store/embedded/sealed-frame.js';
import { listSegments, SEGMENT_HEADER_BYTES } from '../../../src/store/embedded/segment.js';
import type { Candidate, StoredEntry, StoredEvent } from '../../../src/store/contract/events.js';

/** Encrypts payloads, by keys in `encryption-keys` of the directory or another directory. */
export function encryptionIn(
  directory: string,
  {
    suite = 1,
    directories = [path.join(directory, 'encryption-keys')],
    files = nodeFiles,
  }: { suite?: Suite; directories?: readonly string[]; files?: Files } = {},
): Encryption {
  const places = { directories, kek: '' };
  for (const each of directories)
    if (fs.lstatSync(each, { throwIfNoEntry: false }) === undefined) fs.mkdirSync(each, { recursive: true });
  const onTrouble = () => undefined;
  return { suite, openKeys: (ledgerId) => openKeys({ files, places, ledgerId, onTrouble }) };
}

/** Stores the batches in order; on return the store is closed in order. */
export async function fillDirectory(
  directory: string,
  batches: readonly (readonly Candidate[])[],
  segmentBytes = 64 << 10,
  encryption?: Encryption,
): Promise<void> {
  const onTrouble = () => undefined;
  const store = await EmbeddedStore.open({
    directory,
    segmentBytes,
    onTrouble,
    ...(encryption && { encryption }),
  });
  for (const batch of batches) await store.append(batch);
  await store.close();
}

/** Every entry of the segments, opened, valid until the next: without a promise, beside a collector too. */
export function* storedEntries(directory: string, files = nodeFiles): Generator<StoredEntry> {
  const segments = listSegments(files, path.join(directory, 'ledger'));
  const opener = FrameOpener.of(directory, nodeFiles);
  for (const { buffer, offsets, end } of readToEnd(files, segments)) {
    opener.readAgain();
    for (const [i, offset] of offsets.entries()) {
      opener.open(buffer, offset, (offsets[i + 1] ?? end) - offset);
      yield decodeFrame(buffer, offset);
    }
  }
}

/** Without the log's own entries. */
export function* storedEvents(directory: string, files = nodeFiles): Generator<StoredEvent> {
  for (const entry of storedEntries(directory, files))
    if (typeof entry.kind === 'string') yield entry as StoredEvent;
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
