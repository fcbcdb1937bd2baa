/**
 * Why the index refuses.
 *
 * corrupt  a published run is not what was written. The run has been thrown away if this process may write;
 *          the answer in hand is unknown. Abandon the index, open it again, add from `coveredTo` on.
 * full     entries cannot be taken in because the disk takes none out (`cause` says why). Nothing was added;
 *          the same call succeeds once a table could be written.
 */
export type IdIndexErrorCode = 'corrupt' | 'full';

export class IdIndexError extends Error {
  override readonly name = 'IdIndexError';

  constructor(
    readonly code: IdIndexErrorCode,
    message: string,
    options?: ErrorOptions,
    /** The file name of the damaged run. */
    readonly run?: string,
  ) {
    super(message, options);
  }
}
