/**
 * How a command reads the log in a data directory or a database: the access is logged before anything is
 * read.
 */
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
  /** The same log if it is in files and not in a database. */
  readonly files: EventLog | undefined;
  readonly tree: TreeReader;
  /** A directory with the log's public keys. */
  readonly dataDir: string;
  /** The location of the log, for messages. */
  readonly place: string;
  /** The number of entries that the newest checkpoint claims, read before anything else. */
  readonly claimed: number;
  readonly givenOut: GivenOut;
  /** Whether a collector may be running, which signs unsigned entries. */
  readonly mayBeSigned: () => boolean;
}

/**
 * Opens the log for the duration of `work`.
 * @param directories the parts of a data directory that are read; default all.
 * @throws CommandFailure if there is no log, or the access cannot be logged.
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
