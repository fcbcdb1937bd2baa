import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  decodeEnvelope,
  DOORS,
  encodeEnvelope,
  encodeLeaf,
  ENVELOPE_FIXED_BYTES,
  envelopeSize,
  EVENT_KINDS,
  FIRST_ENTRY_KIND,
  LEAF_BYTES,
  PROFILES,
} from '../src/index.js';
import type { Envelope } from '../src/index.js';

const id = fc.uint8Array({ minLength: 16, maxLength: 16 });
const text = fc.string({ unit: 'binary-ascii', maxLength: 255 });
const anyEntry = fc.record({
  kind: fc.oneof(fc.constantFrom(...EVENT_KINDS), fc.integer({ min: FIRST_ENTRY_KIND, max: 255 })),
  profile: fc.constantFrom(...PROFILES),
  door: fc.constantFrom(...DOORS),
  organisation: text,
  keyId: text,
  receivedAt: fc.oneof(fc.maxSafeNat(), fc.constantFrom(0, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1)),
  eventId: id,
  runId: id,
  parentId: id,
});
const envelopes: fc.Arbitrary<Envelope> = anyEntry.map((entry) =>
  typeof entry.kind === 'number' ? { ...entry, door: 'endpoint' } : entry,
);

function encoded(envelope: Envelope): Uint8Array {
  const bytes = new Uint8Array(envelopeSize(envelope));
  encodeEnvelope(bytes, 0, envelope);
  return bytes;
}

const sample: Envelope = {
  kind: 'outcome',
  profile: 'full',
  door: 'otlp',
  organisation: 'ward',
  keyId: 'key-1',
  receivedAt: 0x1_0203_0405_06,
  eventId: new Uint8Array(16).fill(0xee),
  runId: new Uint8Array(16).fill(0x11),
  parentId: new Uint8Array(16).fill(0x22),
};

describe('the envelope', () => {
  it('[R-902] [R-1880] has the layout on which all proofs depend', () => {
    const expected = [
      '01 03 01 02 04 05',
      '0000010203040506',
      'ee'.repeat(16),
      '11'.repeat(16),
      '22'.repeat(16),
      Buffer.from('wardkey-1').toString('hex'),
    ].join('');
    expect(Buffer.from(encoded(sample)).toString('hex')).toBe(expected.replaceAll(' ', ''));
  });

  it('is read back as it was written, at any place among other bytes', () => {
    fc.assert(
      fc.property(envelopes, fc.nat(9), fc.nat(9), (envelope, before, behind) => {
        const size = envelopeSize(envelope);
        const bytes = new Uint8Array(before + size + behind).fill(0xa5);
        expect(encodeEnvelope(bytes, before, envelope)).toBe(size);
        expect(decodeEnvelope(bytes, before)).toEqual({ envelope, size });
        expect([...bytes.subarray(0, before), ...bytes.subarray(before + size)]).toEqual(
          new Array(before + behind).fill(0xa5),
        );
      }),
    );
  });

  it('has only one encoding', () => {
    const nearly = fc
      .tuple(envelopes, fc.nat(ENVELOPE_FIXED_BYTES - 1), fc.nat(255))
      .map(([envelope, at, value]) => encoded(envelope).map((byte, index) => (index === at ? value : byte)));
    fc.assert(
      fc.property(fc.oneof(nearly, fc.uint8Array({ maxLength: 300 })), (bytes) => {
        let read;
        try {
          read = decodeEnvelope(bytes);
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError);
          return;
        }
        expect(encoded(read.envelope)).toEqual(bytes.slice(0, read.size));
      }),
      { numRuns: 2000 },
    );
  });

  it.each([
    ['nothing', () => new Uint8Array(0), 'cut short'],
    ['one byte missing', () => encoded(sample).subarray(0, -1), 'cut short'],
    ['its fixed part alone', () => encoded(sample).subarray(0, ENVELOPE_FIXED_BYTES), 'cut short'],
    ['version 2 [R-2031]', () => encoded(sample).fill(2, 0, 1), 'unknown version'],
    ['version 3 [R-2031]', () => encoded(sample).fill(3, 0, 1), 'unknown version'],
    ['a kind too high', () => encoded(sample).fill(EVENT_KINDS.length, 1, 2), 'unknown kind'],
    [
      'a kind just below those of own entries',
      () => encoded(sample).fill(FIRST_ENTRY_KIND - 1, 1, 2),
      'unknown kind',
    ],
    ['a profile too high', () => encoded(sample).fill(PROFILES.length, 2, 3), 'unknown profile'],
    ['a door too high', () => encoded(sample).fill(DOORS.length, 3, 4), 'unknown door'],
    ["a door at an entry of the log's own", () => encoded(sample).fill(0x81, 1, 2), 'unknown door'],
    ['a time beyond 2^53 - 1', () => encoded(sample).fill(0xff, 6, 8), 'out of range'],
    ['a text that is not ASCII', () => encoded(sample).fill(0x80, 62, 63), 'not ASCII'],
  ])('is refused with %s', (_, bytes, message) => {
    expect(() => decodeEnvelope(bytes())).toThrow(RangeError);
    expect(() => decodeEnvelope(bytes())).toThrow(message);
  });

  it.each([
    ['a text too long', { organisation: 'x'.repeat(256) }],
    ['a text that is not ASCII', { keyId: 'ключ' }],
    ['an id too short', { eventId: new Uint8Array(15) }],
    ['a run id too long', { runId: new Uint8Array(17) }],
    ['a parent id too short', { parentId: new Uint8Array(0) }],
    ['a number for the kind of an event', { kind: FIRST_ENTRY_KIND - 1 }],
    ['a kind of two bytes', { kind: 0x181 }],
    ["a door for an entry of the log's own", { kind: FIRST_ENTRY_KIND }],
    ['an unknown door', { door: 'window' as Envelope['door'] }],
    ['a time before 1970', { receivedAt: -1 }],
    ['half a millisecond', { receivedAt: 0.5 }],
  ])('is not written with %s', (_, change) => {
    const envelope = { ...sample, ...change };
    expect(() => encodeEnvelope(new Uint8Array(1024), 0, envelope)).toThrow(RangeError);
  });

  it('is not written where there is no room for it', () => {
    expect(() => encodeEnvelope(new Uint8Array(envelopeSize(sample)), 1, sample)).toThrow('no room');
  });
});

describe('the leaf', () => {
  it('[R-902] is version, received_at, hash of the envelope and commitment', () => {
    const target = new Uint8Array(LEAF_BYTES + 2);
    const [hash, commitment] = [new Uint8Array(32).fill(0xaa), new Uint8Array(32).fill(0xbb)];
    encodeLeaf(target, 1, encoded(sample), hash, commitment);
    const expected = `00 01 0000010203040506 ${'aa'.repeat(32)} ${'bb'.repeat(32)} 00`;
    expect(Buffer.from(target).toString('hex')).toBe(expected.replaceAll(' ', ''));
  });
});
