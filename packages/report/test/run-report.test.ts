import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { findingsOf } from '../src/page/findings.js';
import { type GroupNumbers, numbersOf } from '../src/report-numbers.js';
import { type ReportPeriod, RunReport } from '../src/run-report.js';
import type { CountedRun } from '../../collector/src/records/counted-run.js';
import { countedOf, MARCH, reported, type WantedRun } from './report-runs.js';

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
    ofNoRun: fc.constant(true as const),
  },
  { requiredKeys: [] },
);
const anyRuns = fc
  .array(anyRun, { maxLength: 40 })
  .map((runs) => runs.map((run, i): WantedRun => ({ ...run, n: i + 1 })));

const HOUR = 3_600_000;
const BEGAN = Date.UTC(2026, 2, 1, 8);
/** Its limits are often times of events, or a millisecond away. */
const anyPeriod = fc
  .record({
    clock: fc.constantFrom('sender' as const, 'received' as const),
    day: fc.integer({ min: -2, max: 6 }),
    days: fc.integer({ min: 0, max: 8 }),
    aside: fc.constantFrom(-8 * HOUR, -1, 0, 1, 1000),
  })
  .map(({ clock, day, days, aside }) => {
    const since = BEGAN + day * 24 * HOUR + aside;
    return { ...MARCH, clock, since, until: since + days * 24 * HOUR, fromFirstEvent: true };
  });

describe('a report of a period [R-715]', () => {
  test('counts a run within one step as it counts each event', () => {
    const near = fc.record({
      ...{ day: fc.integer({ min: -1, max: 4 }), late: fc.constantFrom(0, 0.5, 1, 1.5) },
      ...{ outcomes: fc.array(fc.constant('validated'), { maxLength: 2 }), after: fc.constantFrom(0, 1) },
      ...{ feedback: fc.array(fc.constant({}), { maxLength: 2 }), unreadable: fc.nat({ max: 63 }) },
      ofNoRun: fc.constantFrom<WantedRun>({ n: 0 }, { n: 0, ofNoRun: true }),
    });
    let shortcuts = 0;
    fc.assert(
      fc.property(fc.array(near, { maxLength: 12 }), anyPeriod, (wanted, period) => {
        const [report, byEvents] = [new RunReport(period), new RunReport(period)];
        for (const [i, { ofNoRun, ...each }] of wanted.entries()) {
          const run = countedOf({ ...each, ...ofNoRun, n: i + 1 });
          const looks: true[] = [];
          report.add({
            ...run,
            eachEvent(visit) {
              looks.push(true);
              run.eachEvent(visit);
            },
          });
          if (looks.length === 0) shortcuts++;
          const unknown = { first: -Infinity, last: Infinity };
          const times = { ...run.summary.times, received: unknown, sent: unknown };
          byEvents.add({ ...run, summary: { ...run.summary, times } });
        }
        const countsOf = ({ eventsBySteps, eventsOfNoRun, outside, clocksApart, ...rest }: RunReport) => ({
          ...{ eventsBySteps, eventsOfNoRun, outside, clocksApart },
          ...{ organisations: rest.organisations, eventsRead: rest.eventsRead },
        });
        expect(countsOf(report)).toEqual(countsOf(byEvents));
        expect(report.leftOut).toBe(byEvents.leftOut);
        expect(report.all).toEqual(byEvents.all);
      }),
    );
    expect(shortcuts).toBeGreaterThan(0);
  });

  test('is the same for any order of the runs', () => {
    fc.assert(
      fc.property(anyRuns, (runs) => {
        expect(reported(runs.toReversed())).toEqual(reported(runs));
      }),
    );
  });

  test('adds up by version, organisation, day, outcome and age', () => {
    fc.assert(
      fc.property(anyRuns, (runs) => {
        const numbers = reported(runs);
        const { all, models, organisations, events_by_step: byStep, events_of_no_run: ofNoRun } = numbers;
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
        expect(sum(Object.values(ofNoRun.by_step).flat())).toBe(ofNoRun.events);
        expect(sum(organisations.map((each) => each.events_of_no_run))).toBe(ofNoRun.events);
        for (const group of [all, ...versions]) {
          expect(sum(group.runs_by_step)).toBe(group.runs);
          expect(sum(Object.values(group.outcomes))).toBe(group.runs);
          expect(sum(group.without_outcome_by_age.map((age) => age.of))).toBe(group.runs);
          expect(sum(group.without_outcome_by_age.map((age) => age.count))).toBe(group.outcomes.none);
          expect(sum(Object.values(group.completeness))).toBe(group.runs);
          for (const { days, of } of group.outcome_within) {
            const old = group.without_outcome_by_age.filter((age) => age.from_days >= days);
            expect(of).toBe(sum(old.map((age) => age.of)));
          }
        }
      }),
    );
  });

  test('counts a run in the period in which it began, with later outcomes', () => {
    const numbers = reported([
      { n: 1, day: 30, outcomes: ['contradicted'], after: 5 },
      { n: 2, day: -3, outcomes: ['validated'], after: 5 },
      { n: 3, day: 31 },
    ]);
    expect(numbers.all).toMatchObject({ runs: 1, events: 3, outcomes: { contradicted: 1, none: 0 } });
    // The outcome of the second is of March, that of the first of April.
    expect(numbers.events_by_step.outcome.flat().filter((count) => count > 0)).toEqual([1]);
    expect(numbers.other_runs).toEqual({ runs: 1, events: 1 });
  });

  test('counts events of no run separately', () => {
    const numbers = reported([
      { n: 1, outcomes: ['validated'] },
      { n: 2, ofNoRun: true, day: 3 },
      { n: 3, ofNoRun: true, organisation: 'ward-7' },
      { n: 4, ofNoRun: true, day: 31 },
    ]);
    const { all, models, organisations, events_by_step: byStep, events_of_no_run: ofNoRun } = numbers;
    expect(all).toMatchObject({ runs: 1, events: 3, completeness: { incomplete: 0 } });
    expect(models.map(({ model_id }) => model_id)).toEqual(['sepsis-risk']);
    expect(ofNoRun.events).toBe(2);
    expect(ofNoRun.by_step.outcome.slice(0, 4)).toEqual([1, 0, 0, 1]);
    expect(byStep.outcome.slice(0, 4)).toEqual([0, 0, 1, 0]);
    expect(organisations).toEqual([
      { name: 'default', runs: 1, events: 3, events_of_no_run: 1 },
      { name: 'ward-7', runs: 0, events: 0, events_of_no_run: 1 },
    ]);
    expect(numbers.other_runs).toEqual({ runs: 0, events: 0 });
  });

  test('counts by the clock that is asked for', () => {
    const runs: readonly WantedRun[] = [{ n: 1, day: 1, late: 20, outcomes: ['validated'] }];
    const days = (['sender', 'received'] as const).map((clock) => {
      const { all } = reported(runs, { ...MARCH, clock });
      return [all.runs_by_step.indexOf(1), all.first_run];
    });
    expect(days).toEqual([
      [1, '2026-03-02T08:00:00.000Z'],
      [21, '2026-03-22T08:00:00.000Z'],
    ]);
  });

  test('can begin with the first event, and counts the events outside', () => {
    const runs: readonly WantedRun[] = [
      { n: 1, day: 4, outcomes: ['validated'], model: 'triage' },
      { n: 2, day: 6 },
      { n: 3, day: 3, ofNoRun: true },
      // Wrong clocks: the years 2 and 7502.
      { n: 4, day: -739_000 },
      { n: 5, day: 2_000_000, outcomes: ['partial'] },
    ];
    const numbers = reported(runs, { ...MARCH, fromFirstEvent: true });
    expect([numbers.since, numbers.steps.starts[0]]).toEqual(Array(2).fill('2026-03-04T00:00:00.000Z'));
    expect(numbers.steps.starts).toHaveLength(28);
    expect(numbers.all.runs_by_step.slice(0, 5)).toEqual([0, 1, 0, 1, 0]);
    expect(numbers.models[0]?.versions[0]?.runs_by_step).toHaveLength(28);
    expect(numbers.events_by_step.outcome.slice(0, 5)).toEqual([0, 0, 0, 1, 0]);
    expect(numbers.events_of_no_run.by_step.outcome.slice(0, 2)).toEqual([1, 0]);
    expect(numbers.events_outside).toEqual({ before: 2, after: 3 });
    const asked = reported(runs);
    expect([asked.since, asked.steps.starts.length]).toEqual(['2026-03-01T00:00:00.000Z', 31]);
    expect(asked.all).toEqual({ ...numbers.all, runs_by_step: asked.all.runs_by_step });
    // By the collector's clock, records of other times are not read.
    expect(reported(runs, { ...MARCH, clock: 'received' }).events_outside).toBeNull();
    expect(reported([], { ...MARCH, fromFirstEvent: true }).steps.starts).toHaveLength(31);
  });

  test('recognises a version that is new in the period', () => {
    const { models } = reported([
      { n: 1, day: 2, version: '4.2.0' },
      { n: 2, day: 9, version: '5.0.0' },
      { n: 3, day: 4, version: '4.2.0' },
      // It began before the period; only its outcome is in it.
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

  test('counts a run once, by its last outcome, and runs with different outcomes', () => {
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

  test('counts outcomes within a time for the runs that are as old', () => {
    // The period is 1 to 31 March; the log ends on 10 April at midnight.
    const { all } = reported([
      { n: 1, day: 5, outcomes: ['validated'], after: 1 },
      { n: 2, day: 5, outcomes: ['validated', 'partial'], after: 7 },
      { n: 3, day: 5 },
      { n: 4, day: 29, outcomes: ['validated'], after: 0.5 },
      { n: 5, day: 29, outcomes: ['validated'], after: 6.9 },
    ]);
    expect(all.outcome_within.map(({ days, count, of }) => [days, count, of])).toEqual([
      [1, 1, 5],
      [7, 3, 5],
      [30, 2, 3],
      [90, 0, 0],
    ]);
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

  test('a thumb is up or down by its direction, or else by its rating [R-1417]', () => {
    const thumbs = (more: object) => ({ feedback_type: 'thumbs', ...more });
    const up = [
      ...[{ direction: 'up' }, { direction: 'UP' }, { direction: 'thumbs_up' }, { direction: 'Thumb up ' }],
      ...[
        { direction: 'up', rating_value: 0 },
        { direction: null, rating_value: 3 },
      ],
      ...[{ rating_value: 5 }, { rating_value: 3 }, { rating_value: '4.5' }, { rating_value: 50 }],
    ];
    const down = [
      ...[{ direction: 'down' }, { direction: 'DOWN', rating_value: 5 }, { direction: 'thumbs-down' }],
      ...[{ rating_value: 2.9 }, { rating_value: 0 }, { rating_value: -1 }, { rating_value: '1' }],
    ];
    const neither = [
      ...[{ comment: 'useful' }, {}, { direction: 'sideways', rating_value: 5 }, { direction: true }],
      ...[{ direction: '', rating_value: 5 }, { rating_value: true }, { rating_value: 'good' }],
    ];
    const { all } = reported([{ n: 1, feedback: [...up, ...down, ...neither].map(thumbs) }]);
    expect(all.feedback.thumbs).toBe(up.length + down.length + neither.length);
    expect(all.thumbs_up).toMatchObject({ count: up.length, of: up.length + down.length });
    const { all: rated } = reported([{ n: 1, feedback: [{ feedback_type: 'rating', rating_value: 5 }] }]);
    expect(rated.thumbs_up).toMatchObject({ of: 0 });
  });

  test('sums models and organisations beyond the bounds', () => {
    const numbers = reported(
      Array.from({ length: 520 }, (_, i) => ({ n: i + 1, model: `model-${i}`, organisation: `ward-${i}` })),
    );
    expect([numbers.models.length, numbers.models_not_told_apart.runs]).toEqual([500, 20]);
    expect(numbers.organisations).toHaveLength(200);
    expect(numbers.organisations_not_told_apart).toEqual({ runs: 320, events: 640, events_of_no_run: 0 });
    expect(numbers.all.runs).toBe(520);
    const [long] = reported([{ n: 1, model: 'x'.repeat(100_000) }]).models;
    expect(long?.model_id).toHaveLength(121);
  });

  test('counts how captured calls ended, by status, with their retries and tokens [R-715]', () => {
    const done = {
      ending: 'complete',
      response_model: 'gpt-9',
      usage: { input_tokens: 11, output_tokens: 7 },
    };
    const { all, models } = reported([
      { n: 1, ended: done, attempt: 2 },
      { n: 2, ended: { ...done, usage: { input_tokens: '9' } } },
      { n: 3, ended: { ending: 'failed', status: 500 } },
      { n: 4, ended: { ending: 'failed', status: 429 }, attempt: 3 },
      { n: 5, ended: { ending: 'failed', error_name: 'TypeError' } },
      { n: 6, ended: { ending: 'cut off' } },
      { n: 7 },
    ]);
    expect(all.calls).toMatchObject({
      calls: 7,
      captured: 6,
      endings: { complete: 2, failed: 3, aborted: 0, 'cut off': 1, 'not read': 0 },
      failed: { count: 3, of: 6, share: 0.5 },
      failed_by_status: { 429: 1, 500: 1 },
      retried: 2,
      tokens: { calls: 2, input: 20, output: 7 },
    });
    expect(all.failed_runs).toBe(3);
    expect(all.numbers_in_text).toBe(1);
    // These runs name no version at their start.
    const versions = models.flatMap((model) => model.versions);
    expect(versions.find(({ model_version }) => model_version === 'gpt-9')?.runs).toBe(2);
  });

  test('counts a run of several calls under its first model, and each call under its own [R-1836]', () => {
    const ended = (ending: 'complete' | 'failed', status: number | null = null) => ({
      ended: { ending, status, attempts: 1 },
      tokens: ending === 'failed' ? { input: null, output: null } : { input: 10, output: 1 },
    });
    const several: CountedRun = {
      ...countedOf({ n: 1, model: 'planner', version: '1' }),
      calls: [
        { number: 0, modelId: null, modelVersion: null, ...ended('failed') },
        { number: 1, modelId: 'planner', modelVersion: '1', ...ended('complete') },
        { number: 2, modelId: 'reader', modelVersion: '2', ...ended('complete') },
        { number: 3, modelId: 'reader', modelVersion: '2', ...ended('failed', 429) },
        {
          number: 4,
          modelId: 'reader',
          modelVersion: null,
          ended: null,
          tokens: { input: null, output: null },
        },
      ],
    };
    const single = countedOf({ n: 2, model: 'reader', version: '2' });
    const numbers = (models?: ReportPeriod['models']) => {
      const report = new RunReport({ ...MARCH, models });
      for (const run of [several, single]) report.add(run);
      return numbersOf(report, { madeAt: 0, organisation: undefined, model: undefined, logged: 2 });
    };
    const { all, models } = numbers();
    expect(all).toMatchObject({ runs: 2, failed_runs: 1, calls: { calls: 5, captured: 4 } });
    expect(all.calls.tokens).toEqual({ calls: 2, input: 20, output: 2 });
    const of = (found: typeof models) =>
      found.map(({ model_id, all: { runs, calls } }) => [model_id, runs, calls.calls, calls.endings.failed]);
    expect(of(models)).toEqual([
      ['planner', 1, 1, 1],
      ['reader', 1, 4, 1],
    ]);
    // With --model, its calls in runs of another model count, those runs do not.
    expect(of(numbers([{ model: 'reader' }]).models)).toEqual([['reader', 1, 4, 1]]);
    expect(of(numbers([{ model: 'reader', version: '' }]).models)).toEqual([['reader', 0, 1, 0]]);
    expect(of(numbers([{ model: 'planner' }]).models)).toEqual([['planner', 1, 1, 1]]);
  });

  test('counts a time-out as a failure, and unfinished answers separately [R-1830]', () => {
    const { all } = reported([
      { n: 1, ended: { ending: 'failed', error_name: 'TimeoutError' } },
      { n: 2, ended: { ending: 'unfinished', response_model: 'gpt-9' } },
    ]);
    expect(all.calls).toMatchObject({
      endings: { complete: 0, failed: 1, unfinished: 1 },
      failed: { count: 1, of: 2 },
    });
  });

  test.each([
    ['an answer under the requested name is new', 'complete', true],
    ['only failed calls is not new', 'failed', false],
  ])('a version after %s [R-1830]', (_, ending, isNew) => {
    const numbers = reported([
      { n: 1, day: 1, ended: { ending, response_model: 'sepsis-risk' } },
      { n: 2, day: 2, ended: { ending: 'complete', response_model: 'a' } },
      { n: 3, day: 3, ended: { ending: 'failed' } },
    ]);
    const versions = numbers.models.flatMap((model) => model.versions);
    expect(versions.map(({ model_version, is_new }) => [model_version, is_new])).toEqual([
      ['sepsis-risk', false],
      ['a', isNew],
    ]);
    expect(findingsOf(numbers).some(({ about }) => about.endsWith(' a'))).toBe(isNew);
  });

  test('a version that the log has from before the period is not new [R-715]', () => {
    const of = (...days: readonly (readonly [version: string, day: number])[]) => {
      const { models } = reported(days.map(([version, day], n) => ({ n: n + 1, version, day })));
      return models[0]?.versions.map((each) => [each.model_version, each.is_new]);
    };
    // In the period 5 is first, then 4 again.
    expect(of(['4', -20], ['5', -3], ['5', 1], ['4', 2])).toEqual([
      ['4', false],
      ['5', false],
    ]);
    expect(of(['4', -20], ['5', 1], ['4', 2])).toEqual([
      ['4', false],
      ['5', true],
    ]);
  });

  test('compares a new version with the one before, not with failed calls between them [R-1830]', () => {
    const numbers = reported([
      { n: 1, day: 1, ended: { ending: 'complete', response_model: 'a' } },
      { n: 2, day: 2, ended: { ending: 'failed' } },
      { n: 3, day: 3, ended: { ending: 'complete', response_model: 'b' } },
    ]);
    const sentences = findingsOf(numbers).map(({ says }) => says);
    expect(sentences).toContainEqual(expect.stringMatching(/^First seen on .*, after a\.$/));
  });

  test('failed calls, counted under the requested name, are no new version [R-715] [R-1830]', () => {
    const failed = { ending: 'failed', status: 500 };
    const done = (response_model: string) => ({ ending: 'complete', response_model });
    const { models } = reported([
      { n: 1, day: 1, ended: failed },
      { n: 2, day: 2, ended: done('a') },
      { n: 3, day: 3, ended: done('b') },
    ]);
    const versions = models.flatMap((model) => model.versions);
    expect(versions.map(({ model_version, is_new }) => [model_version, is_new])).toEqual([
      ...[
        ['sepsis-risk', false],
        ['a', false],
        ['b', true],
      ],
    ]);
  });

  test('the rating of a thumb is not counted as a rating [R-206]', () => {
    const feedback = [
      { feedback_type: 'thumbs', direction: 'up', rating_value: 1 },
      { feedback_type: 'rating', rating_value: 4 },
      { feedback_type: 'survey', rating_value: 2 },
    ];
    const { all } = reported([{ n: 1, feedback }]);
    expect(all.ratings).toMatchObject({ count: 2, mean: 3 });
    expect(all.thumbs_up).toMatchObject({ count: 1, of: 1 });
  });

  test('counts a rating that was sent as a text [R-206]', () => {
    const feedback = ['5', '4.5', 'five', 3].map((rating_value) => ({
      feedback_type: 'rating',
      rating_value,
    }));
    const { all } = reported([{ n: 1, feedback }]);
    expect([all.ratings.count, all.ratings.mean]).toEqual([3, 12.5 / 3]);
    expect(all.numbers_in_text).toBe(1);
  });
});
