/** The frame that a pass over the log has come to: says what is asked of it, and nothing is made of the rest. */
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import type { FollowedEvent } from '../event-places.js';
import { latin1, RepeatedText } from '../repeated-text.js';
import {
  frameIsOwn,
  frameKind,
  framePayloadLength,
  framePayloadState,
  frameReceivedAt,
  frameSequence,
  HEADER_BYTES,
} from './frame.js';
import { EVENT_ID_AT, organisationLength, PARENT_ID_AT, PLAIN, RUN_ID_AT } from './read-frames.js';

export class PassedFrame implements FollowedEvent {
  source: Buffer = Buffer.alloc(0);
  address = 0;
  size = 0;
  eventIdAt = 0;
  runIdAt = 0;
  parentIdAt = 0;
  readonly #organisation = new RepeatedText(latin1);
  #offset = 0;

  come(source: Buffer, offset: number, size: number, address: number): void {
    this.source = source;
    this.address = address;
    this.size = size;
    this.#offset = offset;
    this.eventIdAt = offset + EVENT_ID_AT;
    this.runIdAt = offset + RUN_ID_AT;
    this.parentIdAt = offset + PARENT_ID_AT;
  }

  get sequence(): number {
    return frameSequence(this.source, this.#offset);
  }

  get isOwn(): boolean {
    return frameIsOwn(this.source, this.#offset);
  }

  get kind(): EventKind {
    const kind = EVENT_KINDS[frameKind(this.source, this.#offset)];
    if (kind === undefined) throw new RangeError('a frame written by a later version of the collector');
    return kind;
  }

  get organisation(): string {
    const from = this.#offset + HEADER_BYTES;
    return this.#organisation.of(this.source, from, from + organisationLength(this.source, this.#offset));
  }

  get receivedAt(): number {
    return frameReceivedAt(this.source, this.#offset);
  }

  body(): Buffer | undefined {
    if (framePayloadState(this.source, this.#offset) !== PLAIN) return undefined;
    const end = this.#offset + this.size;
    return this.source.subarray(end - framePayloadLength(this.source, this.#offset), end);
  }
}
