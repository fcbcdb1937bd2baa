/**
 * Finds the actions of a log (privacy/actions.ts) without reading all of it. The frame of each action names
 * the previous action by sequence and address, and so does the header of each segment. The newest action is
 * in the last segment, or its header names it. Compaction changes no address.
 *
 * A pointer is trusted if an action with this sequence is at this address, and each header on the way names
 * the same action. Otherwise the whole log is read: an overlooked hold would have no effect.
 */
import path from 'node:path';
import { ENTRY_KINDS } from '@clinical-events/protocol';
import type { Files } from '../../files.js';
import { Actions } from '../../privacy/actions.js';
import {
  frameActionBefore,
  frameDurableBefore,
  frameKind,
  framePayloadLength,
  frameReceivedAt,
  frameSequence,
  type FrameStart,
  HEADER_BYTES,
  NO_ACTION,
} from './frame.js';
import {
  isBlank,
  offsetIn,
  readFrames,
  wholeFrame,
  type FrameBlock,
  type FramePlace,
  type SegmentEnd,
  framesOf,
} from './log-frames.js';
import { segmentName, type Segment } from './segment.js';

/** Adds the action in a frame of `size` bytes to `actions`; does nothing for other entries. */
export function noteAction(actions: Actions, buffer: Buffer, offset: number, size: number): void {
  if (!isAction(buffer, offset)) return;
  const end = offset + size;
  const body = buffer.subarray(end - framePayloadLength(buffer, offset), end);
  actions.add(frameSequence(buffer, offset), frameReceivedAt(buffer, offset), body);
}

function isAction(buffer: Buffer, offset: number): boolean {
  return frameKind(buffer, offset) === ENTRY_KINDS.lifecycleAction;
}

function isSame(one: FrameStart | undefined, other: FrameStart): boolean {
  return one?.sequence === other.sequence && one.address === other.address;
}

/** Compares pointers with the actions in a part of the log, which is passed in order. */
export class ActionTrail {
  /** Whether each pointer so far named the previous action. */
  isWhole = true;

  /** @param newest the newest action before the first passed entry. */
  constructor(public newest: FrameStart) {}

  /** Passes an entry. @param address of its frame. */
  pass(buffer: Buffer, offset: number, address: number): void {
    if (!isAction(buffer, offset)) return;
    this.isWhole &&= isSame(frameActionBefore(buffer, offset), this.newest);
    this.newest = { address, sequence: frameSequence(buffer, offset) };
  }
}

/**
 * The frames of all actions after `known` up to `newest`, oldest first.
 * @param newest an action in the last segment, or the one that its header names.
 * @returns undefined if a pointer or a header does not name the previous action.
 */
export function chainBack(
  files: Files,
  segments: readonly Segment[],
  newest: FrameStart,
  known = NO_ACTION,
): Buffer[] | undefined {
  const found: Buffer[] = [];
  let due = newest;
  let end = Number.MAX_SAFE_INTEGER;
  for (const segment of segments.toReversed()) {
    const bound = { base: segment.base, first: Math.max(segment.firstSequence, known.sequence + 1) };
    if (due.sequence >= bound.first) {
      const fd = files.open(segment.path, 'r');
      try {
        while (due.sequence >= bound.first) {
          if (due.address < bound.base || due.address >= end) return undefined;
          const frame = wholeFrame(files, fd, offsetIn(segment, due.address));
          const before = frame && frameSequence(frame, 0) === due.sequence && frameActionBefore(frame, 0);
          if (!frame || !before) return undefined;
          found.push(frame);
          end = due.address;
          due = before;
        }
      } finally {
        files.close(fd);
      }
    }
    if (known.sequence >= segment.firstSequence) break;
    if (!isSame(segment.actionBefore, due)) return undefined;
    end = segment.base;
  }
  return isSame(due, known) ? found.reverse() : undefined;
}

/** A log, as its reader provides it. */
interface ReadLog {
  readonly files: Files;
  /** The current segments. */
  segments(): readonly Segment[];
  open(segment: Segment): number;
  /** All durable frames. @throws StoreDamaged */
  blocks(): Iterable<FrameBlock>;
}

/** The progress of a reader in the last segment. */
interface Looked {
  readonly segment: Segment;
  /**
   * The first frame of the newest batch, and its header; a collector may take back a batch that it failed to
   * flush.
   */
  readonly from: FrameStart;
  readonly header: Buffer;
  /** The newest action before that batch. */
  readonly actionBefore: FrameStart;
  readonly end: SegmentEnd;
}

/** The actions of a log for a reader; each `get` adds new ones. */
export class NotedActions {
  #actions = new Actions();
  /** The sequences of all known actions. */
  readonly #known = new Set<number>();
  #newest = NO_ACTION;
  #looked: Looked | undefined;
  /** Whether a pass has met an action that no pointer leads to. */
  #isOverlooked = false;

  constructor(private readonly log: ReadLog) {}

  /** The current actions. @throws StoreDamaged if the whole log must be read and is damaged. */
  get(): Actions {
    if (this.#isTakenBack()) this.#forget();
    else if (!this.#isOverlooked && !this.#hasGrown()) return this.#actions;
    const segments = this.log.segments();
    const last = segments.at(-1);
    if (last === undefined) return this.#actions;
    const { looked, trail } = this.#look(last);
    if (!trail.isWhole || this.#isOverlooked || !this.#follow(segments, trail.newest)) this.#passWhole();
    else this.#newest = trail.newest;
    this.#looked = looked;
    return this.#actions;
  }

  /** Whether a block contains an unknown action; then `get` reads the whole log. */
  overlooks({ buffer, offsets }: FrameBlock): boolean {
    const looked = this.#looked?.end.nextSequence ?? 0;
    const isUnknown = (sequence: number) => sequence < looked && !this.#known.has(sequence);
    const found = offsets.some((at) => isAction(buffer, at) && isUnknown(frameSequence(buffer, at)));
    this.#isOverlooked ||= found;
    return found;
  }

  /** Whether the newest batch was taken back. */
  #isTakenBack(): boolean {
    if (this.#looked === undefined) return false;
    const { segment, from, header, end } = this.#looked;
    if (end.address === from.address) return false;
    const now = Buffer.alloc(header.length);
    this.log.files.read(this.log.open(segment), now, 0, now.length, offsetIn(segment, from.address));
    return !now.equals(header);
  }

  #hasGrown(): boolean {
    if (this.#looked === undefined) return true;
    const { segment, end } = this.#looked;
    const { files } = this.log;
    if (wholeFrame(files, this.log.open(segment), end.offset) !== undefined) return true;
    const next = path.join(path.dirname(segment.path), segmentName(end.nextSequence));
    return next !== segment.path && files.look(next) !== undefined;
  }

  /** Reads the new part of the last segment. */
  #look(segment: Segment): { readonly looked: Looked; readonly trail: ActionTrail } {
    const before = this.#looked?.segment.path === segment.path ? this.#looked : undefined;
    const trail = new ActionTrail(before?.actionBefore ?? segment.actionBefore);
    let from = before?.from ?? { address: segment.base, sequence: segment.firstSequence };
    let actionBefore = trail.newest;
    const header = Buffer.alloc(HEADER_BYTES);
    const frames = this.#frames(segment, from);
    for (;;) {
      const next = frames.next();
      if (next.done) return { looked: { segment, from, header, actionBefore, end: next.value }, trail };
      const { buffer, offset, address, sequence } = next.value;
      if (frameDurableBefore(buffer, offset) === sequence) {
        from = { address, sequence };
        actionBefore = trail.newest;
        buffer.copy(header, 0, offset, offset + HEADER_BYTES);
      }
      trail.pass(buffer, offset, address);
    }
  }

  *#frames(segment: Segment, from: FrameStart): Generator<FramePlace, SegmentEnd> {
    const { files } = this.log;
    let end = yield* readFrames(files, [segment], { from });
    if (isBlank(files, this.log.open(segment), end.offset)) return end;
    // A batch in progress, a torn tail, or damage with actions after it.
    const after = { address: end.address, sequence: end.nextSequence };
    for (const frame of readFrames(files, [segment], { from: after, onDamage: 'continue' })) {
      yield frame;
      const address = frame.address + frame.size;
      end = { address, offset: offsetIn(segment, address), nextSequence: frame.sequence + 1 };
    }
    return end;
  }

  /** Adds the actions up to `newest`. @returns false if pointers do not lead to all of them. */
  #follow(segments: readonly Segment[], newest: FrameStart): boolean {
    const since = chainBack(this.log.files, segments, newest, this.#newest);
    for (const frame of since ?? []) this.#note(frame, 0, frame.length);
    return since !== undefined;
  }

  #passWhole(): void {
    this.#forget();
    const trail = new ActionTrail(NO_ACTION);
    for (const block of this.log.blocks())
      for (const { buffer, offset, size, address } of framesOf(block)) {
        trail.pass(buffer, offset, address);
        this.#note(buffer, offset, size);
      }
    this.#newest = trail.newest;
    this.#isOverlooked = false;
  }

  #forget(): void {
    this.#actions = new Actions();
    this.#known.clear();
    this.#newest = NO_ACTION;
    this.#looked = undefined;
  }

  #note(buffer: Buffer, offset: number, size: number): void {
    if (!isAction(buffer, offset)) return;
    this.#known.add(frameSequence(buffer, offset));
    noteAction(this.#actions, buffer, offset, size);
  }
}
