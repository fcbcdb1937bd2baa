/**
 * The gaps of a record, which a safety officer must close or explain: for example an inference without an
 * outcome, an event whose parent never arrived, a run without a known model.
 *
 * Only known gaps count. Only the kind of an unreadable event is known: an encrypted outcome counts as an
 * outcome, and it is unknown whether an erased start named a model.
 */
import type { Completeness, Conflict } from '@clinical-events/protocol';
import type { CallOf, Calls } from './calls.js';
import type { Parentage, TimedEvent } from './canonical-order.js';
import { compareInstants, cutTo, fractionDigits, instantOf } from './instant.js';
import { MemberName } from './json-scan.js';
import { isNumberInText } from './raw-json.js';
import { hasMember, memberIn, sentIn } from './run-event.js';

type Missing = Completeness['missing'][number];

/** Gaps that make a run impossible to understand, or that the log itself reports. */
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
 * @param start the inference-start that the record uses.
 * @param orphans ids of the events whose parent is not in the log.
 */
export function completenessOf(
  events: readonly TimedEvent[],
  start: TimedEvent | undefined,
  orphans: readonly string[],
  calls: Calls,
): Completeness {
  const missing: Missing[] = [];
  if (start === undefined) {
    missing.push('inference-start', 'model', 'user', 'target', 'inputs');
  } else if (start.body !== undefined) {
    for (const [name, field] of START_OBJECTS)
      if (sentIn(start.body, field) === undefined) missing.push(name);
  }
  let [outputs, unplaced, outcomes, feedback, unreadable, erased] = [0, 0, 0, 0, 0, 0];
  const numbersInText: string[] = [];
  for (const { event, body } of events) {
    if (body === undefined) unreadable++;
    if (event.payloadState === 'erased') erased++;
    if (calls.numbersInText.has(event.eventId)) numbersInText.push(event.eventId);
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
  return {
    level: levelOf(missing, unreadable === erased),
    missing,
    orphans,
    numbers_in_text: numbersInText,
    replaced_text: events.flatMap(({ event, isReplaced }) => (isReplaced ? [event.eventId] : [])),
  };
}

/** @param isLawful whether an action of the log destroyed each missing payload. */
function levelOf(missing: readonly Missing[], isLawful: boolean): Completeness['level'] {
  if (missing.length === 0) return 'full';
  const broken = missing.filter((piece) => BROKEN.has(piece));
  if (broken.length === 0) return 'minimum';
  return isLawful && broken.every((piece) => piece === 'payload') ? 'erased' : 'incomplete';
}

/*
 * Contradictions between the events of a record: a closed set of kinds (schemas/record.json). A conflict is
 * not resolved, and all data stays in the record: the conflict names the events, and a person decides. It has
 * ids and no payload data.
 */

/** Tolerance for timestamps later than the receipt: synchronised clocks differ by less. */
const AHEAD_TOLERANCE_MS = 5 * 60_000;

export interface Claims {
  /** The events in canonical order. */
  readonly events: readonly TimedEvent[];
  readonly parentage: Parentage;
  /** The first one follows the inference-start that the record uses. */
  readonly calls: readonly CallOf[];
  /** Ids of events whose parent belongs to another run, and that do not open a nested run. */
  readonly parentElsewhere: readonly string[];
  /** The runs in a circle of nested runs with this one. */
  readonly runCycle: readonly string[];
}

/** @returns conflicts in the order of kinds and rules in the schema; the ids of each in canonical order. */
export function conflictsOf({ events, parentage, calls, parentElsewhere, runCycle }: Claims): Conflict[] {
  const conflicts: Conflict[] = [];
  const add = (kind: Conflict['kind'], event_ids: readonly string[]) => {
    if (event_ids.length > 0) conflicts.push({ kind, event_ids });
  };
  const addDisorder = (rule: NonNullable<Conflict['rule']>, event_ids: readonly string[]) => {
    if (event_ids.length > 0) conflicts.push({ kind: 'clock_disorder', rule, event_ids });
  };
  const start = calls[0]?.start;
  const beforeStart: string[] = [];
  const beforeParent: string[] = [];
  const ahead: string[] = [];
  for (let i = 0; i < events.length; i++) {
    const timed = events[i] as TimedEvent;
    const { eventId } = timed.event;
    // An unreadable payload has no timestamp.
    if (timed.body === undefined) continue;
    if (isBefore(timed, start)) beforeStart.push(eventId);
    if (isBefore(timed, events[parentage.parentAt[i] ?? -1])) beforeParent.push(eventId);
    if (isAhead(timed)) ahead.push(eventId);
  }
  add('second_start', otherParties(calls));
  add(
    'parent_cycle',
    parentage.cyclic.map((place) => events[place]?.event.eventId ?? ''),
  );
  if (runCycle.length > 0) {
    const event_ids = start === undefined ? [] : [start.event.eventId];
    conflicts.push({ kind: 'run_cycle', event_ids, run_ids: runCycle });
  }
  add('parent_in_other_run', parentElsewhere);
  addDisorder('before_start', beforeStart);
  addDisorder('before_parent', beforeParent);
  addDisorder('ahead_of_receipt', ahead);
  return conflicts;
}

const PARTIES = [
  ['target_identity', new MemberName('target_id')],
  ['target_identity', new MemberName('target_type')],
  ['user_identity', new MemberName('caller_id')],
  ['user_identity', new MemberName('caller_type')],
] as const;

/** @returns the starts that name another target or user than the first one, by id. */
function otherParties(calls: readonly CallOf[]): string[] {
  if (calls.length < 2) return [];
  const named: (string | undefined)[] = PARTIES.map(() => undefined);
  return calls.flatMap(({ start: { body, event } }) => {
    const isOther = PARTIES.map(([object, member], i) => {
      const said = memberIn(body && sentIn(body, object), member);
      return typeof said === 'string' && said !== (named[i] ??= said);
    });
    return isOther.includes(true) ? event.eventId : [];
  });
}

/** Compared at the event's precision: 10:00:00 of a clock with whole seconds is not before 10:00:00.5. */
function isBefore({ at, body }: TimedEvent, other: TimedEvent | undefined): boolean {
  if (body === undefined || other?.body === undefined || compareInstants(at, other.at) >= 0) return false;
  return compareInstants(at, cutTo(other.at, fractionDigits(body.timestamp))) < 0;
}

function isAhead({ at, event }: TimedEvent): boolean {
  const latest = event.receivedAt + AHEAD_TOLERANCE_MS;
  // Few events are near the limit, and whole seconds rule out the others.
  return (at.seconds + 1) * 1000 >= latest && compareInstants(at, instantOf(latest)) > 0;
}
