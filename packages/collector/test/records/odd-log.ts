/** Logs with all odd forms, in a data directory; and their records, made the simple way, all in memory. */
import { EVENT_KINDS, type ClinicalRecord, type EventKind } from '@clinical-events/protocol';
import fc from 'fast-check';
import { assembleRecord, type RunLinks } from '../../src/records/assemble.js';
import { inCanonicalOrder } from '../../src/records/canonical-order.js';
import { runEventOf, type RunEvent } from '../../src/records/run-event.js';
import { candidate, type Made } from '../store/candidate.js';
import { storedEvents } from '../store/embedded/filled-directory.js';
import { placeRunless, PlainNesting, type RecordKey } from './plain-links.js';
import { id } from './run-events.js';

const ORGANISATIONS = ['default', 'ward-7'] as const;
const PAYLOADS: Readonly<Record<EventKind, object>> = {
  'inference-start': {
    model_instance: { model_id: 'sepsis-risk', model_version: '4.2.0' },
    user_identity: { caller_id: 'clinician-8841', caller_type: 'clinician' },
    target_identity: { target_id: 'patient-30977', target_type: 'patient' },
    inputs: { prompt: '=HYPERLINK("https://evil.example"), "quoted"\r\nand a second line' },
  },
  'internal-artifact': {
    artifact: { artifact_type: 'tool_call', artifact_uri: 'urn:artifact:1', description: 'sœur, 护理 🩺' },
  },
  'human-output': { output: { output_uri: 'urn:output:1', summary: 'High risk\u001b[2J.' } },
  outcome: { outcome: { outcome_type: 'validated', occurred_at: '2026-03-03T00:00:00Z' } },
  'user-feedback': { feedback: { feedback_type: 'rating', rating_value: 4.5, comment: '-1+1' } },
};

const DAY = 86_400_000;

export interface SentEvent {
  readonly kind: EventKind;
  readonly n: number;
  readonly organisation: string;
  readonly run: number | null;
  /** Number of another event; null for `"parent_event_id": null`, undefined for no such member. */
  readonly parent: number | null | undefined;
  readonly second: number;
  /** By the sender's clock, in place of that second. */
  readonly sentAt?: string;
  readonly day: number;
}

/** Some starts are of another model than the others, some outputs are endings that an instrumentation reports. */
function callPayload(kind: EventKind, n: number): object {
  if (kind === 'inference-start' && n % 2 === 0)
    return { model_instance: { model_id: 'triage' }, target_identity: { target_id: 'patient-2' } };
  if (kind !== 'human-output' || n % 2 === 0) return {};
  return {
    system_metadata: { hostname: 'ward-7', instrumentation: { by: 'openai', attempt: 1 + (n % 3) } },
    output: {
      output_uri: 'urn:output:2',
      ...(n % 4 === 1
        ? { ending: 'complete', response_model: 'triage-2' }
        : { ending: 'failed', status: 429 }),
      usage: { input_tokens: n, output_tokens: n % 5 === 0 ? undefined : 2 * n },
    },
  };
}

/** An event of the log as a candidate for the store. */
export function stored({ kind, n, organisation, run, parent, second, sentAt, day }: SentEvent): Made {
  const opened = run ?? (kind === 'inference-start' ? n : null);
  const body = {
    event_id: id(n),
    ...(run !== null && { run_id: id(run) }),
    ...(parent !== undefined && { parent_event_id: parent === null ? null : id(parent).toUpperCase() }),
    timestamp: sentAt ?? `2026-03-02T08:31:0${second}Z`,
    protocol_version: '0.0.1',
    system_metadata: { hostname: 'ward-7' },
    'not named': 12_345_678_901,
    ...PAYLOADS[kind],
    ...callPayload(kind, n),
  };
  // A double does not have all these digits.
  const text = JSON.stringify(body).replace('12345678901', '1234567890123456789.10');
  return candidate({
    kind,
    organisation,
    eventId: id(n),
    ...(opened !== null && { runId: id(opened) }),
    receivedAt: Date.UTC(2026, 2, 2, 8, 31, n % 60) + day * DAY,
    body: text,
  });
}

/** @param most how many events there are at most. @param size `max` for logs of any length up to that. */
export function oddLog(most: number, size?: 'max'): fc.Arbitrary<SentEvent[]> {
  const event = fc.record({
    kind: fc.constantFrom(...EVENT_KINDS),
    organisation: fc.constantFrom(...ORGANISATIONS),
    run: fc.oneof(fc.constant(null), fc.integer({ min: 501, max: 506 })),
    parent: fc.oneof(fc.constantFrom(undefined, null, 999), fc.integer({ min: 1, max: most })),
    second: fc.integer({ min: 1, max: 4 }),
    day: fc.integer({ min: 0, max: 2 }),
  });
  return fc
    .array(event, { minLength: 1, maxLength: most, ...(size && { size }) })
    .map((events) => events.map((each, i) => ({ ...each, n: i + 1 })));
}

/** Every record of a data directory, by organisation and key. */
export function naiveRecords(dataDir: string): Map<string, ClinicalRecord> {
  // One at a time: an event is valid only until the next.
  const log = Array.from(storedEvents(dataDir), runEventOf);
  const records = new Map<string, ClinicalRecord>();
  for (const [organisation, events] of Map.groupBy(log, ({ event }) => event.organisation)) {
    for (const [key, record] of recordsOf(events)) records.set(`${organisation} ${key}`, record);
  }
  return records;
}

/** Every record of one organisation's events, by its key. */
export function recordsOf(log: readonly RunEvent[]): Map<RecordKey, ClinicalRecord> {
  const groups = [...groupsOf(log)];
  return new Map(groups.map(([key, { events, links }]) => [key, assembleRecord(events, links)]));
}

/** What each record of one organisation's events is made of, by its key. */
export function groupsOf(
  log: readonly RunEvent[],
): Map<RecordKey, { readonly events: RunEvent[]; readonly links: RunLinks }> {
  const runs = new Map(log.map(({ event }) => [event.eventId, event.runId]));
  const placed = placeRunless(
    log
      .filter(({ event }) => event.runId === undefined)
      .map(({ event, body }) => ({
        eventId: event.eventId,
        parentEventId: body?.parent_event_id?.toLowerCase() ?? null,
      })),
    (eventId) => runs.get(eventId),
  );
  const recordOf = (eventId: string): RecordKey | undefined => {
    const runId = runs.get(eventId);
    return runId === undefined ? placed.get(eventId) : `run:${runId}`;
  };
  const groups = Map.groupBy(log, ({ event }) => recordOf(event.eventId));
  const starts = [...groups.values()].flatMap((events) => {
    const start = inCanonicalOrder(events).find(({ event }) => event.kind === 'inference-start');
    const runId = start?.event.runId;
    return runId === undefined ? [] : [{ runId, parentEventId: start?.parentId ?? null }];
  });
  const nesting = new PlainNesting(starts, recordOf);
  const made = new Map<RecordKey, { readonly events: RunEvent[]; readonly links: RunLinks }>();
  for (const [key, events] of groups) {
    if (key !== undefined) made.set(key, { events, links: nesting.linksOf(key) });
  }
  return made;
}
