import { describe, expect, test } from 'vitest';
import { assembleRecord, UNLINKED, type RunLinks } from '../../src/records/assemble.js';
import type { RunEvent } from '../../src/records/run-event.js';
import { event, fullRun, id } from './run-events.js';

const conflicts = (events: readonly RunEvent[], links: RunLinks = UNLINKED) =>
  assembleRecord(events, links).metadata.conflicts;

describe('the conflicts of a record', () => {
  test('are empty when its events agree [R-206]', () => {
    expect(conflicts(fullRun())).toEqual([]);
  });

  test('name every start with another target [R-206] [R-1832]', () => {
    const more = { target_identity: { target_id: 'patient-2' } };
    const starts = [3, 2, 6].map((n) => event({ kind: 'inference-start', n, more }));
    expect(conflicts([...starts, ...fullRun()])).toContainEqual({
      kind: 'second_start',
      event_ids: [id(2), id(3), id(6)],
    });
  });

  test('name events that are parents of each other in a circle, and not their other children [R-206]', () => {
    const at = '2026-03-02T08:31:30Z';
    const events = [
      event({ kind: 'inference-start', n: 1 }),
      event({ kind: 'outcome', n: 6, at, parent: id(7) }),
      event({ kind: 'outcome', n: 7, at, parent: id(8) }),
      event({ kind: 'outcome', n: 8, at, parent: id(6) }),
      event({ kind: 'outcome', n: 9, at, parent: id(8) }),
      event({ kind: 'outcome', n: 10, at, parent: id(10) }),
    ];
    const found = conflicts(events);
    expect(found).toContainEqual({ kind: 'parent_cycle', event_ids: [id(6), id(7), id(8), id(10)] });
    expect(found).toHaveLength(1);
  });

  test('name an event that is its own parent [R-206]', () => {
    const itself = event({ kind: 'outcome', n: 6, parent: id(6) });
    expect(conflicts([...fullRun(), itself])).toEqual([{ kind: 'parent_cycle', event_ids: [id(6)] }]);
  });

  test('name runs that are nested in themselves [R-206]', () => {
    const start = event({ kind: 'inference-start', n: 1, parent: id(50) });
    const links = { parentRunOf: () => id(49), children: [id(49)], cycle: [id(1), id(49)] };
    const record = assembleRecord([start], links);
    expect(record.metadata.conflicts).toEqual([
      { kind: 'run_cycle', event_ids: [id(1)], run_ids: [id(1), id(49)] },
    ]);
    // No data of a sender is left out because of it.
    expect(record.metadata.parent).toEqual({ run_id: id(49), event_id: id(50) });
    expect(record.metadata.children).toEqual([id(49)]);
  });

  test('name an event of this run whose parent is in another run [R-206]', () => {
    const outcome = event({ kind: 'outcome', n: 6, parent: id(50) });
    const links = { ...UNLINKED, parentRunOf: () => id(49) };
    expect(conflicts([...fullRun(), outcome], links)).toEqual([
      { kind: 'parent_in_other_run', event_ids: [id(6)] },
    ]);
  });
});

describe('clock disorder', () => {
  test('is an event before the start by their senders’ clocks [R-206]', () => {
    const early = event({ kind: 'outcome', n: 6, at: '2026-03-02T08:31:00.999Z' });
    expect(conflicts([...fullRun(), early])).toEqual([
      { kind: 'clock_disorder', rule: 'before_start', event_ids: [id(6)] },
    ]);
    const same = event({
      kind: 'outcome',
      n: 6,
      at: '2026-03-02T09:31:01+01:00',
      received: '2020-01-01T00:00:00Z',
    });
    expect(conflicts([...fullRun(), same])).toEqual([
      { kind: 'clock_disorder', rule: 'ahead_of_receipt', event_ids: [id(6)] },
    ]);
  });

  test('is an event before its parent by their senders’ clocks [R-206]', () => {
    const early = event({ kind: 'user-feedback', n: 6, parent: id(4), at: '2026-03-02T08:31:03.9Z' });
    const same = event({ kind: 'user-feedback', n: 7, parent: id(4), at: '2026-03-02T08:31:04Z' });
    expect(conflicts([...fullRun(), early, same])).toEqual([
      { kind: 'clock_disorder', rule: 'before_parent', event_ids: [id(6)] },
    ]);
  });

  test('is judged only to the digits that the event’s own clock shows [R-206]', () => {
    const parent = event({ kind: 'inference-start', n: 1, at: '2026-03-02T08:31:03.250Z' });
    const child = (n: number, at: string) => event({ kind: 'outcome', n, parent: id(1), at });
    const whole = child(2, '2026-03-02T08:31:03Z');
    const tenths = child(3, '2026-03-02T08:31:03.2Z');
    expect(conflicts([parent, whole, tenths])).toEqual([]);
    const early = [child(4, '2026-03-02T08:31:02Z'), child(5, '2026-03-02T08:31:03.20Z')];
    expect(conflicts([parent, ...early])[1]?.event_ids).toEqual([id(4), id(5)]);
  });

  test('is a timestamp more than five minutes later than its receipt [R-206]', () => {
    const [at, received] = ['2026-03-02T08:40:00.000Z', '2026-03-02T08:35:00.000Z'];
    expect(conflicts([event({ kind: 'outcome', n: 6, at, received })])).toEqual([]);
    const ahead = event({ kind: 'outcome', n: 6, at: '2026-03-02T08:40:00.001Z', received });
    expect(conflicts([ahead])).toEqual([
      { kind: 'clock_disorder', rule: 'ahead_of_receipt', event_ids: [id(6)] },
    ]);
  });

  test('is not reported for a payload that cannot be read, nor relative to one [R-206]', () => {
    const start = event({ kind: 'inference-start', n: 1, payloadState: 'encrypted' });
    const before = event({ kind: 'outcome', n: 2, at: '2020-01-01T00:00:00Z', parent: id(1) });
    const erased = event({
      kind: 'outcome',
      n: 3,
      payloadState: 'erased',
      received: '2019-01-01T00:00:00Z',
    });
    expect(conflicts([start, before, erased])).toEqual([]);
  });
});
