/** The content of actions in entries of the log: read by every start and every reader, whoever wrote them. */
import { hash, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import { describe, expect, test } from 'vitest';
import fc from 'fast-check';
import { decodeEnvelope, encodeLeaf, LEAF_BYTES } from '@clinical-events/protocol';
import {
  type Action,
  actionFields,
  actionFrom,
  actionIn,
  Actions,
  partsOf,
  REASONS,
  type Erase,
} from '../../src/privacy/actions.js';
import { SequenceSet } from '../../src/privacy/sequence-set.js';
import { numbersIn } from '../commands/independent-verifier.js';
import { runs } from '../../../../test/property-runs.js';

const sha256Of = (...parts: readonly Uint8Array[]) => hash('sha256', Buffer.concat(parts), 'buffer');

/** The example of docs/INTEGRITY.md, "Actions", by the text before the bytes. */
function example(what: string): string {
  const page = fs.readFileSync(new URL('../../../../docs/INTEGRITY.md', import.meta.url), 'utf8');
  return new RegExp(`^\\| ${what}[^|]*\\| \`(.*?)\` +\\|$`, 'm').exec(page)?.[1] ?? '';
}

const id = fc.uuid();
const numRuns = runs(2000, 200);

const keys = fc
  .tuple(
    fc.uniqueArray(fc.integer({ min: 1, max: 2 ** 40 }), { minLength: 1, maxLength: 20 }),
    fc.integer({ min: 0, max: 2 ** 32 - 1 }),
    fc.string({ maxLength: 8 }),
    fc.boolean(),
  )
  .map(([sequences, tag, organisation, hasPlaces]) => ({
    ...{ tag, organisation, sequences: SequenceSet.of(sequences) },
    ...(hasPlaces && { places: SequenceSet.of(sequences.map((_, i) => i + 1)) }),
  }));

const sha256 = fc.stringMatching(/^[0-9a-f]{64}$/);
/** An erasure without a plan has no such field. */
const planned = fc.record(
  {
    ...{ plan: sha256, marks: sha256, record: sha256 },
    ...{ override: fc.constant<true>(true), incomplete: fc.constant<true>(true) },
  },
  { requiredKeys: [], noNullPrototype: true },
);

const erase: fc.Arbitrary<Erase> = fc
  .tuple(id, fc.constantFrom(...REASONS), fc.array(keys, { minLength: 1, maxLength: 5 }), planned)
  .map(([action, reason, taken, by]) => {
    return { action, does: 'erase', reason, part: 1, parts: 1, keys: taken, ...by };
  });

const action: fc.Arbitrary<Action> = fc.oneof(
  erase,
  id.map((of) => ({ action: of, does: 'done' }) as const),
  fc.tuple(id, id).map(([of, hold]) => ({ action: of, does: 'release', hold }) as const),
  fc.tuple(id, sha256).map(([of, record]) => ({ action: of, does: 'hold', record }) as const),
  fc
    .tuple(id, fc.integer({ min: 1, max: 99 }))
    .map(([of, epoch]) => ({ action: of, does: 'rotate', epoch }) as const),
);

function bodyOf(said: object): Buffer {
  return Buffer.from(JSON.stringify({ event_id: '018f6f6e-8c2b-4cc0-9f6e-2f1d3a4b5c6d', ...said }));
}

describe('an action', () => {
  test('[R-1344] is the same after it was written to the log and read', () => {
    fc.assert(
      fc.property(action, (said) => {
        const actions = new Actions();
        expect(actions.add(7, 1000, bodyOf(actionFields(said)))).toBe(true);
        expect(actions.logged[0]?.said).toEqual(said);
      }),
      { numRuns },
    );
  });

  test('[R-2031] has one text: other texts of the same content are refused', () => {
    fc.assert(
      fc.property(action, (said) => {
        const [text, fields] = [bodyOf(actionFields(said)).toString(), actionFields(said)];
        const others = [
          text.replace(',', ', '),
          `${text}\n`,
          bodyOf({ ...fields, comment: 1 }).toString(),
          bodyOf(Object.fromEntries(Object.entries(fields).reverse())).toString(),
          text.replace('"does"', String.raw`"\u0064oes"`),
          text.replace('"action":', '"action":"","action":'),
          ...('events' in fields ? [text.replace(/"events":(\d+)/, '"events":1$1')] : []),
        ];
        for (const other of others) expect(actionIn(Buffer.from(other)), other).toBeUndefined();
        expect(actionIn(Buffer.from(text))).toEqual(said);
        expect(actionIn(Buffer.from(JSON.stringify(fields)))).toEqual(said);
      }),
      { numRuns },
    );
  });

  test('[R-2031] the example of docs/INTEGRITY.md is what the collector writes and reads', () => {
    const body = Buffer.from(example('body of the action'));
    const said = actionIn(body);
    expect(said).toMatchObject({ does: 'erase', reason: 'policy', rule: 'default' });
    const [taken] = (said as Erase).keys;
    expect(taken?.sequences).toEqual(SequenceSet.of([1, 2, 3, 127, 128, 300]));
    expect(numbersIn(taken?.sequences.toText() ?? '')).toEqual([1, 2, 3, 127, 128, 300]);
    const envelope = Buffer.from(example('envelope of the action'), 'hex');
    expect(decodeEnvelope(envelope).envelope).toMatchObject({ kind: 0x80, keyId: 'lifecycle000' });
    const commitment = sha256Of(Buffer.from(example('salt of the action'), 'hex'), body);
    const leaf = Buffer.alloc(LEAF_BYTES);
    encodeLeaf(leaf, 0, envelope, sha256Of(envelope), commitment);
    expect([commitment, leaf, sha256Of(Buffer.of(0), leaf)].map((bytes) => bytes.toString('hex'))).toEqual(
      ['commitment of the action', 'leaf of the action', 'hash of that leaf'].map(example),
    );
  });

  test('is refused without an error where a member has another value', () => {
    const fields = fc.constantFrom(
      ...['format', 'action', 'does', 'reason', 'part', 'parts', 'keys', 'record', 'hold', 'epoch', 'policy'],
      ...['plan', 'marks', 'override_floor', 'incomplete', 'events'],
    );
    const inner = fc.constantFrom('bucket', 'organisation', 'sequences', 'places');
    fc.assert(
      fc.property(erase, fields, inner, fc.jsonValue(), fc.jsonValue(), (said, field, within, one, other) => {
        const written = actionFields(said) as Record<string, unknown> & { keys: object[] };
        for (const changed of [
          { ...written, [field]: one },
          { ...written, keys: [{ ...written.keys[0], [within]: other }] },
        ])
          new Actions().add(1, 0, bodyOf(changed));
      }),
      { numRuns },
    );
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        expect(new Actions().add(1, 0, Buffer.from(bytes))).toBe(false);
      }),
      { numRuns },
    );
  });

  test('[R-1344] is refused where a hash of its plan, marks or record, or a flag, has another value', () => {
    const sound = {
      ...{ format: 'clinical-events/action/v1', action: randomUUID(), does: 'erase', reason: 'court-order' },
      ...{ part: 1, parts: 1, keys: [] },
    };
    const hex = 'a'.repeat(64);
    expect(actionFrom({ ...sound, plan: hex, marks: hex, record: hex, override_floor: true })).toBeDefined();
    const wrong: Record<string, unknown>[] = ['plan', 'marks', 'record'].flatMap((name) =>
      ['', hex.toUpperCase(), `${hex}0`, null, 7, [hex]].map((value) => ({ [name]: value })),
    );
    for (const name of ['override_floor', 'incomplete'])
      for (const value of [false, 'true', 1, null]) wrong.push({ [name]: value });
    for (const each of wrong) expect(actionFrom({ ...sound, ...each }), JSON.stringify(each)).toBeUndefined();
  });

  test('of many events has parts that together equal it, none longer than an event may be', () => {
    fc.assert(
      fc.property(fc.array(keys, { minLength: 1, maxLength: 40 }), (taken) => {
        const by = { plan: 'a'.repeat(64), override: true } as const;
        const parts = partsOf({ action: 'a', does: 'erase', reason: 'policy', keys: taken, ...by });
        for (const part of parts) expect(part).toMatchObject(by);
        expect(parts.flatMap((part) => part.keys)).toEqual(taken);
        expect(parts.map(({ part }) => part)).toEqual(parts.map((_, i) => i + 1));
      }),
      { numRuns },
    );
    const stretches = Array.from({ length: 60_000 }, (_, i) => 3 * i + 1);
    const [sequences, places] = [SequenceSet.of(stretches), SequenceSet.of(stretches)];
    const taken = Array.from({ length: 8 }, (_, tag) => ({ tag, organisation: 'ward', sequences, places }));
    const parts = partsOf({ action: 'a', does: 'erase', reason: 'policy', keys: taken });
    expect(parts.length).toBeGreaterThan(1);
    for (const part of parts) expect(bodyOf(actionFields(part)).length).toBeLessThan(1 << 20);
  });
});
