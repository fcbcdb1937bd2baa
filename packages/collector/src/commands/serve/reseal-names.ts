/** Has a thread seal the names of the catalogue by a new key. */
import { catalogueDirectory, hasCatalogue, removeCatalogue } from '../../catalogue/catalogue.js';
import { LogThread } from '../log-thread.js';

/**
 * On return no name in the catalogue of a data directory is under another key than the newest one: where they could not be
 * sealed again, there is no catalogue, and the next update makes one.
 * @throws the reason of the signal.
 */
export async function resealNames(
  dataDir: string,
  onTrouble: (what: string, error: unknown) => void,
  signal: AbortSignal,
): Promise<void> {
  const directory = catalogueDirectory(dataDir);
  if (!hasCatalogue(directory)) return;
  const tell = (reason: unknown) =>
    onTrouble('the names of the catalogue could not be sealed by a new key; it is made again', reason);
  const file = new URL('names-thread.js', import.meta.url);
  const thread = new LogThread<undefined, undefined, string>(file, { workerData: dataDir }, (reason) =>
    tell(new Error(reason)),
  );
  const stop = () => thread.fail(signal.reason as Error);
  signal.addEventListener('abort', stop);
  try {
    await thread.do(undefined);
  } catch (error) {
    signal.throwIfAborted();
    tell(error);
    removeCatalogue(directory);
  } finally {
    signal.removeEventListener('abort', stop);
    await thread.stop();
  }
}
