/** What `collector verify` says of events that no checkpoint speaks of, and of checkpoints that are not there any more. */
import { counted } from '../../quantity.js';
import type { VerifyFinding, Waiting } from '../../store/log-audit.js';

/** A collector signs about once a second: far longer than any trouble in signing should last. */
const LONGEST_WAIT_MS = 3_600_000;
/** What a Date can hold. */
const LAST_INSTANT_MS = 8.64e15;
const FILE = 'checkpoints/latest';

/** Up to an hour it is no fault: events wait for a moment, and a signer can be down. */
export function waitingFindings(count: number, waiting: Waiting | undefined): VerifyFinding[] {
  if (count === 0 || waiting === undefined) return [];
  const { sequence, oldest, newest } = waiting;
  const since = oldest <= LAST_INSTANT_MS ? new Date(oldest).toISOString() : 'a time that is none';
  const are = count === 1 ? 'is' : 'are';
  const message = `${counted(count, 'entry', 'entries')}, from number ${sequence} on, ${are} under no checkpoint yet; the oldest was received at ${since}`;
  if (newest - oldest <= LONGEST_WAIT_MS) return [{ kind: 'note', sequence, message }];
  const why =
    'more than an hour before the newest: nothing was signed for so long, or newer checkpoints were removed';
  return [{ kind: 'checkpoint_missing', sequence, file: FILE, message: `${message}, ${why}` }];
}

/**
 * @param size of the newest checkpoint of the data directory.
 * @param givenOut the largest size that a sink took before that checkpoint was read.
 */
export function givenOutFindings(size: number, givenOut: number): VerifyFinding[] {
  if (givenOut <= size) return [];
  const message = `checkpoints over more entries than ${size} were given out (sinks.json says ${givenOut})`;
  return [{ kind: 'checkpoint_missing', file: FILE, message }];
}
