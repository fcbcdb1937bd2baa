/** The option `--access-log`: closed files of the access log that were moved elsewhere. */
import path from 'node:path';
import { exists } from '../files.js';
import { openAccessLog } from '../store/open-access-log.js';
import { isAccessLogName } from '../tree/access-chain.js';
import { readMirrorNote } from '../tree/state-files.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';

/**
 * @param dataDir must not have the same files: one of two would not be read.
 * @param isShared whether the log is in a database, whose access log, like a mirror's copy, is never divided.
 * @throws CommandFailure for a file that does not exist, or whose name is not one of a file elsewhere.
 */
export function closedFilesFrom(
  files: readonly string[],
  dataDir: string,
  isShared = false,
): readonly string[] {
  if (files.length === 0) return files;
  if (isShared || readMirrorNote(dataDir) !== undefined)
    throw usage('--access-log: the access log of a database has no closed files');
  const names = [...(openAccessLog(dataDir).files?.() ?? [])];
  for (const file of files) {
    const name = path.basename(file);
    if (!isAccessLogName(name))
      throw usage(`--access-log: the name of ${file} is neither access.log nor access-YEAR.log`);
    if (names.includes(name))
      throw usage(`--access-log: ${name} is given twice, or is in the data directory`);
    if (!exists(file)) throw new CommandFailure(`there is no file ${file}`, EXIT.notFound);
    names.push(name);
  }
  return files;
}
