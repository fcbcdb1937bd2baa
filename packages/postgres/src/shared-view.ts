/**
 * A view of a log in a database for commands that read: a connection, and a temporary directory with the
 * log's public keys and kept checkpoints, laid out like a data directory.
 */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { SharedView } from '@clinical-events/collector/store/contract/driver';
import type { OpenSharedStore } from '@clinical-events/collector/store/contract/opened';
import { checkpointDirectory } from '@clinical-events/collector/store/open-to-read';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Opens a view for `work`. Closes the log and removes the directory, even if `work` throws. */
export async function withView<Result>(
  shared: OpenSharedStore,
  work: (view: SharedView) => Promise<Result>,
): Promise<Result> {
  const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-view-'));
  const remove = () => fs.rmSync(dataDir, { recursive: true, force: true });
  // The directory may hold a copy of the log. A signal ends a process without an 'exit' event.
  const stop = (signal: NodeJS.Signals) => {
    remove();
    process.kill(process.pid, signal);
  };
  process.once('exit', remove);
  for (const signal of SIGNALS) process.once(signal, stop);
  try {
    await shared.publicKeys.pull(dataDir);
    const directory = checkpointDirectory(dataDir);
    fs.mkdirSync(directory, { recursive: true, mode: 0o700 });
    for (const { size, note } of await shared.checkpoints()) {
      fs.writeFileSync(path.join(directory, `${String(size).padStart(16, '0')}.checkpoint`), note);
    }
    return await work({ shared, dataDir });
  } finally {
    await shared.close();
    process.off('exit', remove);
    for (const signal of SIGNALS) process.off(signal, stop);
    remove();
  }
}
