import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { EmbeddedStore } from '../../../src/store/embedded/embedded-store.js';
import { AccessLogFile } from '../../../src/store/embedded/access-log-file.js';
import { nodeFiles } from '../../../src/files.js';
import { frameSequence } from '../../../src/store/embedded/frame.js';
import { readFrames } from '../../../src/store/embedded/log-frames.js';
import { LogReader } from '../../../src/store/embedded/log-reader.js';
import { listSegments, SEGMENT_HEADER_BYTES } from '../../../src/store/embedded/segment.js';
import { TreeFiles } from '../../../src/store/embedded/tree-files.js';
import { accessLogConformance } from '../access-log-conformance.js';
import { storeConformance } from '../store-conformance.js';
import { committedConformance, treeConformance } from '../tree-conformance.js';
import { encryptionIn, flipBit } from './filled-directory.js';

const directoryFor = (what: string) => fs.mkdtempSync(path.join(os.tmpdir(), `collector-${what}-`));

for (const { segmentBytes, suite } of [
  { segmentBytes: 64 << 10, suite: undefined },
  { segmentBytes: 4 << 20, suite: undefined },
  { segmentBytes: 64 << 10, suite: 1 as const },
  { segmentBytes: 64 << 10, suite: 2 as const },
]) {
  storeConformance({
    name: `the embedded store with segments of ${segmentBytes >> 10} KiB, ${suite ? `encrypted by suite ${suite}` : 'plain'}`,
    makePlace: () => {
      const directory = directoryFor('store');
      return Promise.resolve({
        open: () =>
          EmbeddedStore.open({
            directory,
            segmentBytes,
            ...(suite && { encryption: encryptionIn(directory, { suite }) }),
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
for (const segmentBytes of [64 << 10, 4 << 20]) {
  committedConformance({
    name: `what the embedded store has committed, in segments of ${segmentBytes >> 10} KiB`,
    async open() {
      const directory = directoryFor('committed');
      const onTrouble = (what: string, error: unknown) => {
        throw new Error(what, { cause: error });
      };
      const store = await EmbeddedStore.open({ directory, segmentBytes, onTrouble });
      return {
        ...{ store, committed: store.committed },
        async close() {
          await store.close();
          fs.rmSync(directory, { recursive: true });
        },
      };
    },
  });
}

treeConformance({
  name: 'the tree in files',
  makePlace() {
    const directory = directoryFor('tree');
    return {
      open: () => Promise.resolve(TreeFiles.open(directory, nodeFiles)),
      read: () => TreeFiles.read(directory, nodeFiles),
      remove: () => fs.promises.rm(directory, { recursive: true }),
    };
  },
});

accessLogConformance({
  name: 'the access log in a file',
  as: (line) => line,
  makePlace() {
    const directory = directoryFor('access-log');
    return {
      open: () => new AccessLogFile(directory),
      remove: () => fs.rmSync(directory, { recursive: true }),
    };
  },
});
