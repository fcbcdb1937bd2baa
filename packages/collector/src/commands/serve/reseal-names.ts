/** Re-encrypts the names in the catalogue with a new key, in a thread. */
import { catalogueDirectory, hasCatalogue, removeCatalogue } from '../../catalogue/catalogue.js';
import { LogThread } from '../log-thread.js';

/**
 * On return every name in the catalogue is encrypted with the newest key. If that fails, the catalogue is
 * removed, and the next update creates a new one.
 * @throws the reason of the signal.
 */
export async function resealNames(
  dataDir: string,
  onTrouble: (what: string, error: unknown) => void,
  signal: AbortSignal,
): Promise<void> {
  const directory = catalogueDirectory(dataDir);
  if (!hasCatalogue(directory)) return;
  const report = (reason: unknown) =>
    onTrouble('the names in the catalogue could not be re-encrypted; the catalogue is rebuilt', reason);
  const file = new URL('names-thread.js', import.meta.url);
  const thread = new LogThread<undefined, undefined, string>(file, { workerData: dataDir }, (reason) =>
    report(new Error(reason)),
  );
  const stop = () => thread.fail(signal.reason as Error);
  signal.addEventListener('abort', stop);
  try {
    await thread.do(undefined);
  } catch (error) {
    signal.throwIfAborted();
    report(error);
    removeCatalogue(directory);
  } finally {
    signal.removeEventListener('abort', stop);
    await thread.stop();
  }
}
