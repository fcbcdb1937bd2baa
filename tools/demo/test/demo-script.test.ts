import { EVENT_KINDS } from '@clinical-events/protocol';
import { validateEvent } from '@clinical-events/protocol/validate';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { DEFAULT_SEED, DemoScript, type DemoPlan } from '../src/demo-script.js';
import { textOf } from '../src/event-file.js';
import { ANOMALIES, type SentEvent, type Anomaly } from '../src/anomalies.js';
import { SCENARIOS } from '../src/scenarios.js';
import { hourOfWeek } from '../src/random.js';

const DAY = 86_400_000;
const UNTIL = Date.parse('2026-11-20T16:00:00Z');

interface Event extends Record<string, unknown> {
  readonly event_id: string;
  readonly run_id?: string;
  readonly parent_event_id: string | null;
  readonly timestamp: string;
}

function planOf(runs: number, days = 30, seed = DEFAULT_SEED, until = UNTIL): DemoPlan {
  return { seed, runs, period: { since: until - days * DAY, until } };
}

function played(plan: DemoPlan): { script: DemoScript; events: SentEvent[] } {
  const script = new DemoScript(plan);
  return { script, events: [...script.events()] };
}

function parsed(event: SentEvent): Event {
  return JSON.parse(textOf(event)) as Event;
}

const plans = fc
  .record({
    seed: fc.string({ minLength: 1, maxLength: 8 }),
    runs: fc.integer({ min: 1, max: 80 }),
    days: fc.integer({ min: 1, max: 120 }),
    until: fc.integer({ min: Date.UTC(2020), max: Date.UTC(2030) }),
  })
  .map(({ seed, runs, days, until }) => planOf(runs, days, seed, until));

test('[R-717] the same plan gives the same bytes, and any other plan other ids', () => {
  fc.assert(
    fc.property(plans, (plan) => {
      const { events } = played(plan);
      expect(played(plan).events.map(textOf)).toEqual(events.map(textOf));
      const ids = new Set(events.map(({ planned }) => planned.eventId));
      const { seed, runs, period } = plan;
      const others = [
        { ...plan, seed: `${seed}x` },
        { ...plan, runs: runs + 1 },
        { ...plan, period: { ...period, until: period.until + 1 } },
      ];
      for (const other of others) {
        expect(played(other).events.filter(({ planned }) => ids.has(planned.eventId))).toEqual([]);
      }
    }),
    { numRuns: 20 },
  );
});

test('[R-717] any plan gives the number of runs asked for, in order, in the period, all valid', () => {
  fc.assert(
    fc.property(plans, (plan) => {
      const { script, events } = played(plan);
      const { since, until } = plan.period;
      expect(script.tally.runs).toBe(plan.runs);
      expect(script.tally.sendings).toBe(events.length);
      const firsts = events.filter(({ sending }) => sending === 'first');
      expect(script.tally.events).toBe(firsts.length);
      expect(new Set(firsts.map(({ planned }) => planned.eventId)).size).toBe(firsts.length);
      let before = since;
      for (const event of events) {
        expect(event.at).toBeGreaterThanOrEqual(before);
        expect(event.at).toBeLessThan(until);
        before = event.at;
        // The only anomaly that is invalid under profile full.
        const profile = event.inOwnWords ? 'minimum' : 'full';
        expect(validateEvent(event.planned.kind, profile, parsed(event))).toBeUndefined();
      }
    }),
    { numRuns: 60 },
  );
});

test('[R-717] every anomaly has the effect that its name says, and is counted', () => {
  const { script, events } = played(planOf(3000, 90));
  const sent = new Set(events.map(({ planned }) => planned.eventId));
  const firsts = new Map<string, SentEvent>();
  const counts = Object.fromEntries(Object.keys(ANOMALIES).map((name) => [name, 0])) as Record<
    Anomaly,
    number
  >;
  for (const event of events) {
    const { planned, sending, anomalies } = event;
    const body = parsed(event);
    for (const anomaly of anomalies) counts[anomaly]++;
    const first = firsts.get(planned.eventId);
    if (sending === 'first') {
      expect(first).toBeUndefined();
      firsts.set(planned.eventId, event);
      const unnamed = anomalies.includes('no_run_id') || anomalies.includes('stray');
      if (unnamed) expect(body.run_id).toBeUndefined();
      else expect(body.run_id ?? body.event_id).toBe(event.run.runId);
      if (anomalies.includes('no_run_id')) expect(sent).toContain(body.parent_event_id);
      if (anomalies.includes('stray')) expect(sent).not.toContain(body.parent_event_id);
      if (anomalies.includes('late_outcome')) expect(event.at - planned.at).toBeGreaterThanOrEqual(7 * DAY);
      if (anomalies.includes('own_words')) expect(validateEvent('outcome', 'full', body)).toBeDefined();
      continue;
    }
    // A repeat follows its first sending.
    if (first === undefined) throw new Error('a repeat comes first');
    const [was, is] = [textOf(first), textOf(event)];
    if (sending === 'repeat') expect(is).toBe(was);
    else if (sending === 'respelt') {
      expect(is).not.toBe(was);
      expect(body).toEqual(JSON.parse(was));
    } else {
      expect(body).toEqual({ ...parsed(first), timestamp: body.timestamp });
      expect(body.timestamp).not.toBe(parsed(first).timestamp);
    }
  }
  for (const [name, { of }] of Object.entries(ANOMALIES)) {
    const anomaly = name as Anomaly;
    if (of !== 'runs') expect(script.tally.anomalies[anomaly], name).toBe(counts[anomaly]);
    expect(script.tally.anomalies[anomaly], name).toBeGreaterThan(0);
  }
  const { anomalies } = script.tally;
  const runs = new Map(events.map(({ run }) => [run.runId, run]));
  for (const [kind, anomaly] of [
    ['inference-start', 'no_start'],
    ['human-output', 'no_output'],
  ] as const) {
    const lacking = [...runs.values()].filter(({ events: planned }) =>
      planned.some((event) => event.kind === kind && event.at < UNTIL && !sent.has(event.eventId)),
    );
    expect(lacking, anomaly).toHaveLength(anomalies[anomaly]);
  }
  expect(script.tally.sendings - script.tally.events).toBe(
    anomalies.repeat + anomalies.respelt + anomalies.conflict,
  );
});

test('wrong clocks stamp events of the model before the events that caused them', () => {
  const { script, events } = played(planOf(2000));
  const stamped = new Map(events.map((event) => [event.planned.eventId, event.stampedAt]));
  const disordered = events.filter(({ planned, stampedAt }) => {
    const parent = planned.parentEventId === null ? undefined : stamped.get(planned.parentEventId);
    return parent !== undefined && stampedAt < parent;
  });
  const off = events.filter(({ at, stampedAt, sending }) => sending === 'first' && at !== stampedAt);
  expect(script.tally.anomalies.clock_set_back).toBeGreaterThan(0);
  expect(script.tally.anomalies.clock_wrong).toBeGreaterThan(0);
  expect(disordered.length).toBeGreaterThanOrEqual(script.tally.anomalies.clock_set_back);
  for (const { planned } of off) expect(['outcome', 'user-feedback']).not.toContain(planned.kind);
});

test('[R-717] the default demonstration shows every anomaly, kind and scenario on any day', () => {
  for (let hour = 0; hour < 7 * 24; hour += 11) {
    const { script } = played(planOf(200, 30, DEFAULT_SEED, UNTIL + hour * 3_600_000));
    const { anomalies, kinds, scenarios } = script.tally;
    for (const [name, count] of Object.entries(anomalies)) expect(count, name).toBeGreaterThan(0);
    for (const kind of EVENT_KINDS) expect(kinds[kind]).toBeGreaterThan(0);
    for (const { name } of SCENARIOS) expect(scenarios.get(name)?.example, name).toBeDefined();
  }
});

test("[R-717] the agent's three runs are nested by the parents of their inference-starts", () => {
  const { events } = played(planOf(400));
  const runOf = new Map(events.map(({ planned, run }) => [planned.eventId, run]));
  const starts = events.filter(
    ({ run, planned, sending }) =>
      run.scenario === 'care-agent' && planned.kind === 'inference-start' && sending === 'first',
  );
  const nested = starts.filter(({ planned }) => planned.parentEventId !== null);
  expect(nested.length).toBeGreaterThan(20);
  for (const { run, planned } of nested) {
    const caller = runOf.get(planned.parentEventId ?? '');
    if (caller === undefined) continue;
    expect(caller.runId).not.toBe(run.runId);
    expect(caller.scenario).toBe('care-agent');
  }
});

test('runs that people start begin on working days', () => {
  const { events } = played(planOf(2000, 28));
  const starts = events.filter(
    ({ run, planned }) => run.scenario === 'sepsis-abstraction' && planned.kind === 'inference-start',
  );
  const working = starts.filter(({ planned }) => hourOfWeek(planned.at) < 5 * 24);
  expect(working.length / starts.length).toBeGreaterThan(0.95);
});
