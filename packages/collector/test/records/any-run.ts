/**
 * Runs of all sorts, as texts: starts missing or repeated, parents anywhere, clocks apart, events that name no run,
 * fields that are not named anywhere, and numbers of every spelling.
 */
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import fc from 'fast-check';
import type { RunEvent } from '../../src/records/run-event.js';
import { eventFromText, id, RUN } from './run-events.js';

/** Ids of events that may be in the run, and of two that are not: the log has the first. */
const INSIDE = 12;
export const ELSEWHERE = id(100);
export const NOWHERE = id(101);

const numberText = fc.oneof(
  fc.constantFrom('0', '-0', '1.10', '1e400', '1E+2', '12345678901234567890', '0.0000001', '100', '4.5'),
  fc.stringMatching(/^-?(0|[1-9]\d{0,19})(\.\d{1,19})?([eE][+-]?\d{1,3})?$/),
);
const name = fc.oneof(
  fc.constantFrom('__proto__', 'constructor', 'toString', 'rawJSON', '', '7', 'extra', 'kind'),
  fc.string({ maxLength: 5 }).map((text) => `x${text}`),
);

const membersText = (members: readonly (readonly [string, string])[]) =>
  [...new Map(members)].map(([key, text]) => `${JSON.stringify(key)}:${text}`).join(',');

/** Texts of JSON values. */
const { value: valueText } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    numberText,
    fc.constantFrom('null', 'true', '"44.180"', '[1.0, 2.50]', '{}'),
    fc.string({ unit: 'binary', maxLength: 6 }).map((text) => JSON.stringify(text)),
    fc.array(tie('value'), { maxLength: 3 }).map((items) => `[${items.join(' , ')}]`),
    fc.array(fc.tuple(name, tie('value')), { maxLength: 3 }).map((members) => `{${membersText(members)}}`),
  ),
}));

const unnamed = fc.array(fc.tuple(name, valueText), { maxLength: 2 });
const objectText = (...known: readonly (readonly [string, string])[]) =>
  unnamed.map((members) => `{${membersText([...members, ...known])}}`);
const optional = (text: fc.Arbitrary<string>) => fc.option(text, { nil: undefined });

/** The report of an instrumentation on an ending, and values that only look like one. */
const ending = fc
  .record(
    {
      ending: fc.constantFrom('"complete"', '"failed"', '"\\u0066ailed"', '"unfinished"', '"done"', '7'),
      status: fc.constantFrom('429', '"500"', '4.29e2', '99', '"x"'),
      error_name: fc.constantFrom('"TypeError"', '"\\ud800"', '{}'),
      response_model: fc.constantFrom('"m-2026"', '""', '[]'),
      usage: fc.constantFrom(
        '{"input_tokens":11,"output_tokens":"7"}',
        '{"input_tokens":1.10,"output_tokens":-1}',
        '{"input_tokens" : 1e400}',
        '7',
      ),
    },
    { requiredKeys: [] },
  )
  .map((members) => Object.entries(members));
const endedText = (...known: readonly (readonly [string, string])[]) =>
  fc.tuple(unnamed, ending).map(([members, told]) => `{${membersText([...members, ...told, ...known])}}`);
const system = fc.oneof(
  objectText(['latency_ms', '1e2']),
  fc
    .constantFrom('{"by":"openai","attempt":2}', '{"by":"","attempt":"3"}', '{"by":7}', '"openai"')
    .map((said) => `{"instrumentation":${said}}`),
);

const PAYLOADS: Readonly<Record<EventKind, Readonly<Record<string, fc.Arbitrary<string | undefined>>>>> = {
  'inference-start': {
    model_instance: optional(
      fc.oneof(...['"sepsis-risk"', '"triage"'].map((text) => objectText(['model_id', text]))),
    ),
    user_identity: optional(fc.oneof(objectText(), objectText(['caller_id', '"clinician-1"']))),
    target_identity: optional(
      fc.oneof(...['"patient-1"', '"patient-2"'].map((text) => objectText(['target_id', text]))),
    ),
    inputs: optional(objectText(['prompt', '"?"'])),
  },
  'internal-artifact': {
    artifact: endedText(['artifact_type', '"other"'], ['artifact_uri', '"urn:x:1"']),
  },
  'human-output': { output: fc.oneof(endedText(['output_uri', '"urn:x:2"']), endedText()) },
  outcome: { outcome: objectText() },
  'user-feedback': {
    feedback: fc.oneof(
      objectText(),
      objectText(['rating_value', '"4.50"']),
      objectText(['rating_value', '4.50']),
    ),
  },
};

const timestamp = fc.constantFrom(
  '2026-03-02T09:31:44+01:00',
  '2026-03-02T08:31:44.000Z',
  '2026-03-02t08:31:44.0000001z',
  '2026-03-02T08:31:44.1Z',
  '2026-12-31T23:59:60Z',
  '2027-01-01T00:00:00Z',
  '1999-01-01T00:00:00-12:00',
);
const upperCase = (text: string | null, upper: boolean) =>
  upper && text !== null ? text.toUpperCase() : text;

/** An event as it was sent, and as it is read from the log. */
export interface Sent {
  readonly text: string;
  readonly event: RunEvent;
}

const sent = (eventId: string): fc.Arbitrary<Sent> =>
  fc.constantFrom(...EVENT_KINDS).chain((kind) =>
    fc
      .record({
        payload: fc.record(PAYLOADS[kind]),
        parent: fc.oneof(
          fc.constantFrom(undefined, null, ELSEWHERE, NOWHERE),
          fc.integer({ min: 1, max: INSIDE }).map(id),
        ),
        namesRun: fc.boolean(),
        upper: fc.boolean(),
        timestamp,
        version: fc.constantFrom('0.0.1', '0.0.2', 'z'),
        system,
        unnamed,
        sequence: fc.integer({ min: 1, max: 1000 }),
        receivedAt: fc.constantFrom(
          Date.UTC(2026, 2, 2, 8, 31),
          Date.UTC(2026, 2, 2, 8, 31, 44, 5),
          Date.UTC(2027, 0, 1),
        ),
        payloadState: fc.oneof(
          { weight: 9, arbitrary: fc.constant('plain' as const) },
          { weight: 1, arbitrary: fc.constantFrom('encrypted' as const, 'erased' as const) },
        ),
      })
      .map((made) => {
        // A start opens a run by its own id when it names none; here, all belong to the run of the test.
        const runId = made.namesRun || kind === 'inference-start' ? RUN : undefined;
        const ids: [string, string][] = [['event_id', JSON.stringify(upperCase(eventId, made.upper))]];
        if (runId !== undefined) ids.push(['run_id', JSON.stringify(upperCase(runId, made.upper))]);
        if (made.parent !== undefined) {
          ids.push(['parent_event_id', JSON.stringify(upperCase(made.parent, made.upper))]);
        }
        const payload = Object.entries(made.payload).filter(
          (entry): entry is [string, string] => entry[1] !== undefined,
        );
        const text = `{${membersText([
          ...made.unnamed,
          ...payload,
          ['timestamp', JSON.stringify(made.timestamp)],
          ['protocol_version', JSON.stringify(made.version)],
          ['system_metadata', made.system],
          ...ids,
        ])}}`;
        const { sequence, receivedAt, payloadState } = made;
        return {
          text,
          event: eventFromText(text, { kind, eventId, runId, sequence, receivedAt, payloadState }),
        };
      }),
  );

/** The events of one record, in an arbitrary order. */
export const anyRun: fc.Arbitrary<readonly Sent[]> = fc
  .shuffledSubarray(
    Array.from({ length: INSIDE }, (_, i) => i + 1),
    { minLength: 1 },
  )
  .chain((numbers) => fc.tuple(...numbers.map((n) => sent(id(n)))));
