import { describe, expect, test } from 'vitest';
import { encodeEnvelope, envelopeSize } from '@clinical-events/protocol';
import { type Action, actionFields, Actions, type Erase } from '../../src/privacy/actions.js';
import { SequenceSet } from '../../src/privacy/sequence-set.js';
import {
  erasedEvent,
  erasedUnderHolds,
  heldFindings,
  type HeldThings,
} from '../../src/store/lifecycle-findings.js';
import type { ErasedEvent } from '../../src/store/log-audit.js';
import { candidate } from './candidate.js';

const uuid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
const [HOLD, ERASED, RUN, OTHER] = [uuid(3), uuid(4), uuid(9), uuid(8)];

/** A log with these actions, one after the other. */
function logOf(...said: readonly Action[]): Actions {
  const actions = new Actions();
  for (const [i, action] of said.entries()) {
    const text = JSON.stringify({ event_id: uuid(100 + i), ...actionFields(action) });
    expect(actions.add(1000 + i, 0, Buffer.from(text))).toBe(true);
  }
  return actions;
}

const hold = { action: HOLD, does: 'hold', record: 'ab'.repeat(32) } as const;
const release = { action: uuid(5), does: 'release', hold: HOLD } as const;
const erased = (more: Partial<Erase> = {}): Erase => ({
  ...{ action: ERASED, does: 'erase', reason: 'erasure-request', part: 1, parts: 1 },
  keys: [{ tag: 1, organisation: 'icu', sequences: SequenceSet.of([1, 2, 3]) }],
  ...more,
});
const event = (more: Partial<ErasedEvent> = {}): ErasedEvent => ({
  ...{ sequence: 2, organisation: 'icu', recordId: RUN, parentId: uuid(0) },
  ...more,
});
const CASE_7: HeldThings = {
  ...{ name: 'CASE-7', organisations: new Set(['ed']), runs: new Set([RUN]) },
  events: SequenceSet.of([3]),
};
const HOLDS = new Map([[HOLD, CASE_7]]);

async function findings(actions: Actions, holds = HOLDS, ...events: readonly ErasedEvent[]) {
  const under = erasedUnderHolds(actions);
  const met = SequenceSet.ofStretches(under);
  const of = events.filter(({ sequence }) => met.has(sequence));
  const messages: string[] = [];
  for await (const { message } of heldFindings(under, holds, of)) messages.push(message);
  return messages;
}

const found = (events: string) => [
  `${events} erased by action ${ERASED}, although the hold CASE-7 protected it`,
];

describe('[R-1339] an erasure', () => {
  test.each([
    ['of an event that no action names', [hold, erased()], event({ sequence: 4 })],
    ['when the hold was released', [hold, release, erased()], event()],
    ['before the hold began', [erased(), hold], event()],
    ['of a run that is not on hold', [hold, erased()], event({ recordId: OTHER, parentId: uuid(7) })],
  ])('%s, was allowed', async (_, bodies, of) => {
    expect(await findings(logOf(...bodies), HOLDS, of)).toEqual([]);
  });

  test.each([
    ['of a run on hold', event()],
    ['of a run nested in one on hold', event({ recordId: OTHER, parentId: RUN })],
    ['of an organisation on hold', event({ organisation: 'ed', recordId: OTHER })],
    ['of an event that the hold covered at its start, of any run', event({ sequence: 3, recordId: OTHER })],
  ])('%s, was not', async (_, of) => {
    expect(await findings(logOf(hold, erased()), HOLDS, of)).toEqual(found(`event ${of.sequence} was`));
    expect(await findings(logOf(hold, erased({ reason: 'policy' })), HOLDS, of)).toHaveLength(1);
  });

  test.each([
    ['inference-start', RUN, uuid(7)],
    ['outcome', OTHER, undefined],
    ['outcome', undefined, uuid(7)],
  ] as const)('of %s of run %s is judged by its parent, where it has one', (kind, run, parentId) => {
    const body = { parent_event_id: uuid(7) };
    const envelope = candidate({ kind, eventId: uuid(6), ...(run !== undefined && { runId: run }), body });
    const bytes = Buffer.alloc(envelopeSize(envelope));
    encodeEnvelope(bytes, 0, envelope);
    expect(erasedEvent(2, bytes)).toMatchObject({ recordId: run ?? uuid(6), parentId });
  });

  test('is one finding with its neighbours, without those between them', async () => {
    const held = [1, 2, 3].map((sequence) => event({ sequence }));
    expect(await findings(logOf(hold, erased()), HOLDS, ...held)).toEqual(found('events 1 to 3 were'));
    const events = [event({ sequence: 1 }), event({ recordId: OTHER }), event({ sequence: 3 })];
    expect(await findings(logOf(hold, erased()), HOLDS, ...events)).toEqual([
      ...found('event 1 was'),
      ...found('event 3 was'),
    ]);
  });

  test('is a finding while a hold was active whose events are unknown', async () => {
    const unknown = (...said: Action[]) => findings(logOf(...said), new Map(), event());
    expect(await unknown(hold, erased())).toEqual([
      expect.stringContaining(`although hold ${HOLD} was active, and its record is missing or changed`),
    ]);
    expect(await unknown(erased(), hold)).toEqual([]);
    expect(await unknown(hold, release, erased())).toEqual([]);
  });

  test('counts at its first action, and is judged by the holds of that time', async () => {
    const again = erased({ action: uuid(6) });
    const first = logOf(hold, erased(), release, again);
    expect(await findings(first, HOLDS, event())).toEqual(found('event 2 was'));
    expect(await findings(logOf(erased(), hold, again), HOLDS, event())).toEqual([]);
  });
});
