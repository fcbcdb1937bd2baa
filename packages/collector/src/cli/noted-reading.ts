/** How a command notes in the access log that it reads events. */
import { accessLogPath, isLocked } from '../store/open.js';
import { beginReading, ReadOnly, type Reading, type ReadingEnd } from './access-log.js';
import { CommandFailure, EXIT } from './exit-codes.js';

/** What has been given out so far. The command keeps it up to date. */
export interface GivenOut {
  events: number;
  /** True once all that was asked for is given out. */
  complete: boolean;
}

/**
 * On return the beginning is noted, so that events may be given out. The end is noted when the process ends.
 * @throws CommandFailure when the reading cannot be noted; but a snapshot that cannot be written is read all the
 * same, with a warning. A directory that a collector holds is none, however this process has it mounted.
 */
export function noteReading(dataDir: string, reading: Reading): GivenOut {
  const end = begin(dataDir, reading);
  const givenOut: GivenOut = { events: 0, complete: false };
  // Also when nobody reads on (a closed pipe).
  process.once('exit', () => {
    try {
      end({ ...givenOut });
    } catch (error) {
      // What was given out cannot be taken back; that it began has been noted.
      process.stderr.write(`collector: ${error instanceof Error ? error.message : String(error)}\n`);
      process.exitCode = EXIT.failure;
    }
  });
  return givenOut;
}

function begin(dataDir: string, reading: Reading): (end: ReadingEnd) => void {
  try {
    return beginReading(dataDir, reading);
  } catch (error) {
    if (!(error instanceof ReadOnly)) throw error;
    if (isLocked(dataDir)) {
      throw new CommandFailure(
        `${error.message}, and nothing is read without a note of it there while a collector runs`,
        EXIT.failure,
        { cause: error },
      );
    }
    process.stderr.write(
      `collector: warning: ${accessLogPath(dataDir)} cannot be written, because the file system is read-only: ` +
        'this reading is not noted\n',
    );
    return () => undefined;
  }
}
