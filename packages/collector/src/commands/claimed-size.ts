/** How far a log goes by its newest checkpoint: a first look, before the log is read. */
import type { TreeReader } from '../store/contract/tree.js';
import { CommandFailure, EXIT } from './exit-codes.js';

/** Of a checkpoint (C2SP tlog-checkpoint): the origin, then the number of entries in decimal. */
const SIZE = /^[^\n]*\n(0|[1-9]\d{0,14})\n/;

/** How many entries the newest checkpoint claims; 0 when there is none that can be read. Nothing of it is verified. */
export async function claimedSize(tree: TreeReader): Promise<number> {
  const [, size = '0'] = SIZE.exec((await tree.head()) ?? '') ?? [];
  return Number(size);
}

/**
 * A disk that has lost the end of the log leaves no other trace of it than a checkpoint.
 * @param claimed what {@link claimedSize} returned before the log was read.
 * @throws CommandFailure when fewer entries can be read.
 */
export function assertReaches(entries: number, claimed: number): void {
  if (entries >= claimed) return;
  throw new CommandFailure(
    `the log can be read up to entry ${entries}, and a checkpoint was signed over ${claimed} entries; see collector verify`,
    EXIT.damaged,
  );
}
