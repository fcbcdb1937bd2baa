/**
 * What commands need to read a log in a database: a connection, and a directory with what is public of it, its keys and
 * the checkpoints that are kept, as a data directory has them.
 */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Config } from '../config.js';
import {
  checkpointDirectory,
  openSharedStore,
  type OpenSharedStore,
  sharedKeyPlaces,
} from '../store/open-to-read.js';
import { pullKeys } from '../transparency/shared-keys.js';

export interface SharedView {
  readonly shared: OpenSharedStore;
  /** For its owner alone, and gone when the work is done. */
  readonly dataDir: string;
}

/** @throws when the database cannot be reached, or holds no log that can be read. */
export async function withSharedView<Result>(
  config: Pick<Config, 'store' | 'dataDir'>,
  work: (view: SharedView) => Promise<Result>,
): Promise<Result> {
  const shared = await openSharedStore(config, sharedKeyPlaces(config.dataDir));
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-view-'));
  const remove = () => fs.rmSync(dataDir, { recursive: true, force: true });
  process.once('exit', remove);
  try {
    await pullKeys(dataDir, shared.publicKeys);
    const directory = checkpointDirectory(dataDir);
    fs.mkdirSync(directory, { recursive: true, mode: 0o700 });
    for (const { size, note } of await shared.checkpoints()) {
      fs.writeFileSync(path.join(directory, `${String(size).padStart(16, '0')}.checkpoint`), note);
    }
    return await work({ shared, dataDir });
  } finally {
    await shared.close();
    process.off('exit', remove);
    remove();
  }
}
