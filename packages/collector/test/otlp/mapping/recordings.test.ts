import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { validateEvent } from '@clinical-events/protocol/validate';
import { Random, SEED } from '../../../../../test/property-runs.js';
import { REASONS } from '../../../src/otlp/mapping/mapped.js';
import { drawn, type Event, made, OPTIONS } from './drawn.js';
import { everything, receivedOf, type Recorded, recorded, recordings } from './recorded.js';

test.each(recordings)('[R-1901] %s becomes what a person drew from it', (name) => {
  expect(drawn(recorded(name))).toEqual(receivedOf(name));
});

function eventsOf(recorded: Recorded): Map<string, Event> {
  return new Map(made(recorded).flatMap(({ events }) => events.map((event) => [event.event_id, event])));
}

function shuffled<Item>(items: readonly Item[], random: Random): Item[] {
  return items
    .map((item) => ({ item, at: random.below(1 << 30) }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

test('[R-1900] whole, in any order, a span at a time and twice: the same events with the same ids', () => {
  const whole = eventsOf(everything);
  expect(whole.size).toBeGreaterThan(500);
  const random = new Random(SEED);
  const spans = shuffled([...everything.spans, ...everything.spans], random);
  const logs = shuffled([...everything.logs, ...everything.logs], random);
  expect(eventsOf({ spans, logs })).toEqual(whole);
  const parts = [
    ...spans.map((span) => eventsOf({ spans: [span], logs: [] })),
    ...logs.map((log) => eventsOf({ spans: [], logs: [log] })),
  ];
  expect(new Map(parts.flatMap((part) => [...part]))).toEqual(whole);
  for (const events of Map.groupBy(everything.spans, ({ traceId }) => traceId).values()) {
    const runs = made({ spans: events, logs: [] }).flatMap((each) => each.events.map(({ run_id }) => run_id));
    expect(new Set(runs).size).toBeLessThanOrEqual(1);
  }
});

test('[R-1900] every parent of an event is an event', () => {
  const all = eventsOf(everything);
  const hanging = [...all.values()].filter(({ parent_event_id: parent }) => parent !== undefined);
  expect(hanging.length).toBeGreaterThan(200);
  for (const { parent_event_id: parent, run_id } of hanging)
    expect(all.get(parent ?? '')).toMatchObject({ kind: 'inference-start', run_id });
});

test('[R-1890] every event of a recording is valid, under profile full where the span names user and target', () => {
  const complete: string[] = [];
  for (const { kind, ...event } of eventsOf(everything).values()) {
    expect(validateEvent(kind as 'outcome', 'minimum', event)).toBeUndefined();
    const issues = validateEvent(kind as 'outcome', 'full', event) ?? [];
    const missing = issues
      .map(({ pointer }) => pointer)
      .filter((pointer) => !/^\/(user|target)_identity$/.test(pointer));
    expect(missing).toEqual([]);
    if (kind === 'inference-start' && issues.length === 0) complete.push(event.event_id);
  }
  expect(complete).toHaveLength(1);
});

test('[R-1901] no message of an error and no stack trace is in an event', () => {
  const messages = everything.spans.flatMap(({ events }) =>
    events.flatMap(({ attributes }) => [attributes['exception.message'], attributes['exception.stacktrace']]),
  );
  // Some are in what the model received about a tool that failed.
  const sent = JSON.stringify(everything.spans.map(({ attributes }) => attributes));
  const said = messages.filter(
    (message) => typeof message === 'string' && message.length > 8 && !sent.includes(message),
  );
  expect(said.length).toBeGreaterThan(20);
  const written = JSON.stringify([...eventsOf(everything).values()]);
  for (const message of said) expect(written).not.toContain(JSON.stringify(message).slice(1, -1));
});

test('[R-1901] each reason is in the reference, and the recordings have most of them', () => {
  const page = readFileSync('docs/reference/otlp.md', 'utf8');
  const reasons = new Set(made(everything).flatMap(({ reason }) => reason ?? []));
  expect(reasons.size).toBeGreaterThan(6);
  for (const reason of REASONS) expect(page).toContain(`\`${reason}\``);
  expect(
    made(everything, { ...OPTIONS, shown: 'marked' }).filter(({ reason }) => reason !== undefined),
  ).toHaveLength(made(everything).filter(({ reason }) => reason !== undefined).length);
});
