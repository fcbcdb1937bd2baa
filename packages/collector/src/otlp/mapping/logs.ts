/** Maps one log record to events: artifacts of the run, made from the record alone, never an output. */
import { evaluationOf, nameOf, parsedContent, userOf } from '@clinical-events/protocol/spans';
import type { DecodedLog } from '../decoded.js';
import { evaluated } from './evaluations.js';
import { logEventId } from './ids.js';
import { makeEvent } from './made-event.js';
import { type Mapped, type MappingOptions, none } from './mapped.js';
import { instant, originOf, ownRunOf, timestampOf } from './origin.js';

const EVALUATION = 'gen_ai.evaluation.result';
const WORDS = /^gen_ai\.(?:client\.inference\.operation\.details|choice|\w+\.message)$/;
/** The attributes that hold content. */
const CONTENTS = {
  input_messages: 'gen_ai.input.messages',
  output_messages: 'gen_ai.output.messages',
  system_instructions: 'gen_ai.system_instructions',
};

export function eventsOfLog(log: DecodedLog, options: MappingOptions): Mapped {
  const { eventName, time } = log;
  if (eventName !== EVALUATION && !WORDS.test(eventName)) return none('not_about_models');
  if (log.traceId === '' && ownRunOf(log) === undefined) return none('no_trace_id');
  const origin = originOf(log, options.organisation);
  // The resource is left out, because an intermediate collector may extend it.
  const all = { ...log, time: String(time), resource: undefined };
  const eventId = logEventId(options.organisation, all);
  const at = instant(time);
  const { kind, payload } =
    eventName === EVALUATION ? evaluation(log, options, eventId) : words(log, eventId);
  const times = at === undefined && { times: 'none' };
  const event = makeEvent(
    {
      ...{ kind, eventId, payload, timestamp: timestampOf(at ?? 0n) },
      ...{ runId: origin.runId, source: origin.source },
      instrumentation: { ...origin.instrumentation, ...times, log_record: eventName },
    },
    options.maxEventBytes,
  );
  return { events: [event] };
}

function evaluation({ attributes }: DecodedLog, { outcomes }: MappingOptions, eventId: string) {
  const { kind, members } = evaluated(evaluationOf(attributes), outcomes);
  if (kind === 'outcome') return { kind, payload: { outcome: members } };
  if (kind !== 'user-feedback')
    return { kind, payload: { artifact: { artifact_uri: `urn:uuid:${eventId}`, ...members } } };
  const user = userOf(attributes);
  return {
    kind,
    payload: { feedback: members, user_identity: user === undefined ? undefined : { caller_id: user } },
  };
}

function words({ attributes, eventName, body }: DecodedLog, eventId: string) {
  const contents = Object.entries(CONTENTS).map(
    ([name, said]) => [name, parsedContent(attributes[said])] as const,
  );
  const artifact = {
    ...{ artifact_type: 'other', artifact_uri: `urn:uuid:${eventId}` },
    description: 'Data of a call from a log record.',
    event_name: eventName,
    operation: nameOf(attributes['gen_ai.operation.name']),
    model: nameOf(attributes['gen_ai.request.model']),
    provider: nameOf(attributes['gen_ai.provider.name'] ?? attributes['gen_ai.system']),
    ...Object.fromEntries(contents),
    body: parsedContent(body ?? undefined),
  };
  return { kind: 'internal-artifact' as const, payload: { artifact } };
}
