import type { ClinicalRecord, RunCall } from '@clinical-events/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { assembleRecord, UNLINKED } from '../../src/records/assemble.js';
import { anyRun, type Sent } from './any-run.js';
import { schemaFaults } from './record-schema.js';
import { event, id } from './run-events.js';
import { runs } from '../../../../test/property-runs.js';

const ended = (input: number, output: number, more: Readonly<Record<string, unknown>> = {}) => ({
  system_metadata: { instrumentation: { by: 'openai' } },
  output: {
    ending: 'complete',
    output_uri: 'urn:output',
    usage: { input_tokens: input, output_tokens: output },
    ...more,
  },
});

/** A workflow that calls its model seven times: each start expands on the output before it. */
function workflow() {
  return Array.from({ length: 7 }, (_, i) => {
    const n = 10 * (i + 1);
    const sent = (second: number) => {
      const at = `2026-03-02T08:3${i}:${String(second).padStart(2, '0')}.000Z`;
      return { at, received: at };
    };
    return [
      event({
        ...{ kind: 'inference-start', n, ...sent(0), parent: i === 0 ? null : id(n - 8) },
        more: { model_instance: { model_id: `step-${i % 2}` }, inputs: { prompt: `step ${i}` } },
      }),
      event({ kind: 'internal-artifact', n: n + 1, ...sent(1), parent: id(n) }),
      event({ kind: 'human-output', n: n + 2, ...sent(i + 1), parent: id(n + 1), more: ended(100 + i, i) }),
      event({ kind: 'user-feedback', n: n + 3, ...sent(30), parent: id(n + 2) }),
    ];
  });
}

describe('the calls of a run', () => {
  test('are its starts, each with its model, inputs, events, ending, tokens and latency [R-1830]', () => {
    const record = assembleRecord(workflow().flat().reverse());
    expect(schemaFaults(record)).toEqual([]);
    expect(record.metadata.calls).toMatchObject(
      Array.from({ length: 7 }, (_, i) => {
        const n = 10 * (i + 1);
        return {
          event_id: id(n),
          parent_event_id: i === 0 ? null : id(n - 8),
          model: { model_id: `step-${i % 2}` },
          user: { caller_id: 'clinician-8841' },
          inputs: { prompt: `step ${i}` },
          artifacts: [id(n + 1)],
          outputs: [id(n + 2)],
          outcomes: [],
          feedback: [id(n + 3)],
          ended: { event_id: id(n + 2), ending: 'complete', input_tokens: 100 + i, output_tokens: i },
          latency_ms: 1000 * (i + 1),
        };
      }),
    );
    // The record is filed under its first start, as one with one start is.
    expect(record).toMatchObject({ model: { model_id: 'step-0' }, inputs: { prompt: 'step 0' } });
    expect(record.metadata.conflicts).toEqual([]);
    expect(record.metadata.call?.event_id).toBe(id(72));
  });

  test('are the same in whatever order its starts come [R-206] [R-1830]', () => {
    const [first = [], ...others] = workflow();
    expect(assembleRecord([...others.flat(), ...first])).toEqual(assembleRecord(workflow().flat()));
  });

  test('exclude events that lead to no start: without a parent, in a circle, or unreadable [R-1830]', () => {
    const record = assembleRecord([
      event({ kind: 'inference-start', n: 1 }),
      event({ kind: 'inference-start', n: 2 }),
      event({ kind: 'human-output', n: 3, more: ended(1, 2) }),
      event({ kind: 'outcome', n: 4, parent: id(5) }),
      event({ kind: 'outcome', n: 5, parent: id(4) }),
      event({ kind: 'human-output', n: 6, parent: id(2), payloadState: 'encrypted' }),
      event({ kind: 'user-feedback', n: 7, parent: id(6) }),
    ]);
    const none = { artifacts: [], outputs: [], outcomes: [], feedback: [], ended: null, latency_ms: null };
    expect(record.metadata.calls).toMatchObject([
      { event_id: id(1), ...none },
      { event_id: id(2), ...none },
    ]);
    expect(record.metadata.call).toMatchObject({ event_id: id(3), input_tokens: 1, output_tokens: 2 });
  });

  test('include each ending where there is only one call, also one without a parent [R-1830]', () => {
    const { calls, call, tokens } = assembleRecord([
      event({ kind: 'inference-start', n: 1 }),
      event({ kind: 'human-output', n: 2, parent: id(1), more: ended(1, 2) }),
      event({ kind: 'human-output', n: 3, more: ended(3, 4) }),
    ]).metadata;
    expect(calls[0]).toMatchObject({ outputs: [id(2)], ended: { event_id: id(3) } });
    expect(calls[0]?.ended).toEqual(call);
    expect(tokens).toEqual({ input: 3, output: 4 });
  });

  test('keep a start that cannot be read, without its content [R-1830]', () => {
    const { calls, conflicts } = assembleRecord([
      event({ kind: 'inference-start', n: 1 }),
      event({ kind: 'inference-start', n: 2, payloadState: 'erased' }),
      event({ kind: 'human-output', n: 3, parent: id(2) }),
    ]).metadata;
    expect(calls[1]).toMatchObject({ event_id: id(2), timestamp: null, model: null, outputs: [id(3)] });
    expect(conflicts).toEqual([]);
  });

  test('of an agent may be nested together: each names the run that called it, without a conflict [R-206] [R-1830]', () => {
    const agent = [1, 2, 3].map((n) => event({ kind: 'inference-start', n, parent: id(90 + n) }));
    const links = { ...UNLINKED, parentRunOf: (parent: string) => (parent === id(93) ? id(81) : id(80)) };
    const { parent, conflicts } = assembleRecord(agent, links).metadata;
    expect(parent).toEqual({ run_id: id(80), event_id: id(91) });
    expect(conflicts).toEqual([{ kind: 'parent_in_other_run', event_ids: [id(3)] }]);
  });
});

describe('a second start', () => {
  const start = (n: number, more: Readonly<Record<string, unknown>>) =>
    event({ kind: 'inference-start', n, more });
  const conflictsOf = (...starts: readonly Readonly<Record<string, unknown>>[]) =>
    assembleRecord(starts.map((more, i) => start(i + 1, more))).metadata.conflicts;

  test('is a conflict if it names another target or another user, and never because of its model [R-1832]', () => {
    const otherModel = { model_instance: { model_id: 'other' }, inputs: { prompt: 'other' } };
    expect(conflictsOf({}, otherModel, {})).toEqual([]);
    for (const other of [
      { target_identity: { target_id: 'patient-2' } },
      { user_identity: { caller_id: 'clinician-2' } },
    ])
      expect(conflictsOf({}, otherModel, other, {})).toEqual([{ kind: 'second_start', event_ids: [id(3)] }]);
    const typed = (target_type: string) => ({ target_identity: { target_id: 'a', target_type } });
    expect(conflictsOf(typed('patient'), typed('document'))).toHaveLength(1);
  });

  test('is remembered whole: later ones are compared with all that it names; null names nothing [R-1832]', () => {
    const bare = { target_identity: undefined, user_identity: undefined };
    const named = (target: object | undefined, user?: object) => ({
      ...{ target_identity: target, user_identity: user },
    });
    expect(
      conflictsOf(
        named({ target_id: 'a' }),
        named({ target_id: 'b' }, { caller_id: 'u' }),
        named(undefined, { caller_id: 'v' }),
      ),
    ).toEqual([{ kind: 'second_start', event_ids: [id(2), id(3)] }]);
    expect(
      conflictsOf(
        named({ target_id: 'a', target_type: 'none' }),
        named({ target_id: 'a', target_type: null }),
        bare,
      ),
    ).toEqual([]);
  });

  test('that names neither is no conflict, and others are compared with the first that does [R-1832]', () => {
    const silent = { target_identity: undefined, user_identity: undefined };
    const target = (target_id: string) => ({
      ...silent,
      target_identity: { target_id, note: Math.random() },
    });
    expect(conflictsOf(silent, target('a'), silent, target('a'))).toEqual([]);
    expect(conflictsOf(silent, target('a'), target('b'), target('a'))).toEqual([
      { kind: 'second_start', event_ids: [id(3)] },
    ]);
  });
});

type Members = Readonly<Record<string, unknown>>;

/** By the ids that were sent alone: where the parents of an event lead. */
function callIn(
  sent: ReadonlyMap<string, Sent>,
  eventId: string,
  seen: readonly string[] = [],
): string | null {
  const {
    event: { event, body },
  } = sent.get(eventId) as Sent;
  if (event.kind === 'inference-start') return eventId;
  const parent = body?.parent_event_id?.toLowerCase();
  if (parent === undefined || !sent.has(parent) || seen.includes(eventId)) return null;
  return callIn(sent, parent, [...seen, eventId]);
}

function tokensOf({ metadata: { calls } }: ClinicalRecord): unknown[] {
  return calls.map(({ ended: how }) => [how?.input_tokens, how?.output_tokens]);
}

test('each event belongs to the call that its parents lead to, in any run and any order [R-206] [R-1830]', () => {
  const shuffled = anyRun.chain((sent) =>
    fc.tuple(fc.constant(sent), fc.shuffledSubarray([...sent], { minLength: sent.length })),
  );
  const lists = {
    'internal-artifact': 'artifacts',
    'human-output': 'outputs',
    outcome: 'outcomes',
    'user-feedback': 'feedback',
  } as const;
  fc.assert(
    fc.property(shuffled, ([one, other]) => {
      const [record, again] = [one, other].map((sent) => assembleRecord(sent.map((each) => each.event)));
      if (record === undefined || again === undefined) throw new Error('no record');
      expect(again.metadata.calls).toEqual(record.metadata.calls);
      expect(tokensOf(again)).toEqual(tokensOf(record));
      const sent = new Map(one.map((each) => [each.event.event.eventId, each]));
      const { calls, events } = record.metadata;
      expect(calls.map(({ event_id }) => event_id)).toEqual(
        events.filter(({ kind }) => kind === 'inference-start').map(({ event_id }) => event_id),
      );
      for (const [kind, list] of Object.entries(lists)) {
        const found = calls.map((call) => [call.event_id, (call as RunCall & Members)[list]]);
        const expected = calls.map(({ event_id: call }) => [
          call,
          events
            .filter((each) => each.kind === kind && callIn(sent, each.event_id) === call)
            .map(({ event_id }) => event_id),
        ]);
        expect(found).toEqual(expected);
      }
    }),
    { numRuns: runs(500) },
  );
});
