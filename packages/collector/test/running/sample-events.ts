/** Events that are valid in both profiles, one of each kind. */
import { randomUUID } from 'node:crypto';
import type { EventKind } from '@clinical-events/protocol';

const PAYLOADS: Readonly<Record<EventKind, Readonly<Record<string, unknown>>>> = {
  'inference-start': {
    model_instance: { model_id: 'triage', model_version: '4.2' },
    user_identity: { caller_id: 'clinician-17', caller_type: 'clinician' },
    target_identity: { target_id: 'patient-4711', target_type: 'patient' },
    inputs: { prompt: 'Chest pain since this morning, what next?' },
  },
  'internal-artifact': { artifact: { artifact_type: 'tool_call', artifact_uri: 'urn:artifact:1' } },
  'human-output': { output: { output_uri: 'urn:output:1', summary: 'Order an ECG.', output_type: 'text' } },
  outcome: { outcome: { outcome_type: 'validated', description: 'The ECG showed it.' } },
  'user-feedback': { feedback: { feedback_type: 'rating', rating_value: 5, comment: 'helpful' } },
};

export type SampleEvent = Record<string, unknown> & { event_id: string };

/** A new event of the kind, with more or other members when given. */
export function sampleEvent(
  kind: EventKind = 'outcome',
  more: Readonly<Record<string, unknown>> = {},
): SampleEvent {
  return {
    event_id: randomUUID(),
    timestamp: '2026-03-04T05:06:07.089Z',
    protocol_version: '0.0.1',
    system_metadata: { hostname: 'ward-7', latency_ms: 12 },
    ...PAYLOADS[kind],
    ...more,
  };
}

/** The text of a new outcome event whose last member is `"extra"`, spelt exactly as given. */
export function outcomeText(extra: string, eventId: string = randomUUID()): string {
  return (
    `{"event_id":"${eventId}","timestamp":"2026-03-04T05:06:07Z","protocol_version":"0.0.1",` +
    `"system_metadata":{},"outcome":{},"extra":${extra}}`
  );
}

/** The text of a new outcome event that is exactly this number of bytes long. */
export function outcomeOfSize(bytes: number): string {
  const empty = outcomeText('""');
  return outcomeText(`"${'x'.repeat(bytes - empty.length)}"`);
}
