// The compiler is the test here: `tsc` checks these lines, Vitest only runs them.
import { describe, expectTypeOf, it } from 'vitest';
import type {
  ErrorBody,
  EventKind,
  EventOf,
  HumanOutputEvent,
  InferenceStartEvent,
  InternalArtifactEvent,
  OutcomeEvent,
  SystemMetadata,
  UserFeedbackEvent,
} from '../src/index.js';

const base = { event_id: 'x', timestamp: 'x', protocol_version: '0.0.1', system_metadata: {} };

describe('the event types', () => {
  it('are found by kind', () => {
    expectTypeOf<EventOf<'inference-start'>>().toEqualTypeOf<InferenceStartEvent>();
    expectTypeOf<EventOf<'internal-artifact'>>().toEqualTypeOf<InternalArtifactEvent>();
    expectTypeOf<EventOf<'human-output'>>().toEqualTypeOf<HumanOutputEvent>();
    expectTypeOf<EventOf<'outcome'>>().toEqualTypeOf<OutcomeEvent>();
    expectTypeOf<EventOf<'user-feedback'>>().toEqualTypeOf<UserFeedbackEvent>();
  });

  it('accept unknown fields', () => {
    const event: InferenceStartEvent = { ...base, own: 1, system_metadata: { region: 'north' } };
    expectTypeOf(event['own']).toBeUnknown();
  });

  it('know the named fields', () => {
    expectTypeOf<SystemMetadata['latency_ms']>().toEqualTypeOf<number | undefined>();
    expectTypeOf<EventOf<EventKind>['parent_event_id']>().toEqualTypeOf<string | null | undefined>();
    expectTypeOf<ErrorBody['message']>().toBeString();
  });

  it('refuse what the validators refuse', () => {
    // @ts-expect-error An artifact has a type.
    const untyped: InternalArtifactEvent = { ...base, artifact: { artifact_uri: 'urn:x:1' } };
    // @ts-expect-error A run_id may be left out and may not be null.
    const runless: OutcomeEvent = { ...base, outcome: {}, run_id: null };
    // @ts-expect-error The profile full requires the URI of the output.
    const placeless: EventOf<'human-output', 'full'> = { ...base, output: {} };
    expectTypeOf([untyped, runless, placeless]).toBeArray();
  });
});
