/** For `collector verify`: compares what frames and headers name as the newest action before them with what was read. */
import { ENTRY_KINDS } from '@clinical-events/protocol';
import { finding, type VerifyFinding } from '../findings.js';
import type { Place } from './altered-frame.js';
import { frameActionBefore, frameKind, type FrameStart, NO_ACTION } from './frame.js';
import type { SurveyedSegment } from './segment.js';

export class ActionPointers {
  /** In the order of the log. */
  readonly misnamed: VerifyFinding[] = [];
  #newest = NO_ACTION;
  /** Address of the entry that is due, unless something before it is damaged. */
  #address = 0;
  #isMoved = false;
  /** What could not be read may have been an action. */
  #mayMissOne = false;

  /** @param placeOf where in the log a place is, in the form that the caller has. */
  constructor(private readonly placeOf: (place: number) => Place) {}

  /** Takes in that entries could not be read, or stand in another place than they should. */
  passDamage(count: number): void {
    this.#isMoved = true;
    if (count > 0) this.#mayMissOne = true;
  }

  /** @param place of the pointer in the header. */
  passHeader({ actionBefore, firstSequence, faults }: SurveyedSegment, place: number): void {
    if (faults.length > 0) return;
    this.#compare(actionBefore, firstSequence, `the segment that begins with entry ${firstSequence}`, place);
  }

  /** Passes an entry of any kind. */
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
