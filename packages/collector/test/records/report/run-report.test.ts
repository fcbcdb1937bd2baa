import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { GroupNumbers } from '../../../src/records/report/report-numbers.js';
import { MARCH, reported, type WantedRun } from './report-runs.js';

const anyRun = fc.record(
  {
    day: fc.integer({ min: -3, max: 33 }),
    model: fc.constantFrom('sepsis-risk', 'triage'),
    version: fc.constantFrom('1', '2', '3'),
    organisation: fc.constantFrom('default', 'ward-7'),
    outcomes: fc.array(
      fc.constantFrom('validated', 'contradicted', 'partial', 'unknown', 'as he wished', 7),
      {
        maxLength: 3,
      },
    ),
    after: fc.integer({ min: -1, max: 20 }),
    feedback: fc.array(
      fc.constantFrom(
        { feedback_type: 'rating', rating_value: 3.5 },
        { feedback_type: 'thumbs', direction: 'up' },
        { feedback_type: 'he frowned' },
      ),
      { maxLength: 3 },
    ),
    latencyMs: fc.integer({ min: 0, max: 100_000 }),
  },
  { requiredKeys: [] },
);
const anyRuns = fc
  .array(anyRun, { maxLength: 40 })
  .map((runs) => runs.map((run, i): WantedRun => ({ ...run, n: i + 1 })));

describe('a report of a period [R-715]', () => {
  test('is the same whatever the order of the runs', () => {
    fc.assert(
      fc.property(anyRuns, (runs) => {
        expect(reported(runs.toReversed())).toEqual(reported(runs));
      }),
    );
  });

  test('adds up: by version, by organisation, by day, by outcome and by age', () => {
    fc.assert(
      fc.property(anyRuns, (runs) => {
        const { all, models, organisations, events_by_step: byStep } = reported(runs);
        const versions = models.flatMap((model) => model.versions);
        const sum = (counts: readonly number[]) => counts.reduce((some, count) => some + count, 0);
        const of = (groups: readonly Pick<GroupNumbers, 'runs' | 'events'>[]) => [
          sum(groups.map((group) => group.runs)),
          sum(groups.map((group) => group.events)),
        ];
        for (const groups of [models.map((model) => model.all), versions, organisations]) {
          expect(of(groups)).toEqual([all.runs, all.events]);
        }
        expect(sum(Object.values(byStep).flat())).toBe(all.events);
        for (const group of [all, ...versions]) {
          expect(sum(group.runs_by_step)).toBe(group.runs);
          expect(sum(Object.values(group.outcomes))).toBe(group.runs);
          expect(sum(group.without_outcome_by_age.map((age) => age.of))).toBe(group.runs);
          expect(sum(group.without_outcome_by_age.map((age) => age.count))).toBe(group.outcomes.none);
          expect(sum(Object.values(group.completeness))).toBe(group.runs);
        }
      }),
    );
  });

  test('counts a run in the period in which it began, with what is known of it since', () => {
    const numbers = reported([
      { n: 1, day: 30, outcomes: ['contradicted'], after: 5 },
      { n: 2, day: -3, outcomes: ['validated'], after: 5 },
      { n: 3, day: 31 },
    ]);
    expect(numbers.all).toMatchObject({ runs: 1, events: 3, outcomes: { contradicted: 1, none: 0 } });
    // The outcome of the second came in March, that of the first in April.
    expect(numbers.events_by_step.outcome.flat().filter((count) => count > 0)).toEqual([1]);
    expect(numbers.other_runs).toEqual({ runs: 1, events: 1 });
  });

  test('goes by the clock that it is asked to go by', () => {
    const runs: readonly WantedRun[] = [{ n: 1, day: 1, late: 20, outcomes: ['validated'] }];
    const days = (['sender', 'collector'] as const).map((clock) => {
      const { all } = reported(runs, { ...MARCH, clock });
      return [all.runs_by_step.indexOf(1), all.first_run];
    });
    expect(days).toEqual([
      [1, '2026-03-02T08:00:00.000Z'],
      [21, '2026-03-22T08:00:00.000Z'],
    ]);
  });

  test('tells a version that came after another from one that was there', () => {
    const { models } = reported([
      { n: 1, day: 2, version: '4.2.0' },
      { n: 2, day: 9, version: '5.0.0' },
      { n: 3, day: 4, version: '4.2.0' },
      // It began before the period, and only its outcome came in it.
      { n: 4, day: -2, version: '4.1.0', outcomes: ['validated'], after: 4 },
      { n: 5, withoutStart: true },
    ]);
    expect(models.map(({ model_id }) => model_id)).toEqual(['sepsis-risk', null]);
    expect(
      models[0]?.versions.map(({ model_version, is_new, runs }) => [model_version, is_new, runs]),
    ).toEqual([
      ['4.1.0', false, 0],
      ['4.2.0', true, 2],
      ['5.0.0', true, 1],
    ]);
  });

  test('counts a run once, by its last outcome, and says where outcomes differ', () => {
    const { all } = reported([
      { n: 1, outcomes: ['validated', 'contradicted'] },
      { n: 2, outcomes: ['contradicted', 'validated'] },
      { n: 3, outcomes: ['partial', 'partial'] },
      { n: 4, outcomes: ['he went home'] },
      { n: 5, outcomes: ['unknown'] },
      { n: 6 },
    ]);
    expect(all.outcomes).toMatchObject({
      validated: 1,
      partial: 1,
      contradicted: 1,
      other_words: 1,
      unknown: 1,
    });
    expect(all.contradicted).toMatchObject({ count: 1, of: 3 });
    expect(all.with_outcome).toMatchObject({ count: 5, of: 6 });
    expect(all.changed_outcomes).toBe(2);
  });

  test('counts feedback by how often it was given', () => {
    const { all } = reported([
      {
        n: 1,
        feedback: [
          { feedback_type: 'thumbs', direction: 'up' },
          { feedback_type: 'thumbs', direction: '?' },
        ],
      },
      {
        n: 2,
        feedback: [
          { feedback_type: 'thumbs', direction: 'down' },
          { feedback_type: 'survey', rating_value: 4.6 },
        ],
      },
      {
        n: 3,
        feedback: [
          { feedback_type: 'rating', rating_value: 2 },
          { feedback_type: 'rating', rating_value: 50 },
        ],
      },
      { n: 4, feedback: [{ words: 'none of these' }] },
    ]);
    expect(all.feedback).toEqual({ rating: 2, thumbs: 3, text: 0, survey: 1, other_words: 1, unreadable: 0 });
    expect(all.thumbs_up).toMatchObject({ count: 1, of: 2 });
    expect(all.ratings).toEqual({ count: 2, mean: 3.3, distribution: [0, 0, 1, 0, 0, 1] });
  });

  test('sums what is one model or one organisation too many', () => {
    const numbers = reported(
      Array.from({ length: 520 }, (_, i) => ({ n: i + 1, model: `model-${i}`, organisation: `ward-${i}` })),
    );
    expect([numbers.models.length, numbers.models_not_told_apart.runs]).toEqual([500, 20]);
    expect(numbers.organisations).toHaveLength(200);
    expect(numbers.organisations_not_told_apart).toEqual({ runs: 320, events: 640 });
    expect(numbers.all.runs).toBe(520);
    const [long] = reported([{ n: 1, model: 'x'.repeat(100_000) }]).models;
    expect(long?.model_id).toHaveLength(121);
  });
});
