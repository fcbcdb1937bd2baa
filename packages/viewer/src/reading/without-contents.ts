/**
 * A record without anything that a sender wrote, except times, the model's name and version, and the words of
 * endings. Members are listed one by one, so that a new member of a record does not appear by itself.
 */
import type {
  ClinicalRecord,
  ModelInstance,
  RecordedCall,
  RecordedEvent,
  RunCall,
} from '@clinical-events/protocol';
import type { RunSummary } from '@clinical-events/collector/catalogue/catalogue';

export function withoutContents({ metadata, ...record }: ClinicalRecord): ClinicalRecord {
  return {
    model: modelOnly(record.model),
    ...{ user: null, target: null, inputs: null },
    artifacts: record.artifacts.map((each) => ({
      ...placeOf(each),
      artifact: {} as (typeof each)['artifact'],
      extra: {},
    })),
    outputs: record.outputs.map((each) => ({ ...placeOf(each), output: {}, extra: {} })),
    outcomes: record.outcomes.map((each) => ({ ...placeOf(each), outcome: {}, extra: {} })),
    metadata: {
      ...idsAndTimesOf(metadata),
      call: endingOnly(metadata.call),
      calls: metadata.calls.map(callOnly),
      tokens: { input: metadata.tokens.input, output: metadata.tokens.output },
      completeness: completenessOnly(metadata.completeness),
      conflicts: metadata.conflicts.map(({ kind, rule, event_ids, run_ids }) => ({
        ...{ kind, event_ids },
        ...(rule !== undefined && { rule }),
        ...(run_ids !== undefined && { run_ids }),
      })),
      events: metadata.events.map(eventOnly),
    },
    feedback: record.feedback.map((each) => ({ ...placeOf(each), feedback: {}, extra: {} })),
  };
}

/** The same for the summary: without persons. */
export function summaryWithoutPersons(summary: RunSummary): RunSummary {
  return { ...summary, userId: null, targetId: null };
}

interface Placed {
  readonly event_id: string;
  readonly timestamp: string;
  readonly received_at: string;
  readonly parent_event_id: string | null;
}

function placeOf({ event_id, timestamp, received_at, parent_event_id }: Placed): Placed {
  return { event_id, timestamp, received_at, parent_event_id };
}

function modelOnly(model: ModelInstance | null): ModelInstance | null {
  if (model === null) return null;
  const { model_id, model_version } = model;
  return {
    ...(typeof model_id === 'string' && { model_id }),
    ...(typeof model_version === 'string' && { model_version }),
  };
}

/** `by` and `error_name` are texts of an instrumentation. */
function endingOnly(call: RecordedCall | null): RecordedCall | null {
  if (call === null) return null;
  const { event_id, ending, attempts, status, response_model, input_tokens, output_tokens } = call;
  return {
    ...{ event_id, by: '', ending, attempts, status, error_name: null },
    ...{ response_model, input_tokens, output_tokens },
  };
}

function callOnly(call: RunCall): RunCall {
  const { event_id, timestamp, received_at, parent_event_id, latency_ms } = call;
  const { artifacts, outputs, outcomes, feedback } = call;
  return {
    ...{ event_id, timestamp, received_at, parent_event_id },
    ...{ model: modelOnly(call.model), user: null, target: null, inputs: null },
    ...{ artifacts, outputs, outcomes, feedback, ended: endingOnly(call.ended), latency_ms },
  };
}

function completenessOnly({
  level,
  missing,
  orphans,
  numbers_in_text,
  replaced_text,
}: ClinicalRecord['metadata']['completeness']): ClinicalRecord['metadata']['completeness'] {
  return { level, missing, orphans, numbers_in_text, replaced_text };
}

function idsAndTimesOf(metadata: ClinicalRecord['metadata']) {
  const { record_id, run_id, organisation, parent, children, protocol_versions, latency_ms } = metadata;
  const { first_timestamp, last_timestamp, first_received_at, last_received_at } = metadata;
  return {
    ...{ record_id, run_id, organisation, children, protocol_versions, latency_ms },
    parent: parent === null ? null : { run_id: parent.run_id, event_id: parent.event_id },
    ...{ first_timestamp, last_timestamp, first_received_at, last_received_at },
  };
}

function eventOnly(event: RecordedEvent): RecordedEvent {
  const { event_id, kind, sequence, timestamp, received_at, parent_event_id, joined_by } = event;
  const { protocol_version, key_id, profile, door, payload, action, erased_at } = event;
  return {
    ...{ event_id, kind, sequence, timestamp, received_at, parent_event_id, joined_by },
    ...{ protocol_version, system_metadata: null, key_id, profile, door, extra: {} },
    ...(payload !== undefined && { payload }),
    ...(action !== undefined && { action }),
    ...(erased_at !== undefined && { erased_at }),
  };
}
