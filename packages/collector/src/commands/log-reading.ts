/** How a command reads the log itself, in a data directory or a database: nothing is read before the access is logged. */
import type { Config } from '../config.js';
import type { EntryLog, EventLog } from '../store/contract/events.js';
import type { TreeReader } from '../store/contract/tree.js';
import { isLocked } from '../store/directory-lock.js';
import { describeStore, isShared } from '../store/open.js';
import { claimedSize, openStore, withSharedView } from '../store/open-to-read.js';
import { type Access, type GivenOut, logAccess, logSharedAccess } from './access-log.js';
import { assertReadable } from './regular-files.js';

export interface LogReading {
  readonly events: EntryLog;
  /** The same log, where it is in files and not in a database. */
  readonly files: EventLog | undefined;
  readonly tree: TreeReader;
  /** A directory with the public keys of the log. */
  readonly dataDir: string;
  /** What messages call the place of the log. */
  readonly place: string;
  /** How many entries the newest checkpoint claims, seen before anything was read. */
  readonly claimed: number;
  readonly givenOut: GivenOut;
  /** Whether a collector may be running, which signs what is not signed yet. */
  readonly mayBeSigned: () => boolean;
}

/**
 * The log is open while `work` runs.
 * @param directories that are read of a data directory; all of them unless given.
 * @throws CommandFailure when there is no log, or the access cannot be logged.
 */
export async function readLog<Result>(
  config: Config,
  access: Access,
  work: (reading: LogReading) => Promise<Result>,
  directories?: readonly string[],
): Promise<Result> {
  if (isShared(config))
    return withSharedView(config, async ({ shared: { events, tree, accessLog }, dataDir }) => {
      const givenOut = await logSharedAccess(accessLog, access);
      try {
        const claimed = await claimedSize(tree);
        const place = describeStore(config);
        const more = { files: undefined, mayBeSigned: () => true };
        return await work({ events, tree, dataDir, place, claimed, givenOut, ...more });
      } finally {
        await givenOut.end();
      }
    });
  const { dataDir } = config;
  assertReadable(dataDir, directories);
  const { events, tree } = openStore(dataDir);
  try {
    const claimed = await claimedSize(tree);
    const givenOut = logAccess(dataDir, access);
    const mayBeSigned = () => isLocked(dataDir);
    const more = { files: events, place: dataDir, mayBeSigned };
    return await work({ events, tree, dataDir, claimed, givenOut, ...more });
  } finally {
    await tree.close();
    await events.close();
  }
}
