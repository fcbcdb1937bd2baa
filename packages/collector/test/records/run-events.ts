/** Events of runs for the tests of records, as they would come from the log. */
import type { EventKind } from '@clinical-events/protocol';
import { runEventOf, type RunEvent } from '../../src/records/run-event.js';
import type { StoredEvent } from '../../src/store/contract/events.js';

/** A UUID with its number in it. */
export function id(n: number): string {
  return `abcdef00-0000-4000-8000-${String(n).padStart(12, '0')}`;
}

export const RUN = id(1);

export interface WantedEvent extends Partial<
  Pick<StoredEvent, 'sequence' | 'profile' | 'door' | 'organisation' | 'keyId' | 'payloadState'>
> {
  readonly kind: EventKind;
  /** Its id is `id(n)`. */
  readonly n: number;
  /** The run that it names; null for none. The run of RUN when not given. */
  readonly run?: string | null;
  readonly parent?: string | null;
  /** By the sender's clock. */
  readonly at?: string;
  /** By the collector's clock. */
  readonly received?: string;
  /** More members, or others. */
  readonly more?: Readonly<Record<string, unknown>>;
}

const PAYLOADS: Readonly<Record<EventKind, Readonly<Record<string, unknown>>>> = {
  'inference-start': {
    model_instance: { model_id: 'sepsis-risk', model_version: '4.2.0' },
    user_identity: { caller_id: 'clinician-8841' },
    target_identity: { target_id: 'patient-30977' },
    inputs: { prompt: 'Estimate the risk.' },
  },
  'internal-artifact': { artifact: { artifact_type: 'tool_call', artifact_uri: 'urn:artifact:1' } },
  'human-output': { output: { output_uri: 'urn:output:1', summary: 'High risk.' } },
  outcome: { outcome: { outcome_type: 'validated' } },
  'user-feedback': { feedback: { feedback_type: 'thumbs' } },
};

const MINUTE_OF = '2026-03-02T08:31';

/** An event of RUN, each a second after the one with the number before it, stored and received in that order too. */
export function event({ kind, n, run = RUN, parent, more = {}, ...wanted }: WantedEvent): RunEvent {
  const second = String(n % 60).padStart(2, '0');
  return eventFromText(
    JSON.stringify({
      event_id: id(n),
      ...(run !== null && { run_id: run }),
      ...(parent !== undefined && { parent_event_id: parent }),
      timestamp: wanted.at ?? `${MINUTE_OF}:${second}.000Z`,
      protocol_version: '0.0.1',
      system_metadata: { hostname: 'ward-7' },
      ...PAYLOADS[kind],
      ...more,
    }),
    {
      kind,
      sequence: n,
      eventId: id(n),
      runId: run ?? undefined,
      ...wanted,
      receivedAt: Date.parse(wanted.received ?? `${MINUTE_OF}:${second}.500Z`),
    },
  );
}

type Stored = Partial<StoredEvent> & Pick<StoredEvent, 'kind' | 'eventId' | 'receivedAt'>;

/** The event with exactly this body. */
export function eventFromText(text: string, stored: Stored): RunEvent {
  const nothing = Buffer.alloc(0);
  return runEventOf({
    sequence: 1,
    profile: 'minimum',
    door: 'endpoint',
    organisation: 'default',
    keyId: 'abcdefghij23',
    runId: undefined,
    parentId: undefined,
    payloadState: 'plain',
    envelope: nothing,
    commitment: nothing,
    salted: nothing,
    body: Buffer.from(text),
    ...stored,
  });
}

/** One event of each kind: a complete run. */
export function fullRun(): RunEvent[] {
  return [
    event({ kind: 'inference-start', n: 1, parent: null }),
    event({ kind: 'internal-artifact', n: 2, parent: id(1) }),
    event({ kind: 'human-output', n: 3, parent: id(2) }),
    event({ kind: 'outcome', n: 4, parent: id(3) }),
    event({ kind: 'user-feedback', n: 5, parent: id(3) }),
  ];
}
