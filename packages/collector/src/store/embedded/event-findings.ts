/** In words, what became of an event or of a stretch of the log: for `collector verify`. */
import type { EventFault } from '../../integrity/audit.js';
import { commitmentOf, HASH_BYTES, leafHash, type HashSource } from '../../integrity/merkle.js';
import type { Rest } from './forensic-reader.js';
import { checksumHolds, plausibleSize } from './frame.js';
import { alteredFields, eventIdText, partsOf } from './frame-parts.js';
import { counted } from '../../quantity.js';
import { eventRange, type VerifyFinding } from '../log-audit.js';

/** Where something lies in the log. */
export interface Place {
  readonly file: string;
  readonly offset: number;
}

/** The bytes of one event's frame as they lie in the log, and where. */
export interface FrameBytes extends Place {
  readonly frame: Buffer;
  readonly sequence: number;
  /** Durable-before of the frame in front of it; undefined when that is not known. */
  readonly before: number | undefined;
}

/** The leaf that an event should have, if any is known. */
export interface Expected {
  readonly leaf: Buffer | undefined;
  /** Whether a checkpoint speaks of the event, also when no leaf of it is known. */
  readonly covered?: boolean;
  /** Whether a signed root comes out with it. */
  readonly proven: boolean;
}

function at({ file, offset }: Place): string {
  return `${file}, byte ${offset}`;
}

/** What of an event is not what was written; undefined when nothing is, or the bytes can be no event's at all. */
export function alteredFinding(
  bytes: FrameBytes,
  { leaf, proven, covered = false }: Expected,
): VerifyFinding | undefined {
  const { frame, sequence, file, offset, before } = bytes;
  const id = eventIdText(frame);
  const event = `event ${sequence}${id === undefined ? '' : ` (${id})`}`;
  const told = (message: string): VerifyFinding => ({
    ...{ kind: 'altered', sequence, ...(id !== undefined && { event_id: id }), file, offset },
    message: `${message}${fitted(frame)}; ${at(bytes)}`,
  });
  const parts = partsOf(frame);
  if (parts === undefined) {
    if (plausibleSize(frame, 0, frame.length) !== frame.length) return undefined;
    return told(`the payload of ${event} was removed or replaced: the frame has no room for a salt`);
  }
  const { envelope, commitment, salted } = parts;
  const found = commitmentOf(salted);
  const fits = found.equals(commitment);
  const fields = alteredFields(frame, sequence, before).join(', ');
  if (leaf === undefined) {
    const which = `${event}, ${covered ? 'whose hash the tree lacks' : 'which is under no checkpoint'},`;
    if (!fits) return told(`the payload of ${which} does not fit the commitment to it`);
    return fields === '' ? undefined : told(`the frame of ${which} has changed (${fields})`);
  }
  const [one, all] = proven
    ? ['the one that was signed', 'those that were signed']
    : ['the one that the tree holds', 'those that the tree holds'];
  if (leafOf(envelope, commitment).equals(leaf)) {
    if (!fits) return told(`the payload of ${event}, or its salt, is not ${one}; its envelope is`);
    if (fields === '') return undefined;
    return told(`the frame of ${event} has changed (${fields}); its envelope and payload are ${all}`);
  }
  if (leafOf(envelope, found).equals(leaf)) {
    return told(`the frame of ${event} has changed (commitment); its envelope and payload are ${all}`);
  }
  const what = fits
    ? 'its envelope has changed, or its payload together with the commitment to it'
    : 'more than one of its envelope, its payload and the commitment to it has changed';
  return told(`${event} is not ${one}: ${what}`);
}

/** A checksum does not come to fit by accident. */
function fitted(frame: Buffer): string {
  return checksumHolds(frame, 0, frame.length) ? '; the checksum of its frame was made to fit' : '';
}

function leafOf(envelope: Buffer, commitment: Buffer): Buffer {
  const leaf = Buffer.alloc(HASH_BYTES);
  leafHash(envelope, commitment, leaf, 0);
  return leaf;
}

/** An event that is not where it was, or was not there. */
export function misplacedFinding(
  fault: Extract<EventFault, { kind: 'inserted' | 'reordered' }>,
  bytes: FrameBytes,
): VerifyFinding {
  const { file, offset } = bytes;
  const sequence = fault.logIndex + 1;
  const id = eventIdText(bytes.frame) ?? '';
  const event = `event ${sequence} (${id})`;
  const was = fault.proven ? 'was signed' : 'is in the tree';
  const message =
    fault.kind === 'inserted'
      ? `${event} was slipped in: no such event ${was}`
      : `${event} stands in another place: it ${fault.proven ? 'was signed' : 'is in the tree'} as event ${fault.index + 1}`;
  return { kind: fault.kind, sequence, event_id: id, file, offset, message: `${message}; ${at(bytes)}` };
}

export interface LogEnd {
  /** The checkpoint that says that there were more. */
  readonly source: string;
  readonly size: number;
  /** How many the log holds. */
  readonly entries: number;
  /** The largest checkpoint that the log agrees with, and that the others agree with too. */
  readonly agreesTo: number;
  /** The smallest checkpoint of another history, when this log has signed its own behind `agreesTo`. */
  readonly partsBy: number | undefined;
}

/** @param goesOn the event behind the missing ones; undefined when there is none. */
export function missingFinding(
  { index, count, proven }: Extract<EventFault, { kind: 'missing' }>,
  goesOn: FrameBytes | undefined,
  end: LogEnd,
): VerifyFinding {
  const { source, size, entries, agreesTo } = end;
  const sequence = index + 1;
  const [range, are, were] = [
    eventRange(sequence, count),
    count === 1 ? 'is' : 'are',
    count === 1 ? 'was' : 'were',
  ];
  if (goesOn !== undefined) {
    const { file, offset, frame } = goesOn;
    const known = proven ? `${were} signed` : `${are} in the tree`;
    const message =
      `${range} ${are} missing: ${count === 1 ? 'it' : 'they'} ${known}, and the log goes on with ` +
      `event ${eventIdText(frame) ?? ''} instead; ${at(goesOn)}`;
    return { kind: 'missing', sequence, file, offset, message };
  }
  const signed = `${source} was signed over ${counted(size, 'entry', 'entries')}`;
  if (!proven && end.partsBy !== undefined) return forkedEnd(signed, end, end.partsBy);
  const message = proven
    ? `${range} ${are} missing from the end of the log, or this is an older copy of it: ${signed}`
    : `${signed}, and the log holds ${entries}: ${counted(count, 'entry', 'entries')} ${are} missing from its end or, if the others ` +
      `were numbered anew, from anywhere${agreesTo === 0 ? '' : ` behind event ${agreesTo}`}; or this is an older copy of it`;
  return { kind: 'missing', sequence, message };
}

/** What this log lacks of the other history: what it has in the place of these events is none of them. */
function forkedEnd(signed: string, { size, entries, agreesTo }: LogEnd, partsBy: number): VerifyFinding {
  const sequence = agreesTo + 1;
  const lost = eventRange(sequence, size - agreesTo);
  const missing =
    partsBy === sequence
      ? `${lost} of it ${size === sequence ? 'is' : 'are'} missing`
      : `${lost} of it are missing, save those before event ${partsBy} that both have`;
  const message = `${signed}, and this log, of ${counted(entries, 'entry', 'entries')}, has others in their place: ${missing}`;
  return { kind: 'missing', sequence, message };
}

/**
 * A stretch of the log that holds no events that can be read.
 * @param count the events that it stands for.
 */
export function restFinding(
  { kind, bytes, sequence, count: said }: Rest,
  count: number,
  place: Place,
): VerifyFinding | undefined {
  const range = eventRange(sequence, count);
  const are = count === 1 ? 'is' : 'are';
  const these = counted(bytes, 'byte');
  switch (kind) {
    case 'missing': {
      if (count === 0) {
        const numbers =
          said === 1 ? `number ${sequence} was` : `numbers ${sequence} to ${sequence + said - 1} were`;
        const message = `${numbers} skipped: no event is missing, and those from here on were numbered anew; ${at(place)}`;
        return { kind: 'altered', sequence, ...place, message };
      }
      const where = sequence === 1 ? 'the log begins with' : `event ${sequence - 1} is followed by`;
      const message = `${range} ${are} missing: ${where} event ${sequence + count}; ${at(place)}`;
      return { kind, sequence, ...place, message };
    }
    case 'damaged':
    case 'unreadable': {
      if (count > 0) {
        const message = `${range} cannot be read: the ${these} in ${count === 1 ? 'its' : 'their'} place hold no frame; ${at(place)}`;
        return { kind: 'unreadable', sequence, ...place, message };
      }
      const message = `${these} that are no event were slipped in before event ${sequence}; ${at(place)}`;
      return { kind: 'inserted', sequence, ...place, message };
    }
    case 'torn': {
      const message =
        `${these} behind the last event, most likely of a batch that was never acknowledged; unless a collector is ` +
        `just writing them, the next start moves them to ledger/torn; ${at(place)}`;
      return { kind: 'note', ...place, message };
    }
    case 'spare':
      return {
        kind: 'note',
        ...place,
        message: `${these} that are no event, and that nothing reads; ${at(place)}`,
      };
    case 'empty':
    case 'overlap':
      return undefined;
  }
}

/** A segment that cannot have been written where it is; undefined for all else. */
export function placeFinding({ kind, sequence, count }: Rest, { file }: Place): VerifyFinding | undefined {
  if (kind === 'empty') {
    const message = `${file} holds no event, and others follow it: it was slipped in, or emptied`;
    return { kind: 'inserted', sequence, file, message };
  }
  if (kind !== 'overlap') return undefined;
  const message =
    `${file} begins at event ${sequence}, and the segment in front of it ends with event ${sequence + count - 1}: one of ` +
    'them was slipped in, or numbered anew';
  return { kind: 'inserted', sequence, file, message };
}

/** The leaf of an event as its frame says it; undefined when that cannot be read. */
export function ownLeaf(frame: Buffer): Buffer | undefined {
  const parts = partsOf(frame);
  return parts && leafOf(parts.envelope, parts.commitment);
}

/** The leaf that is stored for an event, if a signed root speaks of it. */
export async function storedLeaf(
  stored: HashSource,
  index: number,
  covered: number,
): Promise<Buffer | undefined> {
  if (index >= covered) return undefined;
  const leaf = await stored.hashes(0, index, 1);
  return leaf.length === HASH_BYTES ? leaf : undefined;
}
