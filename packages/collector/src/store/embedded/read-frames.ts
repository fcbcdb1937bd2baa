/**
 * Frames in memory, for who makes records of millions: says of each what `decodeFrame` does, but makes no views, and
 * does not make anew what is as in the frame before.
 */
import { EVENT_KINDS, PROFILES } from '@clinical-events/protocol';
import type { EventFacts, ReadEvents } from '../event-places.js';
import { latin1, RepeatedText } from '../repeated-text.js';
import { uuidText } from '../uuid-text.js';
import {
  decodeFrame,
  envelopeEnd,
  frameEnvelope,
  frameEventId,
  frameKind,
  frameParentId,
  framePayloadLength,
  framePayloadState,
  frameReceivedAt,
  frameRunId,
  frameSequence,
  HEADER_BYTES,
} from './frame.js';

const ID_BYTES = 16;
export const PLAIN = 0;
/** Where things stand in a frame, as frame.ts has it. */
const PROBE = Buffer.alloc(HEADER_BYTES);
const offsetOf = (view: Buffer) => view.byteOffset - PROBE.byteOffset;
export const EVENT_ID_AT = offsetOf(frameEventId(PROBE, 0));
export const RUN_ID_AT = offsetOf(frameRunId(PROBE, 0));
export const PARENT_ID_AT = offsetOf(frameParentId(PROBE, 0));
/** In the envelope (leaf.ts). */
const PROFILE_AT = offsetOf(frameEnvelope(PROBE, 0)) + 2;
const ORGANISATION_LENGTH_AT = PROFILE_AT + 1;

export class ReadFrames implements ReadEvents {
  readonly #organisation = new RepeatedText(latin1);
  readonly #keyId = new RepeatedText(latin1);
  readonly #runId = new RepeatedText(uuidText);

  /** @param offsets of the frames in `bytes`; the checksum of each holds. */
  constructor(
    private readonly bytes: Buffer,
    private readonly offsets: Float64Array,
  ) {}

  facts(index: number): EventFacts {
    const { bytes } = this;
    const at = this.offsets[index] ?? bytes.length;
    const kind = EVENT_KINDS[frameKind(bytes, at)];
    const profile = PROFILES[bytes[at + PROFILE_AT] ?? -1];
    // The rare, and what this version does not know, is for decodeFrame to tell.
    if (framePayloadState(bytes, at) !== PLAIN || kind === undefined || profile === undefined) {
      return factsOf(decodeFrame(bytes, at));
    }
    const texts = at + HEADER_BYTES;
    const keyIdAt = texts + organisationLength(bytes, at);
    const runIdAt = at + RUN_ID_AT;
    const namesRun = !isZero(bytes, runIdAt);
    return {
      sequence: frameSequence(bytes, at),
      kind,
      profile,
      organisation: this.#organisation.of(bytes, texts, keyIdAt),
      keyId: this.#keyId.of(bytes, keyIdAt, envelopeEnd(bytes, at)),
      receivedAt: frameReceivedAt(bytes, at),
      eventId: uuidText(bytes, at + EVENT_ID_AT),
      runId: namesRun ? this.#runId.of(bytes, runIdAt, runIdAt + ID_BYTES) : undefined,
      payloadState: 'plain',
    };
  }

  get source(): Buffer {
    return this.bytes;
  }

  bodyFrom(index: number): number {
    const { bytes } = this;
    const at = this.offsets[index] ?? bytes.length;
    if (framePayloadState(bytes, at) !== PLAIN) return -1;
    return this.bodyTo(index) - framePayloadLength(bytes, at);
  }

  bodyTo(index: number): number {
    const at = this.offsets[index] ?? this.bytes.length;
    return at + this.bytes.readUInt32LE(at + 4);
  }

  body(index: number): string | undefined {
    const from = this.bodyFrom(index);
    return from < 0 ? undefined : this.bytes.toString('utf8', from, this.bodyTo(index));
  }
}

function factsOf(stored: ReturnType<typeof decodeFrame>): EventFacts {
  const { sequence, kind, profile, organisation, keyId, receivedAt, eventId, runId, payloadState } = stored;
  if (typeof kind === 'number') throw new RangeError("an entry of the log's own is no event");
  return { sequence, kind, profile, organisation, keyId, receivedAt, eventId, runId, payloadState };
}

/** Of the frame that begins at `at`; its text stands behind the header. */
export function organisationLength(source: Buffer, at: number): number {
  return source[at + ORGANISATION_LENGTH_AT] ?? 0;
}

function isZero(source: Buffer, at: number): boolean {
  for (let i = 0; i < ID_BYTES; i++) if (source[at + i] !== 0) return false;
  return true;
}
