/** Views of frames in memory, which spare readers of millions of events an object per event. */
import { DOORS, ENVELOPE_AT, EVENT_KINDS, PROFILES, type EventKind } from '@clinical-events/protocol';
import type { Actions } from '../../privacy/actions.js';
import { ID_BYTES, type EventFacts, type PassedEntry, type ReadEvents } from '../contract/events.js';
import { latin1, RepeatedText, isNoId, uuidText } from '../text.js';
import {
  decodeFrame,
  envelopeEnd,
  frameEnvelope,
  frameEventId,
  frameIsOwn,
  frameKind,
  frameParentId,
  framePayloadLength,
  framePayloadState,
  frameReceivedAt,
  frameRunId,
  frameSequence,
  HEADER_BYTES,
  PLAIN,
} from './frame.js';
import { type FrameBlock, numberAt } from './log-frames.js';
import { bucketOf, type FrameOpener } from './sealed-frame.js';

/** Offsets in a frame, derived from frame.ts. */
const PROBE = Buffer.alloc(HEADER_BYTES);
const offsetOf = (view: Buffer) => view.byteOffset - PROBE.byteOffset;
const EVENT_ID_AT = offsetOf(frameEventId(PROBE, 0));
const RUN_ID_AT = offsetOf(frameRunId(PROBE, 0));
const PARENT_ID_AT = offsetOf(frameParentId(PROBE, 0));
const PROFILE_AT = offsetOf(frameEnvelope(PROBE, 0)) + ENVELOPE_AT.profile;
const DOOR_AT = offsetOf(frameEnvelope(PROBE, 0)) + ENVELOPE_AT.door;
const ORGANISATION_LENGTH_AT = offsetOf(frameEnvelope(PROBE, 0)) + ENVELOPE_AT.organisationLength;

/** Iterates over the frames of a block. */
export class PassedFrames implements Iterable<PassedEntry>, PassedEntry {
  source: Buffer = Buffer.alloc(0);
  at = 0;
  size = 0;
  eventIdAt = 0;
  runIdAt = 0;
  parentIdAt = 0;
  readonly #organisation = new RepeatedText(latin1);
  #offset = 0;
  #block: FrameBlock | undefined;

  constructor(private readonly opener: FrameOpener) {}

  /** Continues with another block. @returns this. */
  of(block: FrameBlock): this {
    this.#block = block;
    return this;
  }

  *[Symbol.iterator](): Generator<this, void> {
    const block = this.#block;
    if (block === undefined) return;
    const { buffer, offsets, end, address } = block;
    this.source = buffer;
    for (let i = 0; i < offsets.length; i++) {
      const offset = offsets[i] ?? end;
      this.#offset = offset;
      this.at = address + offset;
      this.size = (offsets[i + 1] ?? end) - offset;
      this.eventIdAt = offset + EVENT_ID_AT;
      this.runIdAt = offset + RUN_ID_AT;
      this.parentIdAt = offset + PARENT_ID_AT;
      yield this;
    }
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

  get bucket(): number | undefined {
    return bucketOf(this.source, this.#offset);
  }

  body(): Buffer | undefined {
    if (this.opener.open(this.source, this.#offset, this.size) !== 'plain') return undefined;
    const end = this.#offset + this.size;
    return this.source.subarray(end - framePayloadLength(this.source, this.#offset), end);
  }
}

export class ReadFrames implements ReadEvents {
  readonly #organisation = new RepeatedText(latin1);
  readonly #keyId = new RepeatedText(latin1);
  readonly #runId = new RepeatedText(uuidText);

  /** @param offsets offsets of valid frames in `source`. */
  constructor(
    readonly source: Buffer,
    private readonly offsets: Float64Array,
    private readonly erasureOf: Actions['erasureOf'],
  ) {}

  facts(index: number): EventFacts {
    const { source } = this;
    const at = this.offsets[index] ?? source.length;
    const kind = EVENT_KINDS[frameKind(source, at)];
    const profile = PROFILES[source[at + PROFILE_AT] ?? -1];
    const door = DOORS[source[at + DOOR_AT] ?? -1];
    const isKnown = kind !== undefined && profile !== undefined && door !== undefined;
    // Rare cases, and those unknown to this version, are left to decodeFrame.
    if (framePayloadState(source, at) !== PLAIN || !isKnown) {
      const facts = factsOf(decodeFrame(source, at));
      if (facts.payloadState !== 'erased') return facts;
      return { ...facts, erasure: this.erasureOf(facts.sequence) };
    }
    const texts = at + HEADER_BYTES;
    const keyIdAt = texts + organisationLength(source, at);
    const runIdAt = at + RUN_ID_AT;
    const namesRun = !isNoId(source, runIdAt);
    return {
      sequence: frameSequence(source, at),
      kind,
      profile,
      door,
      organisation: this.#organisation.of(source, texts, keyIdAt),
      keyId: this.#keyId.of(source, keyIdAt, envelopeEnd(source, at)),
      receivedAt: frameReceivedAt(source, at),
      eventId: uuidText(source, at + EVENT_ID_AT),
      runId: namesRun ? this.#runId.of(source, runIdAt, runIdAt + ID_BYTES) : undefined,
      payloadState: 'plain',
    };
  }

  bodyFrom(index: number): number {
    const { source } = this;
    const at = this.offsets[index] ?? source.length;
    if (framePayloadState(source, at) !== PLAIN) return -1;
    return this.bodyTo(index) - framePayloadLength(source, at);
  }

  bodyTo(index: number): number {
    const at = this.offsets[index] ?? this.source.length;
    return at + this.source.readUInt32LE(at + 4);
  }

  body(index: number): string | undefined {
    const from = this.bodyFrom(index);
    return from < 0 ? undefined : this.source.toString('utf8', from, this.bodyTo(index));
  }
}

function factsOf(stored: ReturnType<typeof decodeFrame>): EventFacts {
  const { sequence, kind, profile, door, organisation, keyId, receivedAt, ...rest } = stored;
  if (typeof kind === 'number') throw new RangeError("an entry of the log's own is not an event");
  const { eventId, runId, payloadState } = rest;
  return { sequence, kind, profile, door, organisation, keyId, receivedAt, eventId, runId, payloadState };
}

/** The length of the organisation of the frame at `at`; its text follows the header. */
function organisationLength(source: Buffer, at: number): number {
  return numberAt(source, at + ORGANISATION_LENGTH_AT);
}
