/** Reads the log behind its writer, a piece at a time, and goes on where it stopped. */
import path from 'node:path';
import type { FollowedEvent } from '../event-places.js';
import type { Files } from './files.js';
import { frameSequence } from './frame.js';
import { PassedFrame } from './passed-frame.js';
import { readFrames } from './segment-reader.js';
import { listSegments } from './segment.js';

export class LogFollower {
  readonly #directory: string;
  /** Where the next frame is due; undefined until one was read. */
  #next: { readonly address: number; readonly sequence: number } | undefined;

  /** @param from the first sequence that is wanted. */
  constructor(
    dataDirectory: string,
    private readonly files: Files,
    private readonly from: number,
  ) {
    this.#directory = path.join(dataDirectory, 'ledger');
  }

  /**
   * Yields the events that come next, each checked against its checksum, the same object for each. Who stops in the
   * middle goes on behind the last one that was yielded.
   * @param through the last sequence that is known to be durable. What lies behind may still be taken back.
   * @throws StoreDamaged at the first frame of a segment before the last that does not hold what was written.
   */
  *read(through: number): Generator<FollowedEvent, void> {
    const start = this.#next;
    if (through < (start?.sequence ?? this.from)) return;
    const segments = listSegments(this.files, this.#directory);
    const first = segments.findLastIndex((segment) =>
      start ? segment.base <= start.address : segment.firstSequence <= this.from,
    );
    const passed = new PassedFrame();
    for (const { buffer, offset, size, address } of readFrames(
      this.files,
      segments.slice(Math.max(0, first)),
      start,
    )) {
      const sequence = frameSequence(buffer, offset);
      if (sequence > through) return;
      this.#next = { address: address + size, sequence: sequence + 1 };
      if (sequence < this.from) continue;
      passed.come(buffer, offset, size, address);
      yield passed;
    }
  }
}
