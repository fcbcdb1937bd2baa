/**
 * Compares the pointers to actions in frames and headers with the actions that were read, for `collector
 * verify`.
 */
import { ENTRY_KINDS } from '@clinical-events/protocol';
import { finding, type VerifyFinding } from '../findings.js';
import type { Place } from './altered-frame.js';
import { frameActionBefore, frameKind, type FrameStart, NO_ACTION } from './frame.js';
import type { SurveyedSegment } from './segment.js';

export class ActionPointers {
  /** Wrong pointers, in the order of the log. */
  readonly misnamed: VerifyFinding[] = [];
  #newest = NO_ACTION;
  /** Address of the next entry, unless `#isMoved`. */
  #address = 0;
  /** Whether damage has shifted addresses. */
  #isMoved = false;
  /** Whether an unreadable entry since the newest action may have been an action. */
  #mayMissOne = false;

  /** @param placeOf converts a place of the caller to a location. */
  constructor(private readonly placeOf: (place: number) => Place) {}

  /** Passes damage with `count` unreadable entries. */
  passDamage(count: number): void {
    this.#isMoved = true;
    if (count > 0) this.#mayMissOne = true;
  }

  /** Passes a segment header. @param place the place of its pointer. */
  passHeader({ actionBefore, firstSequence, faults }: SurveyedSegment, place: number): void {
    if (faults.length > 0) return;
    this.#compare(actionBefore, firstSequence, `the segment that begins with entry ${firstSequence}`, place);
  }

  /** Passes an entry. */
  pass(buffer: Buffer, offset: number, size: number, sequence: number, place: number): void {
    if (frameKind(buffer, offset) === ENTRY_KINDS.lifecycleAction) {
      const named = frameActionBefore(buffer, offset);
      if (named !== undefined) this.#compare(named, sequence, `action ${sequence}`, place);
      this.#newest = { sequence, address: this.#address };
    }
    this.#address += size;
  }

  #compare(named: FrameStart, sequence: number, where: string, place: number): void {
    const newest = this.#newest;
    const mayBeUnread = this.#mayMissOne && named.sequence > newest.sequence;
    this.#mayMissOne = false;
    if (mayBeUnread) this.#newest = named;
    else if (named.sequence !== newest.sequence)
      this.misnamed.push(
        finding(
          'action_misnamed',
          { sequence, ...this.placeOf(place) },
          where,
          named.sequence,
          newest.sequence,
        ),
      );
    else if (named.address !== newest.address && !this.#isMoved)
      this.misnamed.push(
        finding('action_misplaced', { sequence, ...this.placeOf(place) }, where, named.sequence),
      );
  }
}
