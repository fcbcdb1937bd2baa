/**
 * Records of all sorts for the exports: those of any-run.ts, and those of hostile or careless senders. All
 * prose in them, also in unknown members, has {@link PROSE} in it.
 */
import { type ClinicalRecord, EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import fc from 'fast-check';
import { assembleRecord, type RunLinks } from '../../../src/records/assemble.js';
import type { RunEvent } from '../../../src/records/run-event.js';
import { anyRun, ELSEWHERE, NOWHERE } from '../any-run.js';
import { eventFromText, id, RUN } from '../run-events.js';

export const PROSE = 'Zz said in confidence';

const prose = fc.oneof(
  fc.constant(PROSE),
  fc.string({ unit: 'binary', maxLength: 20 }).map((text) => `${text} ${PROSE}`),
  fc.constant(PROSE.repeat(2000)),
);
/** The text unchanged, apart from characters that no format can hold. */
const name = fc.oneof(
  fc.constantFrom('sepsis-risk', 'a|b c', ' ', '', '\u0000\u001f', '\ud800', 'é\u200b漢', 'x'.repeat(20_000)),
  fc.string({ unit: 'binary', maxLength: 12 }),
  // Sent by the profile minimum, which does not define these.
  fc.constantFrom(...['4', 'null', '{"rawJSON":"1"}', '[]'].map((text) => ({ text }))),
);
const address = fc.oneof(
  fc.constantFrom('urn:x:1', 'https://example.org/a?b=%20#c', 's3://bucket/key'),
  prose,
  fc.constant(`data:text/plain,${encodeURIComponent(PROSE)}`),
  fc.constant(`DATA:text/plain;base64,${btoa(PROSE)}`),
);
const word = (...words: string[]) => fc.oneof(fc.constantFrom(...words), prose);
const spelling = fc.constantFrom('4.50', '-0', '1e400', '3', '12345678901234567890', '-1', '5.0', '"4"');

const member = (arbitrary: fc.Arbitrary<unknown>) =>
  fc.option(
    arbitrary.map((value) =>
      typeof value === 'object' && value !== null && 'text' in value
        ? String(value.text)
        : JSON.stringify(value),
    ),
    { nil: undefined },
  );
const raw = (arbitrary: fc.Arbitrary<string>) => fc.option(arbitrary, { nil: undefined });
const objectText = (members: Readonly<Record<string, fc.Arbitrary<string | undefined>>>) =>
  fc.record({ ...members, unnamed: member(prose) }).map(textOf);

const caller = raw(
  objectText({
    caller_id: member(name),
    caller_type: member(word('clinician', 'patient', 'admin', 'service')),
  }),
);

const PAYLOADS: Readonly<Record<EventKind, Readonly<Record<string, fc.Arbitrary<string | undefined>>>>> = {
  'inference-start': {
    model_instance: raw(
      objectText({ model_id: member(name), model_version: member(name), model_card_url: member(address) }),
    ),
    user_identity: caller,
    target_identity: raw(
      objectText({
        target_id: member(name),
        target_type: member(word('patient', 'document', 'claim', 'none')),
      }),
    ),
    inputs: raw(objectText({ prompt: member(prose), input_uri: member(address) })),
  },
  'internal-artifact': {
    artifact: objectText({
      artifact_type: fc
        .constantFrom('text_chunk', 'reasoning_trace', 'tool_call', 'explanation', 'other')
        .map((text) => JSON.stringify(text)),
      artifact_uri: fc
        .constantFrom('urn:x:2', `data:,${encodeURIComponent(PROSE)}`)
        .map((text) => JSON.stringify(text)),
      mime_type: member(prose),
      description: member(prose),
    }),
  },
  'human-output': {
    output: objectText({
      output_uri: member(address),
      summary: member(prose),
      output_type: member(word('text', 'other')),
    }),
  },
  outcome: {
    outcome: objectText({
      outcome_type: member(word('validated', 'contradicted', 'partial', 'unknown')),
      occurred_at: member(word('2026-03-04T01:02:03+01:00', '2026-02-30T00:00:00Z', '2026-03-04t01:02:60z')),
      description: member(prose),
      evidence_uri: member(address),
    }),
    user_identity: caller,
  },
  'user-feedback': {
    feedback: objectText({
      feedback_type: member(word('rating', 'thumbs', 'text', 'survey')),
      rating_value: raw(spelling),
      comment: member(prose),
      user_identity: caller,
    }),
    user_identity: caller,
  },
};

const TIMES = [
  ...['2026-03-02T09:31:44+01:00', '2026-03-02t08:31:44.1234567890123z', '2026-12-31T23:59:60.5Z'],
  ...['0000-01-01T00:00:00Z', '0001-01-01T00:00:00+23:59', '9999-12-31T23:59:59-23:59'],
  ...['2600-01-01T00:00:00Z', '1969-12-31T23:59:59.5Z', '2026-03-02T08:31:44-00:00'],
];

function textOf(members: Readonly<Record<string, string | undefined>>): string {
  const known = Object.entries(members).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return `{${known.map(([key, text]) => `${JSON.stringify(key)}:${text}`).join(',')}}`;
}

const oddEvent = (n: number) =>
  fc.constantFrom(...EVENT_KINDS).chain((kind) =>
    fc
      .record({
        payload: fc.record(PAYLOADS[kind]),
        parent: fc.oneof(
          fc.constantFrom(undefined, ELSEWHERE, NOWHERE),
          fc.integer({ min: 1, max: 6 }).map(id),
        ),
        namesRun: fc.boolean(),
        timestamp: fc.constantFrom(...TIMES),
        system: objectText({
          hostname: member(name),
          app_name: member(name),
          proc_id: fc.oneof(member(name), fc.constantFrom('"4711"', '"0"', '"99999999999"')),
          latency_ms: raw(fc.constantFrom('120', '-5', '2147483647', '1e2', '1.2e2')),
        }),
        unnamed: member(prose),
        payloadState: fc.constantFrom(
          'plain' as const,
          'plain' as const,
          'plain' as const,
          'erased' as const,
        ),
      })
      .map(({ payload, parent, namesRun, timestamp, system, unnamed, payloadState }) => {
        const runId = namesRun || kind === 'inference-start' ? RUN : undefined;
        const text = textOf({
          event_id: JSON.stringify(id(n)),
          run_id: runId && JSON.stringify(runId),
          parent_event_id: parent && JSON.stringify(parent),
          timestamp: JSON.stringify(timestamp),
          protocol_version: JSON.stringify(PROSE),
          system_metadata: system,
          unnamed,
          ...payload,
        });
        const receivedAt = Date.UTC(2026, 2, 2, 8, 31, n);
        const made = eventFromText(text, {
          kind,
          eventId: id(n),
          runId,
          sequence: n,
          receivedAt,
          payloadState,
        });
        return payloadState === 'erased' ? erased(made) : made;
      }),
  );

/** The same event when an action has destroyed its payload. */
export function erased(made: RunEvent): RunEvent {
  const erasure = { action: id(900), reason: 'erasure-request', at: Date.UTC(2026, 5, 1) } as const;
  return { ...made, event: { ...made.event, erasure } };
}

const anyEvents = fc.oneof(
  anyRun.map((sent) => sent.map(({ event }) => event)),
  fc
    .shuffledSubarray([1, 2, 3, 4, 5, 6], { minLength: 1 })
    .chain((numbers) => fc.tuple(...numbers.map((n) => oddEvent(n)))),
);

const links = fc
  .record({
    elsewhere: fc.constantFrom(undefined, null, id(200)),
    children: fc.constantFrom([], [id(201), id(202)]),
    cycle: fc.constantFrom([], [RUN, id(200)]),
  })
  .map(({ elsewhere, children, cycle }): RunLinks => ({
    parentRunOf: (eventId) => (eventId === ELSEWHERE ? elsewhere : undefined),
    children,
    cycle,
  }));

export const anyRecord: fc.Arbitrary<ClinicalRecord> = fc
  .tuple(anyEvents, links)
  .map(([events, runLinks]) => assembleRecord(events, runLinks));

/** Whether the words are in the text, in a way that JSON, a URI or base64 would write them. */
export function says(text: string, words: string): boolean {
  return [words, encodeURIComponent(words), btoa(words)].some((form) => text.includes(form));
}
