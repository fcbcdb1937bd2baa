import { describe, expect, test } from 'vitest';
import { Actions } from '../../src/privacy/actions.js';
import { SequenceSet } from '../../src/privacy/sequence-set.js';
import { type ErasedEvent, type HeldThings, Lawfulness } from '../../src/privacy/lawfulness.js';

const uuid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
const [FIRST_POLICY, SECOND_POLICY, HOLD, ERASED] = [uuid(1), uuid(2), uuid(3), uuid(4)];
const RUN = uuid(9);
const NOW = Date.parse('2026-11-25T12:00:00Z');
const DAY = 86_400_000;

const POLICY = {
  ...{ version: 1, name: 'hospital', age_from: 'last_event', default: { keep: 'P2Y' } },
  floors: [
    { id: 'ward', match: { organisation: ['icu'], kind: ['outcome'] }, keep: 'P2Y' },
    { id: 'model', match: { model_id: ['sepsis'] }, keep: 'P2Y' },
  ],
  rules: [
    { id: 'tests', match: { organisation: ['sandbox'] }, keep: 'P1D', floor: 'none' },
    { id: 'models', match: { model_id: ['sepsis'] }, keep: 'P9Y' },
    { id: 'icu', match: { organisation: ['icu'] }, keep: 'P2Y' },
  ],
};

/** A log in which these actions stand, one behind the other. */
function logOf(...bodies: readonly object[]): Actions {
  const actions = new Actions();
  for (const [i, body] of bodies.entries()) {
    const text = JSON.stringify({ event_id: uuid(100 + i), format: 'clinical-events/action/v1', ...body });
    expect(actions.add(1000 + i, NOW, Buffer.from(text))).toBe(true);
  }
  return actions;
}

const policy = (action: string, text: object = POLICY) => ({ action, does: 'policy', policy: text });
const hold = { action: HOLD, does: 'hold', record: 'ab' };
const erased = (more: object = {}) => ({
  ...{ action: ERASED, does: 'retire', reason: 'erasure-request', part: 1, parts: 1 },
  keys: [{ bucket: '00000001', organisation: 'icu', set: SequenceSet.of([1, 2, 3]).toText() }],
  ...more,
});
const byPolicy = (rule: string, by = FIRST_POLICY) => erased({ reason: 'policy', policy: by, rule });
const event = (more: Partial<ErasedEvent> = {}): ErasedEvent => ({
  ...{ sequence: 2, organisation: 'icu', kind: 'outcome', receivedAt: NOW - 3 * 365 * DAY, recordId: RUN },
  ...more,
});
const young = { receivedAt: NOW - 10 * DAY };

const HOLDS = new Map<string, HeldThings>([
  [HOLD, { name: 'CASE-7', runs: [RUN], organisations: ['ed'], events: SequenceSet.of([3]) }],
]);

function whyNot(actions: Actions, of = event()): string | undefined {
  return new Lawfulness(actions, HOLDS).faultOf(of)?.why;
}

describe('[R-1349] an erasure', () => {
  test.each([
    ['on request, without a policy', [erased()], event(young)],
    ['of an event that no action names', [hold, erased()], event({ sequence: 4 })],
    [
      'when the hold was released',
      [hold, { action: uuid(5), does: 'unhold', hold: HOLD }, erased()],
      event(),
    ],
    ['before the hold began', [erased(), hold], event()],
    ['of what is not on hold', [hold, erased()], event({ recordId: uuid(8) })],
    ['before a policy with a floor was set', [erased(), policy(FIRST_POLICY)], event(young)],
    [
      'of a kind that no floor names',
      [policy(FIRST_POLICY), erased()],
      event({ ...young, kind: 'feedback' }),
    ],
    ['by a rule, of what is due', [policy(FIRST_POLICY), byPolicy('icu')], event()],
    [
      'by a rule about a model, which nobody knows',
      [policy(FIRST_POLICY), byPolicy('models')],
      event({ receivedAt: NOW - 10 * 365 * DAY }),
    ],
    [
      'by a rule above the floors',
      [policy(FIRST_POLICY), byPolicy('tests')],
      event({ ...young, organisation: 'sandbox' }),
    ],
    [
      'below a floor that was overridden, for a reason that may',
      [policy(FIRST_POLICY), erased({ reason: 'court-order', override: true })],
      event(young),
    ],
    [
      'of a run whose age counts from a start that is gone',
      [policy(FIRST_POLICY, { ...POLICY, age_from: 'run_start', floors: [] }), byPolicy('icu')],
      event(young),
    ],
  ])('%s, was allowed', (_, bodies, of) => {
    expect(whyNot(logOf(...bodies), of)).toBeUndefined();
  });

  test.each([
    ['of a run on hold', [hold, erased()], event(), 'the hold CASE-7 was on it'],
    [
      'of an organisation on hold',
      [hold, erased()],
      event({ organisation: 'ed', recordId: uuid(8) }),
      'the hold CASE-7 was on it',
    ],
    [
      'of what the hold met when it began, whichever run it is of now',
      [hold, erased()],
      event({ sequence: 3, recordId: uuid(8) }),
      'the hold CASE-7 was on it',
    ],
    [
      'by a policy, of a run on hold',
      [policy(FIRST_POLICY), hold, byPolicy('icu')],
      event(),
      'the hold CASE-7 was on it',
    ],
    [
      'by a court, below a floor that was not overridden',
      [policy(FIRST_POLICY), erased({ reason: 'court-order' })],
      event(young),
      'the floor "ward" of the policy kept it until 2028-11-15',
    ],
    [
      'on request, below a floor that was overridden',
      [policy(FIRST_POLICY), erased({ override: true })],
      event(young),
      'the floor "ward" of the policy kept it until 2028-11-15',
    ],
    [
      'on request, below a floor',
      [policy(FIRST_POLICY), erased()],
      event(young),
      'the floor "ward" of the policy kept it until 2028-11-15',
    ],
    [
      'by a rule, too soon',
      [policy(FIRST_POLICY), byPolicy('icu')],
      event(young),
      'the rule "icu" kept it until 2028-11-15',
    ],
    [
      'by the default, where a rule decides',
      [policy(FIRST_POLICY), byPolicy('default')],
      event(),
      'its rule is "icu", not "default"',
    ],
    [
      'by a rule about another organisation',
      [policy(FIRST_POLICY), byPolicy('tests')],
      event(),
      'the rule "tests" is not about it',
    ],
    [
      'by a rule that is none',
      [policy(FIRST_POLICY), byPolicy('icu2')],
      event({ organisation: 'x' }),
      'its rule is "default", not "icu2"',
    ],
    [
      'by a policy that was never set',
      [byPolicy('icu')],
      event(),
      'the policy that it names was not in force',
    ],
    [
      'by a policy that is none',
      [policy(FIRST_POLICY, { version: 2 }), byPolicy('icu')],
      event(),
      'the policy of that time is none that is known here',
    ],
    [
      'by a policy that another had followed',
      [policy(FIRST_POLICY), policy(SECOND_POLICY), byPolicy('icu')],
      event(),
      'the policy that it names was not in force',
    ],
    [
      'for ever kept',
      [policy(FIRST_POLICY, { ...POLICY, default: { keep: 'forever' } }), byPolicy('default')],
      event({ organisation: 'x' }),
      'the rule "default" kept it for ever',
    ],
  ])('%s, was not', (_, bodies, of, why) => {
    expect(whyNot(logOf(...bodies), of)).toBe(why);
  });

  test('is not shown to be lawful while a hold stood of which nobody can tell what it held', () => {
    const whyUnknown = (...bodies: object[]) =>
      new Lawfulness(logOf(...bodies), new Map()).faultOf(event())?.why;
    expect(whyUnknown(hold, erased())).toBe(
      `hold ${HOLD} stood, and its record is not here as it was written`,
    );
    expect(whyUnknown(erased(), hold)).toBeUndefined();
    expect(whyUnknown(hold, { action: uuid(5), does: 'unhold', hold: HOLD }, erased())).toBeUndefined();
  });

  test('is judged by what was in force then, and the first of two actions is the one that counts', () => {
    const again = erased({ action: uuid(6) });
    const actions = logOf(hold, erased(), { action: uuid(5), does: 'unhold', hold: HOLD }, again);
    const lawfulness = new Lawfulness(actions, HOLDS);
    expect(lawfulness.faultOf(event({ sequence: 1, recordId: uuid(8) }))).toBeUndefined();
    expect(lawfulness.faultOf(event())).toEqual({ action: ERASED, why: 'the hold CASE-7 was on it' });
    expect(lawfulness.faultOf(event({ sequence: 3, organisation: 'ed' }))?.action).toBe(ERASED);
  });
});
