/** The option `--access-log`: closed files of the access log that were moved elsewhere. */
import path from 'node:path';
import { exists } from '../files.js';
import type { AccessLogStore } from '../store/contract/access-log.js';
import { isAccessLogName } from '../tree/access-chain.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';

/**
 * @param log the access log, which must not have the same files: one of two would not be read.
 * @throws CommandFailure for a file that does not exist, or whose name is not one of a file elsewhere.
 */
export function closedFilesFrom(files: readonly string[], log: AccessLogStore): readonly string[] {
  if (files.length > 0 && log.files === undefined)
    throw usage('--access-log: the access log of a database has no closed files');
  const names = [...(log.files?.() ?? [])];
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
