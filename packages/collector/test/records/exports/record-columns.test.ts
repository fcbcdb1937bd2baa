import { expect, test } from 'vitest';
import { assembleRun } from '../../../src/records/assemble.js';
import {
  millisecondsOf,
  RECORD_COLUMNS,
  stringOf,
  timeIn,
} from '../../../src/records/exports/record-columns.js';
import type { RunEvent } from '../../../src/records/run-event.js';
import { event } from '../run-events.js';

test.each([
  ['2026-03-02T08:31:44Z', Date.UTC(2026, 2, 2, 8, 31, 44)],
  ['2026-03-02t08:31:44.9876543z', Date.UTC(2026, 2, 2, 8, 31, 44, 987)],
  ['2024-02-29T23:59:59-23:59', Date.UTC(2024, 2, 1, 23, 58, 59)],
  ['1969-12-31T23:59:59.9995Z', -1],
])('%s is a time of a column [R-712]', (text, milliseconds) => {
  expect(timeIn(text)).toBe(text);
  expect(millisecondsOf(text)).toBe(milliseconds);
});

test.each([
  '2026-02-30T00:00:00Z',
  '2026-02-29T00:00:00Z',
  '2026-00-10T00:00:00Z',
  '2026-13-10T00:00:00Z',
  '2026-03-00T00:00:00Z',
  '2026-03-02T24:00:00Z',
  '2026-03-02T08:31:60Z',
  '2026-03-02T08:31:44',
  '2026-03-02T08:31:44+24:00',
  '2026-03-02 08:31:44Z',
  '2026-03-02',
  '',
  7,
  null,
])('%s is not a time [R-712]', (value) => {
  expect(timeIn(value)).toBeUndefined();
});

test('many days, one after the other, are distinguished [R-712]', () => {
  const days = Array.from({ length: 4000 }, (_, i) => new Date(Date.UTC(1999, 0, 1 + 7 * i)).toISOString());
  for (const day of [...days, ...days.toReversed()]) expect(millisecondsOf(day)).toBe(Date.parse(day));
});

/** The columns that say where a run was made and how it was sampled. */
function systemColumns(events: readonly RunEvent[]): Readonly<Record<string, unknown>> {
  const run = assembleRun(events);
  const names = /^(app_name|hostname|environment|sampling_.*|not_captured_.*)$/;
  const columns = RECORD_COLUMNS.filter(({ name }) => names.test(name));
  expect(columns.length).toBe(9);
  return Object.fromEntries(
    columns.map((column) => [
      column.name,
      column.type === 'text' ? stringOf(column.of(run)) : column.of(run),
    ]),
  );
}

const system = (system_metadata: object) => ({ more: { system_metadata } });

test('the system of a run is that of its start, or else of the first event that has one [R-712]', () => {
  const output = event({
    ...{ kind: 'human-output', n: 2 },
    ...system({ hostname: 'h2', environment: 'live', app_name: 'second' }),
  });
  const feedback = event({ kind: 'user-feedback', n: 3, ...system({ environment: 'late' }) });
  const start = event({ kind: 'inference-start', n: 4, ...system({ app_name: 'first', hostname: 7 }) });
  expect(systemColumns([output, feedback, start])).toMatchObject({
    ...{ app_name: 'first', hostname: 'h2', environment: 'live' },
  });
  expect(systemColumns([feedback])).toMatchObject({
    ...{ app_name: undefined, hostname: undefined, environment: 'late' },
  });
  expect(systemColumns([event({ kind: 'outcome', n: 1, payloadState: 'encrypted' })])).toMatchObject({
    environment: undefined,
  });
});

test('the sampling columns are those of the start, the first trigger, and the totals left out [R-712]', () => {
  const marks = (sampling: unknown, more: object = {}) => system({ sampling, ...more });
  const events = [
    event({
      ...{ kind: 'inference-start', n: 1 },
      ...marks(
        { rate: 0.25, selected: false, after_model_change: true },
        { not_captured: { runs: 2, events: 5 } },
      ),
    }),
    event({
      kind: 'human-output',
      n: 2,
      ...marks({ trigger: 'risk' }, { not_captured: { runs: 0, events: 3 } }),
    }),
    event({ kind: 'outcome', n: 3, ...marks({ trigger: 'outcome' }) }),
  ];
  expect(systemColumns(events)).toMatchObject({
    ...{ sampling_rate: 0.25, sampling_selected: false, sampling_after_model_change: true },
    ...{ sampling_trigger: 'risk', not_captured_runs: 2, not_captured_events: 8 },
  });
  const none = {
    ...{ sampling_rate: undefined, sampling_selected: undefined, sampling_after_model_change: undefined },
    ...{ sampling_trigger: undefined, not_captured_runs: undefined, not_captured_events: undefined },
  };
  expect(systemColumns([event({ kind: 'inference-start', n: 1 })])).toMatchObject(none);
  const odd = marks({ rate: [], selected: 'yes', trigger: {} }, { not_captured: 7 });
  expect(systemColumns([event({ kind: 'inference-start', n: 1, ...odd })])).toMatchObject(none);
  expect(systemColumns([event({ kind: 'inference-start', n: 1, ...marks('often') })])).toMatchObject(none);
});
