import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { EmbeddedStore } from '../../../src/store/embedded/embedded-store.js';
import { EventReader } from '../../../src/store/embedded/event-reader.js';
import { nodeFiles } from '../../../src/store/embedded/files.js';
import { storeConformance } from '../store-conformance.js';

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
        source: new EventReader(directory, nodeFiles),
        remove: () => fs.promises.rm(directory, { recursive: true }),
      });
    },
  });
}
