import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkProof } from '../../src/verify/index.js';
import type { ProofFault } from '../../src/verify/index.js';
import {
  sampleCheckpoint,
  sampleEvent,
  sampleEvents,
  sampleKey,
  sampleProof,
  sampleRotation,
} from './sample-log.js';

const INDEX = 3;
const events = sampleEvents(7);
const { body, encoded, salt } = sampleEvent(INDEX);
const [key, nextKey] = [sampleKey(), sampleKey()];
const keys = [key.vkey];
const checkpoint = sampleCheckpoint(events, key);
const proof = sampleProof(events, INDEX, checkpoint);
const extra = Buffer.concat([encoded, salt]);

const FAULTS: readonly ProofFault[] = [
  'proof-malformed',
  'key-unusable',
  'rotation-refused',
  'untrusted-key',
  'signature-forged',
  'origin-differs',
  'other-event',
  'not-in-tree',
  'event-differs',
];

async function expectRefused(given: Parameters<typeof checkProof>[0]): Promise<void> {
  const verdict = await checkProof(given);
  expect(verdict.valid).toBe(false);
  if (!verdict.valid) expect(FAULTS).toContain(verdict.reason);
}

/** The bytes with one of them changed to another value. */
const oneChanged = (bytes: Uint8Array) =>
  fc
    .tuple(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }))
    .map(([at, difference]) => bytes.map((byte, index) => (index === at ? byte ^ difference : byte)));

/** The bytes with one removed or replaced by two, or with the end cut off. */
const otherLength = (bytes: Uint8Array) =>
  fc
    .tuple(fc.nat(bytes.length - 1), fc.uint8Array({ maxLength: 2 }), fc.boolean())
    .filter(([, inserted]) => inserted.length !== 1)
    .map(([at, inserted, cut]) =>
      cut ? bytes.subarray(0, at) : Buffer.concat([bytes.subarray(0, at), inserted, bytes.subarray(at + 1)]),
    );

describe('checkProof', () => {
  it('[R-908] holds for the proof that is changed below', async () => {
    expect(await checkProof({ proof, body, keys })).toMatchObject({ valid: true });
  });

  it('[R-908] refuses a body with any byte changed', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(oneChanged(body), otherLength(body)), (changed) =>
        expectRefused({ proof, body: changed, keys }),
      ),
      { numRuns: 400 },
    );
  });

  it('[R-908] refuses a proof with any byte changed', async () => {
    const bytes = new TextEncoder().encode(proof);
    await fc.assert(
      fc.asyncProperty(fc.oneof(oneChanged(bytes), otherLength(bytes)), (changed) =>
        expectRefused({ proof: new TextDecoder().decode(changed), body, keys }),
      ),
      { numRuns: 1000 },
    );
  });

  it('[R-908] refuses extra data with any byte changed', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(oneChanged(extra), otherLength(extra)), (changed) =>
        expectRefused({ proof: sampleProof(events, INDEX, checkpoint, changed), body, keys }),
      ),
      { numRuns: 600 },
    );
  });

  it('[R-908] refuses a rotation with any byte changed, or does not follow it', async () => {
    const rotation = new TextEncoder().encode(sampleRotation(key, nextKey));
    const later = sampleProof(events, INDEX, sampleCheckpoint(events, nextKey));
    await fc.assert(
      fc.asyncProperty(oneChanged(rotation), (changed) =>
        expectRefused({ proof: later, body, keys, rotations: [new TextDecoder().decode(changed)] }),
      ),
      { numRuns: 400 },
    );
  });

  it('has a verdict for input of any content', async () => {
    const piece = fc.constantFrom(...proof.split(/(?<=[ \n])/), '\n', '— ', 'index 0\n');
    const texts = fc.oneof(
      fc.array(piece, { maxLength: 16 }).map((pieces) => pieces.join('')),
      fc.string({ unit: 'binary' }),
    );
    const given = fc.record({
      proof: texts,
      body: fc.oneof(
        fc.uint8Array(),
        fc.json().map((text) => new TextEncoder().encode(text)),
      ),
      keys: fc.array(fc.oneof(texts, fc.constant(key.vkey)), { maxLength: 3 }),
      rotations: fc.array(texts, { maxLength: 2 }),
    });
    await fc.assert(fc.asyncProperty(given, expectRefused), { numRuns: 600 });
    await fc.assert(
      fc.asyncProperty(given, ({ rotations, ...rest }) => expectRefused({ ...rest, proof, rotations })),
      { numRuns: 300 },
    );
  });
});
