/** Sampling, as the ledger shows it. */
import type { EventKind } from '@clinical-events/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type JudgedEvent, type SampledRun, Sampler, type Sampling } from '../src/sampling.js';
import { fakeCollector } from './running/fake-collector.js';
import { hurriedClient } from './running/hurried-client.js';

const MODEL = { model_id: 'triage', model_version: '2.1' };

interface Counts {
  readonly runs: number;
  readonly events: number;
}

test('[R-863] the ledger gives the number of all runs and events, also of those left out', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url, sampling: { rate: 0.2 } });
  for (let i = 0; i < 500; i++) {
    const run = log.startRun({ model: MODEL });
    run.output({ summary: 's' });
  }
  // Close gives up after a time.
  await log.flush();
  await log.close();
  // On a busy machine, an event that is answered late is sent again.
  const accepted = [...new Map(collector.accepted.map((each) => [each.event.event_id, each])).values()];
  const starts = accepted.filter(({ path }) => path.endsWith('inference-start'));
  const summaries = accepted.filter(({ event }) => event.run_id === undefined);
  const counts = accepted.flatMap(
    ({ event }) => (event.system_metadata['not_captured'] as Counts | undefined) ?? [],
  );
  const sum = (of: (counts: Counts) => number) => counts.map(of).reduce((a, b) => a + b, 0);
  expect(starts.length + sum(({ runs }) => runs)).toBe(500);
  expect(accepted.length - summaries.length + sum(({ events }) => events)).toBe(1000);
  expect(starts.length).toBeGreaterThan(50);
  expect(starts.length).toBeLessThan(200);
  for (const { event } of starts) {
    expect(event.system_metadata['sampling']).toEqual({ rate: 0.2, selected: true });
  }
});

test('[R-863] close reports the remaining counts in an artifact without a run', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url, sampling: { rate: 0, risk: () => false } });
  const run = log.startRun({ model: MODEL });
  expect(await run.output({ summary: 's' })).toBe('held');
  await log.close();
  expect(collector.accepted).toHaveLength(1);
  const [summary] = collector.accepted;
  expect(summary?.path).toBe('/event/internal-artifact');
  expect(summary?.event).toMatchObject({
    artifact: { artifact_type: 'other', artifact_uri: `urn:uuid:${summary?.event.event_id}` },
    system_metadata: { not_captured: { runs: 1, events: 2, models: [{ ...MODEL, runs: 1, events: 2 }] } },
  });
});

test('[R-863] a run that turns out risky is sent completely, with its own times and ids', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({
    url: collector.url,
    sampling: {
      rate: 0,
      risk: ({ kind, payload }) => kind === 'human-output' && payload.output['alarm'] === true,
    },
    content: { put: () => Promise.resolve() },
  });
  const quiet = log.startRun({ model: MODEL });
  quiet.output({ summary: 'nothing' });
  const run = log.startRun({ model: MODEL });
  const tool = run.artifact({ artifact_type: 'tool_call' }, { content: 'args' });
  await new Promise((resolve) => setTimeout(resolve, 20));
  const before = Date.now();
  run.output({ alarm: true });
  await log.flush();
  const events = collector.accepted.map(({ event }) => event);
  expect(new Set(events.map((event) => event.run_id))).toEqual(new Set([run.id]));
  const start = events.find((event) => event.event_id === run.startEventId);
  expect(Date.parse(start?.timestamp ?? '')).toBeLessThan(before);
  expect(start?.system_metadata['sampling']).toEqual({ rate: 0, selected: false });
  expect(events.find((event) => event.event_id === tool.eventId)).toBeDefined();
  expect(events.find((event) => 'output' in event)?.system_metadata['sampling']).toEqual({ trigger: 'risk' });
});

test('[R-863] counts in an event that was refused are sent with the next one', async () => {
  const collector = await fakeCollector();
  let rate = 0;
  const { log } = hurriedClient({
    url: collector.url,
    sampling: {
      risk: ({ payload }) => 'model_instance' in payload && rate === 1,
      rate: 0,
      window: { runs: 0 },
    },
  });
  log.startRun({ model: MODEL });
  rate = 1;
  const refused = log.startRun({ model: MODEL, inputs: { prompt: 5 } as unknown as { prompt: string } });
  await expect(refused.started).rejects.toThrow('not valid');
  log.startRun({ model: MODEL });
  await log.flush();
  expect(collector.accepted).toHaveLength(1);
  expect(collector.accepted[0]?.event.system_metadata['not_captured']).toMatchObject({ runs: 1, events: 1 });
});

test('[R-863] without sampling, events have no members about it', async () => {
  const collector = await fakeCollector();
  const { log } = hurriedClient({ url: collector.url });
  log.startRun({ model: MODEL });
  await log.close();
  expect(Object.keys(collector.accepted[0]?.event.system_metadata ?? {})).toEqual(['hostname', 'proc_id']);
});

const SAMPLED_MODEL = { model_id: 'm', model_version: '1' };

/** A sampler with a clock and a chance that the test sets. */
function sampled(sampling: Sampling) {
  const world = { now: 0, chance: 0.5 };
  const troubles: string[] = [];
  const sampler = new Sampler(sampling, {
    onTrouble: (what) => troubles.push(what),
    random: () => world.chance,
    now: () => world.now,
  });
  let count = 0;
  const captured: string[] = [];
  /** Offers an event as `Capture` does. */
  const offer = (
    run: SampledRun | undefined,
    kind: EventKind,
    payload = {},
    bytes = 100,
    model = SAMPLED_MODEL,
  ) => {
    const eventId = `${kind}-${++count}`;
    const event = { kind, eventId, runId: 'r', model, payload } as JudgedEvent;
    const decision = sampler.judge(run, event);
    if (decision.decision === 'captured') captured.push(eventId);
    else if (decision.decision === 'left out') sampler.leaveOut(event);
    else if (run) sampler.hold(run, event, bytes, () => captured.push(eventId));
    return decision;
  };
  return { world, sampler, offer, captured, troubles };
}

test('[R-863] chance decides for a whole run, and for those nested in it', () => {
  const { sampler, offer, world } = sampled({ rate: 0.3 });
  world.chance = 0.29;
  const chosen = sampler.begin('a', SAMPLED_MODEL);
  expect(offer(chosen, 'inference-start')).toEqual({
    decision: 'captured',
    marks: { rate: 0.3, selected: true },
  });
  world.chance = 0.3;
  const other = sampler.begin('b', SAMPLED_MODEL);
  expect(sampler.begin('c', SAMPLED_MODEL, chosen)).toBe(chosen);
  expect(offer(other, 'inference-start').decision).toBe('left out');
  expect(offer(other, 'human-output').decision).toBe('left out');
  expect(sampler.omissions.take()).toMatchObject({
    ...{ runs: 1, events: 2 },
    models: [{ model_id: 'm', model_version: '1', runs: 1, events: 2 }],
  });
});

test('[R-863] a risk captures the whole run, also its earlier events, and is marked as the trigger', () => {
  const { sampler, offer, captured } = sampled({
    rate: 0,
    risk: ({ payload }) => 'dose' in payload && payload.dose === 'high',
  });
  const run = sampler.begin('a', SAMPLED_MODEL);
  expect(offer(run, 'inference-start')).toEqual({ decision: 'held', marks: { rate: 0, selected: false } });
  offer(run, 'internal-artifact');
  expect(captured).toEqual([]);
  expect(offer(run, 'human-output', { dose: 'high' })).toEqual({
    decision: 'captured',
    marks: { trigger: 'risk' },
  });
  expect(offer(run, 'outcome')).toEqual({ decision: 'captured', marks: undefined });
  expect([...captured].sort()).toEqual([
    ...['human-output-3', 'inference-start-1', 'internal-artifact-2', 'outcome-4'],
  ]);
  expect(sampler.omissions.some).toBe(false);
});

test('[R-863] in a selected run, a trigger is marked once, and only within the window', () => {
  const { sampler, offer, world } = sampled({ rate: 0.6, risk: () => false, window: { ms: 1000 } });
  const selected = sampler.begin('a', SAMPLED_MODEL);
  offer(selected, 'inference-start');
  expect(offer(sampler.runInWindow('a'), 'outcome').marks).toEqual({ trigger: 'outcome' });
  expect(offer(selected, 'outcome').marks, 'once').toBeUndefined();
  const late = sampler.begin('b', SAMPLED_MODEL);
  world.now = 1000;
  expect(offer(late, 'user-feedback')).toEqual({ decision: 'captured', marks: undefined });
});

test('[R-863] a predicate that throws counts as a risk, and the text of its error is not reported', () => {
  const { sampler, offer, troubles } = sampled({
    rate: 0,
    risk: () => {
      throw new Error('patient 4711');
    },
  });
  expect(offer(sampler.begin('a', SAMPLED_MODEL), 'inference-start').decision).toBe('captured');
  expect(troubles).toEqual(['the risk function threw an error; the run is captured']);
});

test('[R-863] outcomes and feedback are never left out, and capture a run that is still held', () => {
  const { sampler, offer, captured, world } = sampled({
    ...{ rate: 0, risk: () => false },
    window: { ms: 1000 },
  });
  offer(sampler.begin('a', SAMPLED_MODEL), 'inference-start');
  offer(sampler.begin('b', SAMPLED_MODEL), 'inference-start');
  offer(sampler.runInWindow('a'), 'user-feedback');
  expect(captured).toEqual(['inference-start-1', 'user-feedback-3']);
  world.now = 1000;
  expect(sampler.runInWindow('b')).toBeDefined();
  sampler.expire();
  expect(sampler.runInWindow('b')).toBeUndefined();
  offer(sampler.runInWindow('b'), 'outcome');
  expect(captured).toHaveLength(3);
  expect(sampler.omissions.take()).toMatchObject({ runs: 1, events: 1 });
});

test('[R-863] for some time after a version is first seen, another rate applies', () => {
  const { sampler, world } = sampled({ rate: 0.1, afterModelChange: { ms: 1000 } });
  const stateOf = (model_version: string) => sampler.begin('r', { model_id: 'm', model_version });
  expect(stateOf('1')).toMatchObject({
    ...{ state: 'captured', marks: { rate: 1, selected: true, after_model_change: true } },
  });
  world.now = 999;
  expect(stateOf('1').state).toBe('captured');
  world.now = 1000;
  expect(stateOf('1')).toMatchObject({ state: 'left out', marks: { rate: 0.1, selected: false } });
  expect(stateOf('2').state).toBe('captured');
  expect(stateOf('1').state, 'a version that comes back').toBe('left out');
});

test.each([
  ['runs', { runs: 2 }],
  ['bytes', { bytes: 1500 }],
])('[R-863] the window is bounded in %s, and the oldest run is dropped first', (_what, window) => {
  const { sampler, offer } = sampled({ rate: 0, risk: () => false, window });
  for (const id of ['a', 'b', 'c']) offer(sampler.begin(id, SAMPLED_MODEL), 'inference-start', {}, 100);
  expect(['a', 'b', 'c'].map((id) => sampler.runInWindow(id) !== undefined)).toEqual([false, true, true]);
  expect(sampler.omissions.take()).toMatchObject({ runs: 1, events: 1 });
});

test('[R-863] counts that could not be reported are reported later, with their first time', () => {
  const { sampler, offer } = sampled({ rate: 0 });
  offer(sampler.begin('a', SAMPLED_MODEL), 'inference-start');
  const { omissions } = sampler;
  const first = omissions.take();
  expect(omissions.some).toBe(false);
  offer(sampler.begin('b', SAMPLED_MODEL), 'inference-start');
  omissions.putBack(first);
  expect(omissions.take()).toMatchObject({
    ...{ since: first.since, runs: 2, events: 2 },
    models: [{ runs: 2, events: 2 }],
  });
});

test('[R-863] whatever happens, every event is captured or counted, once', () => {
  const step = fc.record({
    run: fc.nat({ max: 5 }),
    kind: fc.constantFrom<EventKind>('internal-artifact', 'human-output', 'outcome', 'user-feedback'),
    risky: fc.boolean(),
    chance: fc.double({ min: 0, max: 0.999, noNaN: true }),
    later: fc.nat({ max: 400 }),
    bytes: fc.nat({ max: 3000 }),
  });
  const window = { ms: 1000, runs: 3, bytes: 5000 };
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), fc.boolean(), (steps, hasRisk) => {
      const risk = ({ payload }: { payload: object }) => 'risky' in payload;
      const { sampler, offer, captured, world } = sampled({ rate: 0.2, window, ...(hasRisk && { risk }) });
      const runs = new Map<number, SampledRun>();
      let offered = 0;
      for (const { run, kind, risky, chance, later, bytes } of steps) {
        world.now += later;
        world.chance = chance;
        let known = runs.get(run);
        if (!known) {
          known = sampler.begin(`run ${run}`, SAMPLED_MODEL, runs.get(run - 1));
          runs.set(run, known);
          offer(known, 'inference-start', {}, bytes);
          offered++;
        }
        offer(known, kind, risky ? { risky } : {}, bytes);
        offered++;
      }
      sampler.end();
      expect(new Set(captured).size).toBe(captured.length);
      expect(captured.length + sampler.omissions.take().events).toBe(offered);
    }),
  );
});

test('[R-863] an estimate from the captured runs is close to the value of all runs', () => {
  const { sampler, offer, captured, world } = sampled({
    ...{ rate: 0.1, window: { ms: 500 } },
    risk: ({ payload }) => 'risky' in payload,
  });
  const weights = new Map<string, { rate: number; triggered: boolean; harmed: boolean }>();
  let seed = 1;
  const chance = () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  let harmed = 0;
  for (let i = 0; i < 20_000; i++) {
    world.now += 100;
    world.chance = chance();
    const run = sampler.begin(`run ${i}`, SAMPLED_MODEL);
    const id = `inference-start-${i * 2 + 1}`;
    const isHarmed = chance() < 0.3;
    harmed += Number(isHarmed);
    offer(run, 'inference-start');
    // The predicate sees most harm, sometimes too late.
    const seen = chance() < (isHarmed ? 0.6 : 0.05);
    world.now += chance() < 0.2 ? 600 : 0;
    const { marks } = offer(run, 'human-output', seen ? { risky: true } : {});
    weights.set(id, { rate: 0.1, triggered: marks?.['trigger'] !== undefined, harmed: isHarmed });
  }
  const there = captured.filter((id) => id.startsWith('inference-start'));
  let estimate = 0;
  for (const id of there) {
    const weight = weights.get(id);
    if (weight?.harmed) estimate += weight.triggered ? 1 : 1 / weight.rate;
  }
  expect(there.length).toBeLessThan(8000);
  expect(Math.abs(estimate / harmed - 1)).toBeLessThan(0.1);
});
