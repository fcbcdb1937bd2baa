/** One round of a back-up, in this process. */
import { checkpointIn, newestCheckpoint } from '../../src/commands/verify/log-checkpoints.js';
import { dataDirectory, standingNotes } from '../../src/replica/data-directory.js';
import { backUp, checkpointThere } from '../../src/replica/replica.js';
import { copiedLog } from '../../src/store/open-to-copy.js';
import { openStore } from '../../src/store/open-to-read.js';

export async function round(dataDir: string, directory: string): Promise<void> {
  const agreed = checkpointThere(directory)?.size ?? 0;
  const standing = standingNotes(dataDir);
  const found = await newestCheckpoint(dataDir, openStore(dataDir).tree);
  const log = found && copiedLog(dataDir, { signed: found.newest.checkpoint.size, agreed });
  if (found === undefined || log === undefined) throw new Error('there is no log');
  const { history, newest } = found;
  const checkNote = (note: string) => void checkpointIn(note, history);
  const source = dataDirectory({
    dataDir,
    history,
    newest,
    log,
    standing,
    checkNote,
    signingKeys: undefined,
  });
  await backUp(directory, source, new Date().toISOString(), () => undefined);
}
