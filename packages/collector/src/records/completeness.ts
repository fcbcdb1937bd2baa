/**
 * What a record lacks: the gaps that a safety officer has to close or explain. An inference whose outcome was never
 * reported, an event that hangs on one which never came, a run of which nobody knows the model.
 *
 * Only what is known to be missing is called missing. Of a payload that cannot be read, nothing is known but its kind:
 * an outcome that was encrypted is an outcome, and whether the model was named in a retired start is not known.
 */
import type { Completeness } from '@clinical-events/protocol';
import type { TimedEvent } from './canonical-order.js';
import { MemberName } from './json-scan.js';
import { hasMember, memberIn, sentIn } from './event-body.js';
import { isNumberInText } from './raw-json.js';
import type { FoundCall } from './recorded-call.js';

type Missing = Completeness['missing'][number];

/** Without these nobody can say what the run was, or the log itself says that a part of it is not there. */
const BROKEN: ReadonlySet<Missing> = new Set<Missing>(['inference-start', 'parent', 'payload']);

const OUTPUT_URI = new MemberName('output_uri');
const RATING = new MemberName('rating_value');
const START_OBJECTS = [
  ['model', 'model_instance'],
  ['user', 'user_identity'],
  ['target', 'target_identity'],
  ['inputs', 'inputs'],
] as const;

/**
 * @param start the inference-start that the record follows.
 * @param orphans ids of the events whose parent is not in the log.
 * @param found how the call of the model ended.
 */
export function completenessOf(
  events: readonly TimedEvent[],
  start: TimedEvent | undefined,
  orphans: readonly string[],
  found?: FoundCall,
): Completeness {
  const missing: Missing[] = [];
  if (start === undefined) {
    missing.push('inference-start', 'model', 'user', 'target', 'inputs');
  } else if (start.body !== undefined) {
    for (const [name, field] of START_OBJECTS)
      if (sentIn(start.body, field) === undefined) missing.push(name);
  }
  let [outputs, unplaced, outcomes, feedback, unreadable] = [0, 0, 0, 0, 0];
  const numbersInText: string[] = [];
  for (const { event, body } of events) {
    if (body === undefined) unreadable++;
    if (found?.hasNumberInText === true && found.call.event_id === event.eventId)
      numbersInText.push(event.eventId);
    if (event.kind === 'outcome') outcomes++;
    else if (event.kind === 'user-feedback') {
      feedback++;
      if (body !== undefined && isNumberInText(memberIn(sentIn(body, 'feedback'), RATING)))
        numbersInText.push(event.eventId);
    } else if (event.kind === 'human-output') {
      outputs++;
      if (body !== undefined && !hasMember(sentIn(body, 'output'), OUTPUT_URI)) unplaced++;
    }
  }
  if (outputs === 0) missing.push('output');
  else if (unplaced === outputs) missing.push('output_uri');
  if (outcomes === 0) missing.push('outcome');
  if (feedback === 0) missing.push('feedback');
  if (orphans.length > 0) missing.push('parent');
  if (unreadable > 0) missing.push('payload');
  return { level: levelOf(missing), missing, orphans, numbers_in_text: numbersInText };
}

function levelOf(missing: readonly Missing[]): Completeness['level'] {
  if (missing.length === 0) return 'full';
  return missing.some((piece) => BROKEN.has(piece)) ? 'incomplete' : 'minimum';
}
