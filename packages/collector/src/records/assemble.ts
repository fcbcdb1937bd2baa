/**
 * The record of a run from its events: a pure function, the same whatever order the events are handed in.
 * Each event handed in stands once in `metadata.events`; what its sender wrote stands once more where it belongs, as
 * sent, and fields that nobody named go with it. docs/EXPORTS.md, "How a record is made", has the rules in words.
 */
import type {
  Artifact,
  ClinicalRecord,
  Feedback,
  Inputs,
  ModelInstance,
  Outcome,
  Output,
  RecordedArtifact,
  RecordedEvent,
  RecordedFeedback,
  RecordedOutcome,
  RecordedOutput,
  TargetIdentity,
  UserIdentity,
} from '@clinical-events/protocol';
import { inCanonicalOrder } from './canonical-order.js';
import { UNLINKED, type RunLinks } from './nesting.js';
import { parentageOf } from './parentage.js';
import { metadataOf } from './record-metadata.js';
import { recordedEventOf } from './recorded-event.js';
import type { RunEvent } from './run-event.js';

/**
 * @param events all events of one record (membership.ts), at least one, each once. Their bodies become part of the
 *   record; neither may be changed afterwards.
 * @throws RangeError when there are none, or they are of two runs or two organisations.
 */
export function assembleRecord(events: readonly RunEvent[], links: RunLinks = UNLINKED): ClinicalRecord {
  const ordered = inCanonicalOrder(events);
  const start = ordered.find(({ event }) => event.kind === 'inference-start');
  const parentage = parentageOf(ordered);
  const recorded: RecordedEvent[] = [];
  const artifacts: RecordedArtifact[] = [];
  const outputs: RecordedOutput[] = [];
  const outcomes: RecordedOutcome[] = [];
  const feedback: RecordedFeedback[] = [];
  for (let place = 0; place < ordered.length; place++) {
    const timed = ordered[place];
    if (timed === undefined) continue;
    const entry = recordedEventOf(timed, timed === start, (parentage.parentAt[place] ?? -1) >= 0);
    recorded.push(entry);
    const { body, event } = timed;
    if (body === undefined) continue;
    const { timestamp } = body;
    const { event_id, received_at, parent_event_id, extra } = entry;
    switch (event.kind) {
      case 'internal-artifact': {
        const artifact = body['artifact'] as Artifact;
        artifacts.push({ event_id, timestamp, received_at, parent_event_id, artifact, extra });
        break;
      }
      case 'human-output': {
        const output = body['output'] as Output;
        outputs.push({ event_id, timestamp, received_at, parent_event_id, output, extra });
        break;
      }
      case 'outcome': {
        const outcome = body['outcome'] as Outcome;
        outcomes.push({ event_id, timestamp, received_at, parent_event_id, outcome, extra });
        break;
      }
      case 'user-feedback': {
        const said = body['feedback'] as Feedback;
        feedback.push({ event_id, timestamp, received_at, parent_event_id, feedback: said, extra });
        break;
      }
      case 'inference-start': // Its objects are fields of the record.
    }
  }
  const said = start?.body;
  return {
    model: (said?.['model_instance'] as ModelInstance | undefined) ?? null,
    user: (said?.['user_identity'] as UserIdentity | undefined) ?? null,
    target: (said?.['target_identity'] as TargetIdentity | undefined) ?? null,
    inputs: (said?.['inputs'] as Inputs | undefined) ?? null,
    artifacts,
    outputs,
    outcomes,
    metadata: metadataOf({ events: ordered, start, parentage, recorded, links }),
    feedback,
  };
}
