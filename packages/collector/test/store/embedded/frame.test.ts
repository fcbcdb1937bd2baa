import { DOORS, EVENT_KINDS, PROFILES } from '@clinical-events/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  checksumHolds,
  decodeFrame,
  encodeFrame,
  frameCommitment,
  frameDurableBefore,
  frameEventId,
  frameKind,
  frameOrganisation,
  frameParentId,
  frameReceivedAt,
  frameRunId,
  frameSequence,
  frameSize,
  HEADER_BYTES,
  plausibleSize,
} from '../../../src/store/embedded/frame.js';
import { candidate, envelopeOf, idOf, uuidBytes } from '../candidate.js';

const uuid = fc.uuid({ version: [1, 2, 3, 4, 5, 6, 7, 8] });
const whole = fc.oneof(fc.nat(), fc.maxSafeNat());
const wanted = fc.record({
  kind: fc.constantFrom(...EVENT_KINDS),
  profile: fc.constantFrom(...PROFILES),
  door: fc.constantFrom(...DOORS),
  organisation: fc.stringMatching(/^[a-z0-9._-]{1,64}$/),
  keyId: fc.stringMatching(/^[a-z2-7]{12}$/),
  receivedAt: whole,
  eventId: uuid,
  body: fc.json(),
});

describe('a frame', () => {
  test('returns every written field, at any offset', () => {
    fc.assert(
      fc.property(
        wanted,
        fc.option(uuid, { nil: undefined }),
        whole,
        whole,
        fc.nat(300),
        (fields, runId, sequence, before, offset) => {
          const event = candidate({ ...fields, ...(runId !== undefined && { runId }) });
          const size = frameSize(event);
          const bytes = Buffer.alloc(offset + size + 7, 0xa5);
          expect(encodeFrame(bytes, offset, event, sequence, before)).toBe(size);
          expect(plausibleSize(bytes, offset, bytes.length)).toBe(size);
          expect(checksumHolds(bytes, offset, size)).toBe(true);
          expect(bytes.subarray(0, offset).every((byte) => byte === 0xa5)).toBe(true);
          expect(bytes.subarray(offset + size).every((byte) => byte === 0xa5)).toBe(true);
          const { kind, profile, door, organisation, keyId, receivedAt } = event;
          const { body, salted, commitment, envelope, ...decoded } = decodeFrame(bytes, offset);
          expect(decoded).toEqual({
            ...{ sequence, kind, profile, door, organisation, keyId, receivedAt },
            ...{ runId, parentId: undefined },
            eventId: fields.eventId.toLowerCase(),
            payloadState: 'plain',
          });
          expect(body.equals(event.body)).toBe(true);
          expect(salted.equals(event.salted)).toBe(true);
          expect(commitment.equals(event.commitment)).toBe(true);
          expect(frameCommitment(bytes, offset).equals(event.commitment)).toBe(true);
          expect(envelope.equals(envelopeOf(event))).toBe(true);
          expect(frameSequence(bytes, offset)).toBe(sequence);
          expect(frameDurableBefore(bytes, offset)).toBe(before);
          expect(frameReceivedAt(bytes, offset)).toBe(receivedAt);
          expect(EVENT_KINDS[frameKind(bytes, offset)]).toBe(kind);
          expect(frameOrganisation(bytes, offset)).toBe(organisation);
          expect(frameEventId(bytes, offset).equals(event.eventId)).toBe(true);
          expect(frameRunId(bytes, offset).equals(event.runId)).toBe(true);
          expect(frameParentId(bytes, offset).equals(event.parentId)).toBe(true);
        },
      ),
    );
  });

  test('with any single bit changed is detected', () => {
    const event = candidate({ body: { note: 'ünïcode' }, runId: '0b2c5a3e-7f2d-4c58-9a52-0d5e3b1c9f10' });
    const bytes = Buffer.alloc(frameSize(event));
    encodeFrame(bytes, 0, event, 2 ** 40 + 3, 2 ** 40 + 1);
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const flipped = Buffer.from(bytes);
      flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      const size = plausibleSize(flipped, 0, flipped.length);
      expect(size === bytes.length && checksumHolds(flipped, 0, size), `bit ${bit}`).toBe(false);
    }
  });

  test('is not recognised where fewer bytes than a header are left, and not in zeros', () => {
    const event = candidate();
    const bytes = Buffer.alloc(frameSize(event));
    encodeFrame(bytes, 0, event, 1, 1);
    expect(plausibleSize(bytes, 0, HEADER_BYTES - 1)).toBe(0);
    expect(plausibleSize(bytes, 0, HEADER_BYTES)).toBe(bytes.length);
    expect(plausibleSize(Buffer.alloc(4096), 0, 4096)).toBe(0);
  });

  test('of an envelope, kind, profile, door or payload state from a later version is refused, not misread', () => {
    const event = candidate({ eventId: 'ffffffff-ffff-4fff-bfff-ffffffffffff' });
    for (const [offset, said] of [
      [9, 'later version'],
      [64, 'unknown version'],
      [65, 'unknown kind'],
      [66, 'unknown profile'],
      [67, 'unknown door'],
    ] as const) {
      const bytes = Buffer.alloc(frameSize(event));
      encodeFrame(bytes, 0, event, 1, 1);
      // Of the kinds from 0x80 on all are the log's own.
      bytes[offset] = 0x7f;
      expect(() => decodeFrame(bytes, 0)).toThrow(said);
    }
    expect(idOf(event)).toBe('ffffffff-ffff-4fff-bfff-ffffffffffff');
    expect(uuidBytes(idOf(event))).toEqual(Buffer.from(event.eventId));
  });
});
