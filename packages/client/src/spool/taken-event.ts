import type { EventKind } from '@clinical-events/protocol';
import type { Position, SpooledEvent } from './contract.js';
import type { WaitingSegment } from './waiting-segment.js';

/** An event that the reader has met and that is not done, with what the spool has to remember of it. */
export class TakenEvent implements SpooledEvent {
  readonly position: Position;
  readonly kind: EventKind;
  readonly body: Uint8Array;
  readonly capturedAt: number;
  readonly #segment: WaitingSegment;
  readonly #size: number;

  /** @param size of its frame, in bytes. */
  constructor(
    segment: WaitingSegment,
    offset: number,
    size: number,
    kind: EventKind,
    body: Uint8Array,
    capturedAt: number,
  ) {
    this.position = { segment: segment.name, offset };
    this.kind = kind;
    this.body = body;
    this.capturedAt = capturedAt;
    this.#segment = segment;
    this.#size = size;
  }

  get segment(): WaitingSegment {
    return this.#segment;
  }

  /** Of its frame, in bytes. */
  get size(): number {
    return this.#size;
  }
}
