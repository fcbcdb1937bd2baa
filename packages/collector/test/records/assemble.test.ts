import { EVENT_KINDS } from '@clinical-events/protocol';
import { describe, expect, test } from 'vitest';
import { assembleRecord, type RunLinks, UNLINKED } from '../../src/records/assemble.js';
import { toJson } from '../../src/records/raw-json.js';
import { schemaFaults } from './record-schema.js';
import { event, eventFromText, fullRun, id, RUN } from './run-events.js';

const linked = (runs: Readonly<Record<string, string | null>>, more: Partial<RunLinks> = {}): RunLinks => ({
  ...UNLINKED,
  parentRunOf: (eventId) => runs[eventId],
  ...more,
});

describe('a record', () => {
  test('has nine fields, the four objects of the start as they were sent and a list for each other kind [R-206]', () => {
    const record = assembleRecord(fullRun());
    expect(Object.keys(record)).toEqual([
      ...['model', 'user', 'target', 'inputs', 'artifacts', 'outputs', 'outcomes', 'metadata'],
      'feedback',
    ]);
    expect(record).toMatchObject({
      model: { model_id: 'sepsis-risk', model_version: '4.2.0' },
      user: { caller_id: 'clinician-8841' },
      target: { target_id: 'patient-30977' },
      inputs: { prompt: 'Estimate the risk.' },
      artifacts: [
        { event_id: id(2), artifact: { artifact_type: 'tool_call', artifact_uri: 'urn:artifact:1' } },
      ],
      outputs: [{ event_id: id(3), output: { output_uri: 'urn:output:1', summary: 'High risk.' } }],
      outcomes: [{ event_id: id(4), outcome: { outcome_type: 'validated' } }],
      feedback: [{ event_id: id(5), feedback: { feedback_type: 'thumbs' } }],
    });
    expect(schemaFaults(record)).toEqual([]);
  });

  test('has for each entry of a list both times, its parent, and all unknown members [R-206]', () => {
    const more = { ward: { bed: 7 }, model_instance: 'of another kind' };
    const record = assembleRecord([event({ kind: 'outcome', n: 4, parent: id(3).toUpperCase(), more })]);
    expect(record.outcomes).toEqual([
      {
        event_id: id(4),
        timestamp: '2026-03-02T08:31:04.000Z',
        received_at: '2026-03-02T08:31:04.500Z',
        parent_event_id: id(3),
        outcome: { outcome_type: 'validated' },
        extra: more,
      },
    ]);
  });

  test('has its origin in its metadata [R-206]', () => {
    const events = fullRun();
    events.push(
      event({
        kind: 'outcome',
        n: 6,
        profile: 'full',
        door: 'otlp',
        keyId: 'zzzzzzzzzz23',
        at: '2026-09-01T12:00:00.5+02:00',
        received: '2026-09-01T10:00:01.007Z',
        more: { protocol_version: '0.0.2', own: 1, system_metadata: { latency_ms: 12, pod: 'x' } },
      }),
    );
    const { metadata } = assembleRecord(events);
    expect(metadata).toMatchObject({
      record_id: RUN,
      run_id: RUN,
      organisation: 'default',
      parent: null,
      children: [],
      protocol_versions: ['0.0.1', '0.0.2'],
      first_timestamp: '2026-03-02T08:31:01.000Z',
      last_timestamp: '2026-09-01T12:00:00.5+02:00',
      first_received_at: '2026-03-02T08:31:01.500Z',
      last_received_at: '2026-09-01T10:00:01.007Z',
      latency_ms: 2000,
      conflicts: [],
    });
    expect(metadata.events.map(({ event_id }) => event_id)).toEqual([1, 2, 3, 4, 5, 6].map(id));
    expect(metadata.events.at(-1)).toEqual({
      event_id: id(6),
      kind: 'outcome',
      sequence: 6,
      timestamp: '2026-09-01T12:00:00.5+02:00',
      received_at: '2026-09-01T10:00:01.007Z',
      parent_event_id: null,
      joined_by: 'run_id',
      protocol_version: '0.0.2',
      system_metadata: { latency_ms: 12, pod: 'x' },
      key_id: 'zzzzzzzzzz23',
      profile: 'full',
      door: 'otlp',
      extra: { own: 1 },
    });
  });

  test('keeps every digit of a number, in any place [R-206]', () => {
    const numbers = '[1.10,1e400,-0,12345678901234567890,0.1000000000000000055511151231257827]';
    const text = (kind: string) =>
      `{"event_id":"${id(1)}","run_id":"${RUN}","timestamp":"2026-03-02T08:31:01Z","protocol_version":"0.0.1",` +
      `"system_metadata":{"latency_ms":1e2,"s":${numbers}},${kind},"e":{"__proto__":${numbers}}}`;
    const stored = { eventId: id(1), runId: RUN, receivedAt: 0 };
    const outcome = eventFromText(text(`"outcome":{"o":${numbers}}`), { ...stored, kind: 'outcome' });
    const start = eventFromText(text(`"inputs":{"i":${numbers}}`), { ...stored, kind: 'inference-start' });
    const record = assembleRecord([outcome, { ...start, event: { ...start.event, eventId: id(2) } }]);
    const written = toJson(record);
    expect(written.split(numbers)).toHaveLength(9);
    expect(written).toContain(`"outcome":{"o":${numbers}}`);
    expect(written).toContain(`"inputs":{"i":${numbers}}`);
    expect(written).toContain(`"system_metadata":{"latency_ms":1e2,"s":${numbers}}`);
    expect(written).toContain(`"extra":{"e":{"__proto__":${numbers}}}`);
    expect(schemaFaults(record)).toEqual([]);
  });

  test('comes from one run of one organisation [R-203] [R-206]', () => {
    expect(() => assembleRecord([])).toThrow(RangeError);
    const [first] = fullRun();
    const of = (more: object) => () =>
      assembleRecord([first as never, event({ kind: 'outcome', n: 9, ...more })]);
    expect(of({ run: id(77) })).toThrow('events of two runs');
    expect(of({ organisation: 'north' })).toThrow('events of two organisations');
    expect(of({ run: null, parent: id(1) })).not.toThrow();
  });
});

describe('events out of order', () => {
  test('are in the order of their senders’ clocks, whenever they were stored [R-206]', () => {
    const [start, artifact, output, outcome, feedback] = fullRun();
    const late = [feedback, output, start, outcome, artifact].map((each, i) => ({
      ...(each as never as typeof start & object),
      event: { ...(each as never as typeof start & object).event, sequence: 100 + i },
    }));
    const { metadata } = assembleRecord(late);
    expect(metadata.events.map(({ event_id }) => event_id)).toEqual([1, 2, 3, 4, 5].map(id));
    expect(metadata.events.map(({ sequence }) => sequence)).toEqual([102, 104, 101, 103, 100]);
    expect(metadata.conflicts).toEqual([]);
  });

  test('of the same instant are in the order of their kinds, then of their ids, whenever they came [R-206]', () => {
    const at = '2026-03-02T09:31:00+01:00';
    const received = '2026-03-02T08:31:00Z';
    const { metadata } = assembleRecord([
      event({ kind: 'outcome', n: 9, at, received }),
      event({ kind: 'outcome', n: 8, at: '2026-03-02T08:31:00.000Z', received }),
      event({ kind: 'outcome', n: 7, at, received: '2026-03-02T08:31:00.001Z' }),
      event({ kind: 'human-output', n: 6, at, received: '2026-03-02T08:31:00.001Z' }),
      event({ kind: 'inference-start', n: 5, at, received: '2026-03-02T08:31:09Z' }),
      event({ kind: 'outcome', n: 4, at: '2026-03-02T08:31:00.0000001Z', received: '2026-03-02T08:30:00Z' }),
    ]);
    expect(metadata.events.map(({ event_id }) => event_id)).toEqual([5, 6, 7, 8, 9, 4].map(id));
  });

  test('that come months late, or before the start, belong to the run like any other [R-203] [R-206]', () => {
    const early = event({
      kind: 'user-feedback',
      n: 5,
      received: '2026-01-01T00:00:00Z',
      at: '2026-03-02T08:31:05Z',
    });
    const late = event({
      kind: 'outcome',
      n: 4,
      at: '2026-11-02T08:31:00Z',
      received: '2027-02-01T00:00:00Z',
    });
    const start = event({ kind: 'inference-start', n: 1 });
    const { metadata, outcomes, feedback } = assembleRecord([early, start, late]);
    expect(outcomes).toHaveLength(1);
    expect(feedback).toHaveLength(1);
    expect(metadata.completeness.missing).toEqual(['output']);
    expect(metadata.first_received_at).toBe('2026-01-01T00:00:00.000Z');
    expect(metadata.last_received_at).toBe('2027-02-01T00:00:00.000Z');
  });
});

describe('a run without a start', () => {
  test('has a record whose four objects are null; that is missing, and no conflict [R-206]', () => {
    const record = assembleRecord([event({ kind: 'outcome', n: 4 })]);
    expect(record).toMatchObject({ model: null, user: null, target: null, inputs: null });
    expect(record.metadata).toMatchObject({ run_id: RUN, latency_ms: null, conflicts: [] });
    expect(record.metadata.completeness.missing).toContain('inference-start');
    expect(schemaFaults(record)).toEqual([]);
  });
});

describe('a run with two starts', () => {
  const first = event({ kind: 'inference-start', n: 1, more: { note: 'first' } });
  const second = event({
    kind: 'inference-start',
    n: 2,
    more: { model_instance: { model_id: 'other', threshold: 1 }, note: 'second', inputs: undefined },
  });

  test('follows the earlier one by its sender’s clock, and keeps the other in full [R-206]', () => {
    const record = assembleRecord([second, first]);
    expect(record.model).toEqual({ model_id: 'sepsis-risk', model_version: '4.2.0' });
    expect(record.metadata.events).toMatchObject([
      { event_id: id(1), extra: { note: 'first' } },
      { event_id: id(2), extra: { note: 'second' } },
    ]);
    expect(record.metadata.calls).toMatchObject([
      { event_id: id(1), model: { model_id: 'sepsis-risk' }, inputs: { prompt: 'Estimate the risk.' } },
      {
        event_id: id(2),
        model: { model_id: 'other', threshold: 1 },
        user: { caller_id: 'clinician-8841' },
        target: { target_id: 'patient-30977' },
        inputs: null,
      },
    ]);
    expect(schemaFaults(record)).toEqual([]);
  });

  test('is not nested by the second one [R-206]', () => {
    const nested = event({ kind: 'inference-start', n: 2, parent: id(50) });
    const record = assembleRecord([first, nested], linked({ [id(50)]: id(49) }));
    expect(record.metadata.parent).toBe(null);
    expect(record.metadata.conflicts).toEqual([{ kind: 'parent_in_other_run', event_ids: [id(2)] }]);
  });
});

describe('events without a run', () => {
  test('that belong to their parent’s run say how they joined it [R-204]', () => {
    const record = assembleRecord([
      event({ kind: 'inference-start', n: 1 }),
      event({ kind: 'human-output', n: 2, run: null, parent: id(1) }),
      event({ kind: 'user-feedback', n: 3, run: null, parent: id(2) }),
    ]);
    expect(record.metadata.run_id).toBe(RUN);
    expect(record.metadata.events.map(({ joined_by }) => joined_by)).toEqual([
      'run_id',
      'parent_event_id',
      'parent_event_id',
    ]);
    expect(record.metadata.completeness.orphans).toEqual([]);
  });

  test('that have no run form a record without one, with the id of their topmost event [R-204] [R-206]', () => {
    const record = assembleRecord([
      event({ kind: 'user-feedback', n: 2, run: null, parent: id(7) }),
      event({ kind: 'outcome', n: 7, run: null, parent: id(99) }),
    ]);
    expect(record.metadata).toMatchObject({
      record_id: id(7),
      run_id: null,
      parent: null,
      completeness: { level: 'incomplete', orphans: [id(7)] },
    });
    expect(record.metadata.events.map(({ joined_by }) => joined_by)).toEqual(['parent_event_id', null]);
    expect(schemaFaults(record)).toEqual([]);
  });

  test('that are parents of each other in a circle have the smallest of its ids [R-206]', () => {
    const record = assembleRecord([
      event({ kind: 'outcome', n: 2, run: null, parent: id(8) }),
      event({ kind: 'outcome', n: 9, run: null, parent: id(8) }),
      event({ kind: 'outcome', n: 8, run: null, parent: id(7) }),
      event({ kind: 'outcome', n: 7, run: null, parent: id(9) }),
    ]);
    expect(record.metadata.record_id).toBe(id(7));
  });
});

describe('nested runs', () => {
  test('name the run and the event that started them, and the runs that they started [R-206]', () => {
    const start = event({ kind: 'inference-start', n: 1, parent: id(50) });
    const record = assembleRecord([start], linked({ [id(50)]: id(49) }, { children: [id(12), id(11)] }));
    expect(record.metadata.parent).toEqual({ run_id: id(49), event_id: id(50) });
    expect(record.metadata.children).toEqual([id(11), id(12)]);
    expect(record.metadata.completeness.missing).not.toContain('parent');
    expect(record.metadata.conflicts).toEqual([]);
    expect(schemaFaults(record)).toEqual([]);
  });

  test('whose start has a parent in the same run have no parent run [R-206]', () => {
    const start = event({ kind: 'inference-start', n: 1, parent: id(2) });
    const record = assembleRecord([start, event({ kind: 'outcome', n: 2 })]);
    expect(record.metadata.parent).toBe(null);
  });

  test('name the event even when it is not in the log, or has no run [R-206]', () => {
    const start = event({ kind: 'inference-start', n: 1, parent: id(50) });
    const unknown = assembleRecord([start]).metadata;
    expect(unknown.parent).toEqual({ run_id: null, event_id: id(50) });
    expect(unknown.completeness).toMatchObject({ level: 'incomplete', orphans: [id(1)] });
    const runless = assembleRecord([start], linked({ [id(50)]: null })).metadata;
    expect(runless.parent).toEqual({ run_id: null, event_id: id(50) });
    expect(runless.completeness.orphans).toEqual([]);
  });
});

test('a run_id that names no run, the nil UUID, is not lost [R-206]', () => {
  const nil = '00000000-0000-0000-0000-000000000000';
  const alone = event({ kind: 'outcome', n: 6, run: null });
  const { body } = alone;
  if (body === undefined) throw new Error('an event of the tests without a body');
  const { metadata } = assembleRecord([{ ...alone, body: { ...body, run_id: nil } }]);
  expect(metadata).toMatchObject({ run_id: null, events: [{ extra: { run_id: nil } }] });
});

describe('a payload that cannot be read', () => {
  test.each(['encrypted', 'erased'] as const)(
    '%s: the event is listed, and its payload is not [R-206]',
    (payload) => {
      const [start, artifact, , outcome] = fullRun();
      const unreadable = event({ kind: 'human-output', n: 3, payloadState: payload, profile: 'full' });
      const record = assembleRecord([start, artifact, unreadable, outcome] as never);
      expect(record.outputs).toEqual([]);
      expect(record.metadata.events[2]).toEqual({
        event_id: id(3),
        kind: 'human-output',
        sequence: 3,
        timestamp: null,
        received_at: '2026-03-02T08:31:03.500Z',
        parent_event_id: null,
        joined_by: 'run_id',
        protocol_version: null,
        system_metadata: null,
        key_id: 'abcdefghij23',
        profile: 'full',
        door: 'endpoint',
        extra: {},
        payload,
      });
      expect(record.metadata.latency_ms).toBe(null);
      expect(schemaFaults(record)).toEqual([]);
    },
  );

  test('a record of such payloads only has no timestamp [R-206]', () => {
    const events = EVENT_KINDS.map((kind, i) => event({ kind, n: i + 1, payloadState: 'erased' }));
    const record = assembleRecord(events);
    expect(record).toMatchObject({ model: null, artifacts: [], outputs: [], outcomes: [], feedback: [] });
    expect(record.metadata).toMatchObject({
      first_timestamp: null,
      last_timestamp: null,
      protocol_versions: [],
      conflicts: [],
    });
    expect(schemaFaults(record)).toEqual([]);
  });
});

describe('the latency', () => {
  const start = event({ kind: 'inference-start', n: 1, at: '2026-03-02T08:31:01.1Z' });
  const output = (n: number, at: string) => event({ kind: 'human-output', n, at });

  test('is from the start to the first output by their senders’ clocks [R-206]', () => {
    const events = [output(3, '2026-03-02T09:31:02.6195+01:00'), start, output(2, '2026-03-02T08:40:00Z')];
    expect(assembleRecord(events).metadata.latency_ms).toBe(1519.5);
  });

  test('is in whole seconds where one of the clocks shows no more [R-206]', () => {
    expect(assembleRecord([start, output(3, '2026-03-02T08:31:01Z')]).metadata.latency_ms).toBe(0);
    expect(assembleRecord([start, output(3, '2026-03-02T08:31:03Z')]).metadata.latency_ms).toBe(2000);
    const coarse = event({ kind: 'inference-start', n: 1, at: '2026-03-02T08:31:01Z' });
    expect(assembleRecord([coarse, output(3, '2026-03-02T08:31:01.9Z')]).metadata.latency_ms).toBe(0);
  });

  test('is unknown without either, and when the output is earlier [R-206]', () => {
    expect(assembleRecord([start]).metadata.latency_ms).toBe(null);
    expect(assembleRecord([output(3, '2026-03-02T08:31:02Z')]).metadata.latency_ms).toBe(null);
    expect(assembleRecord([start, output(3, '2026-03-02T08:31:01.0Z')]).metadata.latency_ms).toBe(null);
  });
});
