import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parsePolicy, PolicyFault } from '../../src/privacy/retention-policy.js';
import { runs } from '../../../../test/property-runs.js';

const HOSPITAL = {
  ...{ version: 1, name: 'hospital-2026', owner: 'dpo@hospital.example', age_from: 'run_start' },
  floors: [
    { id: 'ai-act', keep: 'P6M', basis: 'AI Act 19(1)' },
    { id: 'record', match: { organisation: ['icu', 'ed'] }, keep: 'P10Y', basis: 'BGB 630f(3)' },
  ],
  rules: [
    { id: 'test-data', match: { organisation: ['sandbox'] }, keep: 'P30D', floor: 'none' },
    {
      id: 'reasoning',
      match: { organisation: ['research'], kind: ['internal-artifact'] },
      keep: 'P1Y',
      unit: 'event',
    },
    { id: 'old-model', match: { model_id: ['sepsis*'], model_version: ['1.*'] }, keep: 'P12Y' },
  ],
  default: { keep: 'P10Y' },
};
const read = (change: object = {}) => parsePolicy(JSON.stringify({ ...HOSPITAL, ...change }));
const faultsOf = (change: object) => {
  try {
    read(change);
    return [];
  } catch (error) {
    return (error as PolicyFault).faults;
  }
};
const at = (text: string) => Date.parse(text);

describe('[R-1341] a retention policy', () => {
  test('does not take a rule about kinds for whole runs', () => {
    const rules = [{ id: 'kinds', match: { kind: ['outcome'] }, keep: 'P20Y' }];
    expect(faultsOf({ rules })).toEqual([
      'rules[0]: names kinds, but a run has events of several kinds: its unit must be "event"',
    ]);
  });

  test('takes the first rule that matches, and the default where none does', () => {
    const policy = read();
    const ruleOf = (facts: Parameters<typeof policy.ruleFor>[0]) => policy.ruleFor(facts);
    expect(ruleOf({ organisation: 'sandbox', model_id: 'sepsis-watch', model_version: '1.2' }).id).toBe(
      'test-data',
    );
    expect(ruleOf({ organisation: 'research', kind: 'internal-artifact' })).toEqual({
      id: 'reasoning',
      unit: 'event',
    });
    expect(ruleOf({ organisation: 'research', kind: 'outcome' })).toEqual({ id: 'default', unit: 'run' });
    expect(ruleOf({ organisation: 'icu', model_id: 'sepsis-watch', model_version: '1.2' }).id).toBe(
      'old-model',
    );
    expect(ruleOf({ organisation: 'icu', model_id: 'sepsis-watch', model_version: '2.0' }).id).toBe(
      'default',
    );
    expect(ruleOf({ organisation: 'icu', model_id: 'sepsis-watch' }).id).toBe('default');
    expect(policy.isAboveFloors({ organisation: 'sandbox' })).toBe(true);
    expect(policy.isAboveFloors({ organisation: 'icu' })).toBe(false);
  });

  test.each([
    ['P1M', '2026-01-31T12:00:00Z', '2026-02-28T12:00:00Z'],
    ['P1Y', '2024-02-29T00:00:00Z', '2025-02-28T00:00:00Z'],
    ['P1Y1M1D', '2026-11-30T00:00:00Z', '2027-12-31T00:00:00Z'],
    ['P30D', '2026-12-15T23:59:59.999Z', '2027-01-14T23:59:59.999Z'],
  ])('keeps %s from %s until %s', (keep, from, until) => {
    const policy = read({ floors: [], rules: [], default: { keep } });
    expect(policy.keptUntil({ organisation: 'x' }, at(from))).toBe(at(until));
  });

  test('keeps for ever the events for which it says so', () => {
    const policy = read({ default: { keep: 'forever' } });
    expect(policy.keptUntil({ organisation: 'x' }, 0)).toBeUndefined();
  });

  test('holds by the longest of its floors, until that has ended', () => {
    const policy = read();
    const received = at('2026-01-01T00:00:00Z');
    const held = (organisation: string, now: string) => policy.heldBy({ organisation }, received, at(now));
    expect(held('icu', '2026-03-01T00:00:00Z')).toEqual({ id: 'record', until: at('2036-01-01T00:00:00Z') });
    expect(held('lab', '2026-03-01T00:00:00Z')).toEqual({ id: 'ai-act', until: at('2026-07-01T00:00:00Z') });
    expect(held('lab', '2026-07-01T00:00:00Z')).toBeUndefined();
  });

  test.each([
    [{ version: 2 }, 'version: must be 1'],
    [{ name: '' }, 'name: must be a text of 1 to 256 characters'],
    [{ retention: 1 }, 'retention: is unknown'],
    [{ age_from: 'birth' }, 'age_from: must be one of run_start, last_event, received_at'],
    [{ rules: {} }, 'rules: must be a list'],
    [{ rules: [7] }, 'rules[0]: must be an object'],
    [
      { rules: [{ id: 'a b', keep: 'P20Y' }] },
      'rules[0].id: must be 1 to 64 characters of A-Z a-z 0-9 . _ -',
    ],
    [
      { rules: [{ id: 'a', keep: '10 years' }] },
      'rules[0].keep: must be a time such as P10Y, P6M or P30D, or "forever"',
    ],
    [
      { rules: [{ id: 'a', match: { kind: ['start'] }, keep: 'P20Y' }] },
      'rules[0].match.kind: "start" is not one of inference-start, internal-artifact, human-output, outcome, user-feedback',
    ],
    [{ rules: [{ id: 'a', match: { patient: ['x'] }, keep: 'P20Y' }] }, 'rules[0].match.patient: is unknown'],
    [
      { rules: [{ id: 'a', match: { organisation: [] }, keep: 'P20Y' }] },
      'rules[0].match.organisation: is empty',
    ],
    [
      {
        rules: [
          { id: 'a', keep: 'P20Y' },
          { id: 'a', keep: 'P20Y' },
        ],
      },
      'rules: has "a" twice',
    ],
    [{ rules: [{ id: 'a', keep: 'P20Y', floor: 'low' }] }, 'rules[0].floor: can only be "none"'],
    [{ default: {} }, 'default.keep: must be a time such as P10Y, P6M or P30D, or "forever"'],
  ])('with %j is refused: %s', (change, fault) => expect(faultsOf(change)).toContain(fault));

  test('that keeps for less time than a floor is refused, with both names, and only where both may match', () => {
    const rule = (more: object) => faultsOf({ rules: [{ id: 'short', keep: 'P1Y', ...more }] });
    const message = 'the rule "short" keeps events for a shorter time than the floor "record"';
    expect(rule({})).toEqual([message]);
    expect(rule({ match: { organisation: ['icu'] } })).toEqual([message]);
    expect(rule({ match: { organisation: ['lab'] } })).toEqual([]);
    expect(rule({ floor: 'none' })).toEqual([]);
    expect(faultsOf({ default: { keep: 'P9Y' } })).toEqual([
      'the rule "default" keeps events for a shorter time than the floor "record"',
    ]);
  });

  test('is never read from another text', () => {
    const json = fc.oneof(
      fc.jsonValue(),
      fc.record({
        version: fc.constant(1),
        name: fc.string(),
        rules: fc.jsonValue(),
        floors: fc.jsonValue(),
        default: fc.jsonValue(),
      }),
    );
    fc.assert(
      fc.property(
        fc.oneof(
          json.map((value) => JSON.stringify(value)),
          fc.string(),
        ),
        (text) => {
          try {
            parsePolicy(text);
          } catch (error) {
            expect(error).toBeInstanceOf(PolicyFault);
          }
        },
      ),
      { numRuns: runs(500) },
    );
    expect(() => parsePolicy(' '.repeat(70_000))).toThrow(/larger than 64 KiB/);
  });
});
