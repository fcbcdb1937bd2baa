import type { EventKind } from '@clinical-events/protocol';
import { describe, expect, test } from 'vitest';
import { assembleRecord } from '../../src/records/assemble.js';
import type { RunEvent } from '../../src/records/run-event.js';
import { event, fullRun, id } from './run-events.js';

const completeness = (events: readonly RunEvent[]) => assembleRecord(events).metadata.completeness;
const without = (kind: EventKind) => fullRun().filter((each) => each.event.kind !== kind);
const withStart = (more: Readonly<Record<string, unknown>>) => [
  event({ kind: 'inference-start', n: 1, more }),
  ...without('inference-start'),
];

describe('the completeness of a record', () => {
  test('is full with a start with all four objects, an output with its place, an outcome and feedback [R-206]', () => {
    expect(completeness(fullRun())).toEqual({
      ...{ level: 'full', missing: [], orphans: [], numbers_in_text: [], replaced_text: [] },
    });
    expect(completeness(without('internal-artifact').slice(0, 1)).level).toBe('minimum');
  });

  test.each([
    ['human-output', ['output', 'parent']],
    ['outcome', ['outcome']],
    ['user-feedback', ['feedback']],
  ] as const)('names what is missing without %s [R-206]', (kind, missing) => {
    expect(completeness(without(kind)).missing).toEqual(missing);
  });

  test.each([
    ['model', 'model_instance'],
    ['user', 'user_identity'],
    ['target', 'target_identity'],
    ['inputs', 'inputs'],
  ])('is the minimum when the start has no %s [R-206]', (name, field) => {
    expect(completeness(withStart({ [field]: undefined }))).toMatchObject({
      level: 'minimum',
      missing: [name],
    });
    expect(completeness(withStart({ [field]: {} })).level).toBe('full');
  });

  test('is the minimum when no output has a place, and full when one does [R-206]', () => {
    const outputs = (...uris: (string | undefined)[]) => [
      ...fullRun().filter(({ event: { kind } }) => kind !== 'human-output' && kind !== 'user-feedback'),
      event({ kind: 'user-feedback', n: 9 }),
      ...uris.map((output_uri, i) =>
        event({ kind: 'human-output', n: 3 + 10 * i, more: { output: { output_uri } } }),
      ),
    ];
    expect(completeness(outputs(undefined, undefined))).toMatchObject({
      level: 'minimum',
      missing: ['output_uri'],
    });
    expect(completeness(outputs(undefined, 'urn:x:1')).level).toBe('full');
  });

  test('is incomplete without a start, and then all members of a start are missing too [R-206]', () => {
    expect(completeness([event({ kind: 'outcome', n: 4 })])).toMatchObject({
      level: 'incomplete',
      missing: ['inference-start', 'model', 'user', 'target', 'inputs', 'output', 'feedback'],
      orphans: [],
    });
  });

  test('is incomplete when the parent of an event is not in the log, and names the event [R-206]', () => {
    const lost = event({ kind: 'outcome', n: 6, parent: id(99) });
    expect(completeness([...fullRun(), lost])).toMatchObject({
      level: 'incomplete',
      missing: ['parent'],
      orphans: [id(6)],
    });
  });

  test('of a payload that cannot be read uses its kind, and reports nothing else as missing [R-206]', () => {
    const erased = fullRun().map(({ event: { kind } }, i) =>
      event({ kind, n: i + 1, payloadState: 'erased' }),
    );
    expect(completeness(erased)).toMatchObject({ missing: ['payload'], orphans: [] });
  });

  test('is erased when only payloads that actions destroyed are missing [R-1334]', () => {
    const [started, ...others] = fullRun();
    const erased = event({ kind: 'inference-start', n: 1, payloadState: 'erased' });
    expect(started?.event.kind).toBe('inference-start');
    const levelOf = (...more: Parameters<typeof completeness>[0]) =>
      completeness([erased, ...others, ...more]).level;
    expect(levelOf()).toBe('erased');
    // A run of today has no outcome yet, whatever was erased of it.
    expect(completeness([erased]).level).toBe('erased');
    expect(levelOf(event({ kind: 'outcome', n: 20, payloadState: 'encrypted' }))).toBe('incomplete');
    expect(levelOf(event({ kind: 'outcome', n: 20, parent: id(99) }))).toBe('incomplete');
    expect(completeness([event({ kind: 'outcome', n: 1, payloadState: 'erased' })]).level).toBe('incomplete');
  });

  test('names events that have a number as a text, and nothing is missing for it [R-206]', () => {
    const rated = (n: number, rating_value: unknown) =>
      event({ kind: 'user-feedback', n, more: { feedback: { rating_value } } });
    const odd = ['05', '4,5', '5/5', ' 5', '1e999', '', 5, null].map((value, i) => rated(20 + i, value));
    expect(completeness([...fullRun(), rated(7, '5'), rated(6, '-1.50e0'), ...odd])).toEqual({
      ...{ level: 'full', missing: [], orphans: [] },
      numbers_in_text: [id(6), id(7)],
      replaced_text: [],
    });
    const usage = { input_tokens: '11' };
    const system_metadata = { instrumentation: { by: 'a client of another language' } };
    const output = { output_uri: 'urn:x:1', ending: 'complete', usage };
    const ended = event({ kind: 'human-output', n: 9, more: { output, system_metadata } });
    expect(completeness([...fullRun(), ended]).numbers_in_text).toEqual([id(9)]);
  });
});
