import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { EmbeddedStore } from '../../../src/store/embedded/embedded-store.js';
import { nodeFiles } from '../../../src/files.js';
import { frameSequence } from '../../../src/store/embedded/frame.js';
import { readFrames } from '../../../src/store/embedded/log-frames.js';
import { LogReader } from '../../../src/store/embedded/log-reader.js';
import { listSegments, SEGMENT_HEADER_BYTES } from '../../../src/store/embedded/segment.js';
import { storeConformance } from '../store-conformance.js';
import { flipBit } from './filled-directory.js';

for (const segmentBytes of [64 << 10, 4 << 20]) {
  storeConformance({
    name: `the embedded store with segments of ${segmentBytes >> 10} KiB`,
    makePlace: () => {
      const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-store-'));
      return Promise.resolve({
        open: () =>
          EmbeddedStore.open({
            directory,
            segmentBytes,
            onTrouble: (what, error) => {
              throw new Error(what, { cause: error });
            },
          }),
        read: () => new LogReader(directory, nodeFiles),
        spoil: (sequence) => spoil(directory, sequence),
        loseIndex: () => fs.rmSync(path.join(directory, 'index'), { recursive: true }),
        remove: () => fs.promises.rm(directory, { recursive: true }),
      });
    },
  });
}

function spoil(directory: string, sequence: number): () => void {
  const segments = listSegments(nodeFiles, path.join(directory, 'ledger'));
  const segment = segments.findLast(({ firstSequence }) => firstSequence <= sequence);
  for (const { buffer, offset, size, address } of readFrames(nodeFiles, segments)) {
    if (segment === undefined || frameSequence(buffer, offset) !== sequence) continue;
    const flip = () => flipBit(segment.path, address + size - 5 - segment.base + SEGMENT_HEADER_BYTES);
    flip();
    return flip;
  }
  throw new Error(`there is no entry ${sequence}`);
}
