/** In words, what became of an entry or of a stretch of the log: for `collector verify`. It takes nothing on trust. */
import { SALT_BYTES } from '@clinical-events/protocol';
import { type HashFault, type RootVerdict, type Verdict, leavesBelow } from '../../integrity/audit.js';
import { HASH_BYTES, TILE_HASHES, commitmentOf, leafHash } from '../../integrity/merkle.js';
import { counted } from '../../quantity.js';
import { type CheckedRoot, type VerifyFinding, eventRange } from '../log-audit.js';
import { uuidText } from '../text.js';
import type { Rest } from './forensic-reader.js';
import {
  HEADER_BYTES,
  checksumHolds,
  envelopeEnd,
  frameCommitment,
  frameDurableBefore,
  frameEnvelope,
  frameEventId,
  framePayloadLength,
  framePayloadState,
  frameSaltLength,
  frameSalted,
  frameSequence,
  plausibleSize,
} from './frame.js';

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

/** A stretch of the log that holds no events that can be read. */
export function restFinding(rest: Rest, place: Place): VerifyFinding {
  const { kind, bytes, sequence, count } = rest;
  const range = eventRange(sequence, count);
  const these = counted(bytes, 'byte');
  const { file } = place;
  switch (kind) {
    case 'missing': {
      const are = count === 1 ? 'is' : 'are';
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
      return { kind: 'altered', sequence, ...place, message };
    }
    case 'torn': {
      const message =
        `${these} behind the last event, most likely of a batch that was never acknowledged; unless a collector is ` +
        `just writing them, the next start moves them to ledger/torn; ${at(place)}`;
      return { kind: 'note', ...place, message };
    }
    case 'spare': {
      const message = `${these} that are no event, and that nothing reads; ${at(place)}`;
      return { kind: 'note', ...place, message };
    }
    case 'empty': {
      const message = `${file} holds no event, and others follow it: it was slipped in, or emptied`;
      return { kind: 'forked', sequence, file, message };
    }
    case 'overlap': {
      const message =
        `${file} begins at event ${sequence - count}, and the segment in front of it ends with event ${sequence - 1}: ` +
        'one of them was slipped in, or numbered again';
      return { kind: 'forked', sequence, file, message };
    }
  }
}

/** The leaf of an event as its frame says it; undefined when that cannot be read. */
export function ownLeaf(frame: Buffer): Buffer | undefined {
  const parts = partsOf(frame);
  return parts && leafOf(parts.envelope, parts.commitment);
}

/** The payload state of every frame that this version writes. */
const PLAIN = 0;

interface FrameParts {
  readonly envelope: Buffer;
  readonly commitment: Buffer;
  /** The salt and the payload behind it. */
  readonly salted: Buffer;
}

/** The parts of all the bytes of a frame; undefined when the lengths in its envelope leave no room for a salt. */
function partsOf(frame: Buffer): FrameParts | undefined {
  if (frame.length < HEADER_BYTES || envelopeEnd(frame, 0) + SALT_BYTES > frame.length) return undefined;
  return {
    envelope: frameEnvelope(frame, 0),
    commitment: frameCommitment(frame, 0),
    salted: frameSalted(frame, 0, frame.length),
  };
}

/** The id in the frame, in its text form (RFC 9562); undefined when the frame is cut short before it ends. */
function eventIdText(frame: Buffer): string | undefined {
  if (frame.length < HEADER_BYTES) return undefined;
  return uuidText(frameEventId(frame, 0));
}

/**
 * Whether the header of a frame, whose size is plausible, says what a collector of this version writes in this place.
 * @param before durable-before of the frame in front of it; undefined when that is not known.
 */
export function headerHolds(
  source: Buffer,
  offset: number,
  sequence: number,
  before: number | undefined,
): boolean {
  return (
    framePayloadState(source, offset) === PLAIN &&
    frameSaltLength(source, offset) === SALT_BYTES &&
    frameSequence(source, offset) === sequence &&
    durableBeforeHolds(frameDurableBefore(source, offset), sequence, before)
  );
}

/** The frames of a batch share one, which is the sequence of the first of them. */
function durableBeforeHolds(durableBefore: number, sequence: number, before: number | undefined): boolean {
  if (durableBefore === sequence) return true;
  return before === undefined ? durableBefore < sequence : durableBefore === before;
}

/**
 * The fields in the header of a frame, given whole, that no collector of this version has written so, by name. When the
 * checksum does not hold, at least one.
 * @param before durable-before of the frame in front of it; undefined when that is not known.
 */
function alteredFields(frame: Buffer, sequence: number, before: number | undefined): string[] {
  const payloadAt = envelopeEnd(frame, 0) + SALT_BYTES;
  const holds: readonly (readonly [string, boolean])[] = [
    ['size', frame.readUInt32LE(4) === frame.length],
    ['format version', hasVersion(frame)],
    ['payload state', framePayloadState(frame, 0) === PLAIN],
    ['salt length', frameSaltLength(frame, 0) === SALT_BYTES],
    ['payload length', framePayloadLength(frame, 0) === frame.length - payloadAt],
    ['sequence', frameSequence(frame, 0) === sequence],
    // One that is wrongly said to begin a batch is noticed at the next one.
    [
      'durable-before, or that of the frame in front of it',
      durableBeforeHolds(frameDurableBefore(frame, 0), sequence, before),
    ],
  ];
  const altered = holds.filter(([, does]) => !does).map(([name]) => name);
  // What is left are values that could have been, and the checksum itself.
  return altered.length > 0 || checksumHolds(frame, 0, frame.length)
    ? altered
    : ['checksum or durable-before'];
}

/** Asked of the one place that knows the version, with sizes that fit. */
function hasVersion(frame: Buffer): boolean {
  const header = Buffer.from(frame.subarray(0, HEADER_BYTES));
  header.writeUInt16LE(0, 10);
  header.writeUInt32LE(0, 12);
  header.writeUInt32LE(envelopeEnd(header, 0), 4);
  return plausibleSize(header, 0, header.length) > 0;
}

/* In words, what signed roots and stored hashes say against a log or against themselves: for `collector verify`. */

type Roots = readonly RootVerdict<CheckedRoot>[];

/** @param isUnread whether of entries below a size some cannot be read, whose leaves nothing proves. */
export function rootFindings(
  { roots }: Verdict<CheckedRoot>,
  isUnread: (size: number) => boolean,
): VerifyFinding[] {
  const findings = contradictions(roots);
  const fork = forkFinding(roots, isUnread);
  if (fork !== undefined) findings.push(fork);
  const unknown = roots.find(({ log, tree }) => log === 'unknown' && !tree)?.root;
  if (unknown !== undefined) {
    const message =
      `whether the log is the one that ${unknown.source} was signed over, of ${unknown.size} entries, cannot be ` +
      'told: of events that cannot be read the tree has lost the hashes as well';
    findings.push({ kind: 'unreadable', file: unknown.file, message });
  }
  return findings;
}

/** Each pair of neighbours; `roots` are by size. */
function contradictions(roots: Roots): VerifyFinding[] {
  return roots.flatMap(({ root }, i): VerifyFinding[] => {
    const other = roots[i - 1]?.root;
    if (other?.size !== root.size) return [];
    const message =
      `${other.source} and ${root.source} are both signed by a key of this log, over ${root.size} entries each, and ` +
      'have different roots: proof that the log was forked';
    return [{ kind: 'forked', file: root.file, message }];
  });
}

/** Where the log and what was signed part. */
interface Parting {
  /** The smallest root that the log does not come to. */
  readonly other: CheckedRoot | undefined;
  /** The largest root below that one, of more than no entries, that both histories come to. */
  readonly before: CheckedRoot | undefined;
  /** A root of this log that is as large as the other one: then two histories were signed. */
  readonly later: CheckedRoot | undefined;
}

function agreeing(roots: Roots): CheckedRoot[] {
  return roots.filter(({ root, log }) => log === 'agrees' && root.size > 0).map(({ root }) => root);
}

/** @param others the roots that the log does not come to, by size. */
function parting(roots: Roots, [other]: Roots): Parting {
  const own = agreeing(roots);
  if (other === undefined) return { other, before: own.at(-1), later: undefined };
  const { size, outside } = other.root;
  const later = own.findLast((root) => root.size >= size);
  // Where two histories were signed, what the directory holds is all of the one, and says nothing of the other.
  const ofBoth = (root: CheckedRoot) => later === undefined || !outside || root.outside;
  const before = own.findLast((root) => root.size < size && ofBoth(root));
  return { other: other.root, before, later };
}

/** For the smallest root that comes neither out of the log nor out of the tree, or is of another history. */
function forkFinding(roots: Roots, isUnread: (size: number) => boolean): VerifyFinding | undefined {
  // Two of one size are a contradiction by themselves.
  const isTold = (size: number) => agreeing(roots).some((root) => root.size === size);
  const { other, before, later } = parting(
    roots,
    roots.filter(({ root, log, tree }) => log === 'differs' && !tree && !isTold(root.size)),
  );
  if (other === undefined) return undefined;
  const { size, source, file } = other;
  const agreesTo = before?.size ?? 0;
  const range = eventRange(agreesTo + 1, size - agreesTo);
  const about = { sequence: agreesTo + 1, file };
  if (later === undefined && isUnread(size)) {
    const message =
      `${source}: its root over ${size} entries does not come out, and with events that cannot be read no one can ` +
      `tell whether the others are those that were signed; in question: ${range}`;
    return { kind: 'unreadable', ...about, message };
  }
  const none = 'no smaller checkpoint was found that agrees';
  const message =
    later === undefined
      ? `the log is not the one that ${source} was signed over, of ${counted(size, 'entry', 'entries')}: it was rebuilt or ` +
        `forked somewhere in ${range}; ` +
        (before === undefined ? none : `up to event ${agreesTo} it agrees with ${before.source}`)
      : `this log and ${source} ` +
        (before === undefined
          ? `part in ${range}; ${none}`
          : `agree up to event ${agreesTo} (${before.source}) and part in ${range}`) +
        `; both are signed by keys of this log (this log in ${later.source}, of ` +
        `${counted(later.size, 'entry', 'entries')}): it was restored from an old copy, or rebuilt`;
  return { kind: 'forked', ...about, message };
}

/** That the log is shorter than it was signed; undefined when it is not. @param entries how many it holds. */
export function missingFinding(
  { roots, leaves, provenTo }: Verdict<CheckedRoot>,
  covered: number,
  entries: number,
): VerifyFinding | undefined {
  if (leaves >= covered) return undefined;
  const { other, before, later } = parting(
    roots,
    roots.filter(({ log }) => log === 'differs'),
  );
  const agreesTo = before?.size ?? 0;
  const signed = `${roots.at(-1)?.root.source ?? ''} was signed over ${counted(covered, 'entry', 'entries')}`;
  if (other !== undefined && later !== undefined) {
    const sequence = agreesTo + 1;
    const both = other.size > sequence ? `, save those before event ${other.size} that both have` : '';
    const message =
      `${signed}, and this log, of ${counted(entries, 'entry', 'entries')}, has others in their place: ` +
      `${eventRange(sequence, covered - agreesTo)} of it are missing${both}`;
    return { kind: 'missing', sequence, message };
  }
  const count = covered - leaves;
  const are = count === 1 ? 'is' : 'are';
  const message =
    provenTo === covered
      ? `${eventRange(leaves + 1, count)} ${are} missing from the end of the log, or this is an older copy of it: ${signed}`
      : `${signed}, and the log holds ${entries}: ${counted(count, 'entry', 'entries')} ${are} missing from its end or, if the ` +
        `others were numbered again, from anywhere${agreesTo === 0 ? '' : ` behind event ${agreesTo}`}; or this is an ` +
        'older copy of it';
  return { kind: 'missing', sequence: leaves + 1, message };
}

/** @param hasTree whether anything of the tree is stored. When nothing is, it was removed, which anybody may do. */
export function tileFindings(
  { hashes, shortages, differing, roots }: Verdict<CheckedRoot>,
  hasTree: boolean,
): VerifyFinding[] {
  const eventsStand = differing.length === 0 && roots.every(({ log }) => log === 'agrees');
  if (!hasTree) {
    if (shortages.length === 0) return [];
    const then = eventsStand
      ? 'the next start rebuilds it'
      : 'with it more could be told of which events are not those that were signed';
    return [{ kind: 'note', file: 'tree', message: `tree/ is not there; ${then}` }];
  }
  const findings: VerifyFinding[] = [
    ...shortages.map(({ level, there }) => ({
      ...({ kind: 'tile_altered', file: `tree/level-${level}`, offset: there * HASH_BYTES } as const),
      message: `tree/level-${level} is cut short: it lacks the hashes from number ${there} on`,
    })),
    ...hashes.map(hashFinding),
  ];
  if (findings.length > 0 && eventsStand) {
    const message =
      'the events are those that were signed, and the hashes in tree/ are derived from them: remove tree/ while no ' +
      'collector runs, and the next start rebuilds it';
    findings.push({ kind: 'note', message });
  }
  return findings;
}

function hashFinding({ level, index, count }: HashFault): VerifyFinding {
  const file = `tree/level-${level}`;
  const sequence = leavesBelow(level, index) + 1;
  const tile = Math.floor(index / TILE_HASHES);
  const which = count === 1 ? `hash ${index}` : `hashes ${index} to ${index + count - 1}`;
  const of = eventRange(sequence, leavesBelow(level, count));
  return {
    ...{ kind: 'tile_altered', sequence, file, offset: index * HASH_BYTES },
    message:
      `${which} of level ${level} (tile ${tile}, in ${file} at byte ${index * HASH_BYTES}) ` +
      `${count === 1 ? 'is' : 'are'} not what ${of} ${of.startsWith('events') ? 'come' : 'comes'} to: the tree ` +
      'was changed, and not the log',
  };
}
