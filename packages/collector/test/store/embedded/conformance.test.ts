import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { EmbeddedStore } from '../../../src/store/embedded/embedded-store.js';
import { EventReader } from '../../../src/store/embedded/event-reader.js';
import { nodeFiles } from '../../../src/store/embedded/files.js';
import { AccessLogFile } from '../../../src/store/embedded/access-log-file.js';
import { TreeFiles } from '../../../src/store/embedded/tree-files.js';
import { accessLogConformance } from '../access-log-conformance.js';
import { storeConformance } from '../store-conformance.js';
import { committedConformance, treeConformance } from '../tree-conformance.js';

const directoryFor = (what: string) => fs.mkdtempSync(path.join(os.tmpdir(), `collector-${what}-`));

for (const segmentBytes of [64 << 10, 4 << 20]) {
  storeConformance({
    name: `the embedded store with segments of ${segmentBytes >> 10} KiB`,
    makePlace: () => {
      const directory = directoryFor('store');
      return Promise.resolve({
        open: () =>
          EmbeddedStore.open({
            directory,
            segmentBytes,
            onTrouble: (what, error) => {
              throw new Error(what, { cause: error });
            },
          }),
        source: new EventReader(directory, nodeFiles),
        remove: () => fs.promises.rm(directory, { recursive: true }),
      });
    },
  });
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
  makePlace() {
    const directory = directoryFor('access-log');
    return {
      open: () => new AccessLogFile(directory),
      remove: () => fs.rmSync(directory, { recursive: true }),
    };
  },
});
