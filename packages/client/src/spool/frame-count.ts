/** What the frames of a segment tell of events that are not there any more. */
import { eventsOf } from './frame.js';
import type { FoundFrame } from './segment-reader.js';

export class FrameCount {
  /** Events met, and how many of them are done. */
  events = 0;
  done = 0;
  /** By the frame that ends the segment. */
  #promised: number | undefined;
  #next: number | undefined;
  #leftOut = 0;

  /** How many marks of events that are done there are. */
  #marks = 0;

  /**
   * Given each frame, in the order in which they stand.
   * @param done what is marked, by offset.
   */
  meet({ frame, offset }: FoundFrame, done: ReadonlyMap<number, number>): void {
    this.#marks = done.size;
    if (frame.kind === undefined) this.#promised = eventsOf(frame);
    else {
      this.events++;
      if (done.has(offset)) this.done++;
      if (this.#next !== undefined) this.#leftOut += Math.max(0, frame.number - this.#next);
      this.#next = frame.number + 1;
    }
  }

  /** How many events the segment had, by the frame that ends it; undefined when there is none. */
  get promised(): number | undefined {
    return this.#promised;
  }

  /**
   * How many events that are not done are not there. Exact where the segment has its end. Else it is the numbers left
   * out between the first frame and the last: of events that are missing, or that were never acknowledged, because a disk
   * failed or a crash cut them.
   */
  get missing(): number {
    const lost = this.#promised === undefined ? this.#leftOut : this.#promised - this.events;
    return Math.max(0, lost - (this.#marks - this.done));
  }
}

/** For people. @param promised see FrameCount. */
export function missingWords(missing: number, promised: number | undefined): string {
  return promised === undefined
    ? `between its frames ${missing} numbers are left out: so many events are missing, or were never acknowledged`
    : `${missing} of its ${promised} events are missing`;
}
