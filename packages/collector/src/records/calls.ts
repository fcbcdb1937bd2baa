/**
 * The calls of a run: one for each inference-start. An event belongs to the call that its parents lead to, or
 * to the run only.
 */
import type { EventKind, RecordedCall, RunCall, Tokens } from '@clinical-events/protocol';
import type { Parentage, TimedEvent } from './canonical-order.js';
import { cutTo, fractionDigits, millisecondsBetween } from './instant.js';
import { MemberName } from './json-scan.js';
import { isNumberInText, numberIn } from './raw-json.js';
import { type EventBody, type Sent, hasMember, memberIn, sentIn } from './run-event.js';

/** All lists are in canonical order. */
export interface CallOf<Body extends EventBody = EventBody> {
  readonly start: TimedEvent<Body>;
  /** The events without the start. The parent of an unreadable event is unknown, so it belongs to no call. */
  readonly events: () => readonly TimedEvent<Body>[];
  /**
   * The ending that the last event of the call reports; for a run's only call, the last ending in the run.
   */
  readonly ended: RecordedCall | null;
}

export interface Calls<Body extends EventBody = EventBody> {
  readonly calls: readonly CallOf<Body>[];
  /** The ending of the last event that reports one. */
  readonly last: RecordedCall | null;
  /** All endings that count: one for each call, and the last one of events that belong to no call. */
  readonly endings: readonly RecordedCall[];
  /** Events that report an ending and have a number as text. */
  readonly numbersInText: ReadonlySet<string>;
}

const NOTHING: readonly never[] = [];
const NO_IDS: ReadonlySet<string> = new Set();
const NO_CALLS: Calls<never> = { calls: NOTHING, last: null, endings: NOTHING, numbersInText: NO_IDS };

/** @param events in canonical order. */
export function callsOf<Body extends EventBody>(
  events: readonly TimedEvent<Body>[],
  parentage: Parentage,
): Calls<Body> {
  const last = endingOf(events);
  const starts = ofKind(events, 'inference-start');
  if (starts.length === 0 && last === undefined) return NO_CALLS;
  let members: ReturnType<typeof membersOf<Body>> | undefined;
  const membersBy = (start: TimedEvent<Body> | undefined) =>
    (members ??= membersOf(events, parentage)).get(start) ?? NOTHING;
  const found: FoundEnding[] = [];
  const endedBy = (start: TimedEvent<Body> | undefined): RecordedCall | null => {
    // Most calls report no ending. If there is only one call, each ending is its own.
    const isLast =
      last === undefined ||
      starts.length < 2 ||
      membersBy(start).some(({ event }) => event.eventId === last.ended.event_id);
    const ending = isLast ? last : endingOf(membersBy(start));
    if (ending !== undefined) found.push(ending);
    return ending?.ended ?? null;
  };
  const calls = starts.map((start) => ({ start, events: () => membersBy(start), ended: endedBy(start) }));
  if (starts.length !== 1) endedBy(undefined);
  if (found.length === 0) return { calls, last: null, endings: NOTHING, numbersInText: NO_IDS };
  return {
    calls,
    last: last?.ended ?? null,
    endings: found.map(({ ended }) => ended),
    numbersInText: new Set(found.flatMap((each) => (each.hasNumberInText ? each.ended.event_id : []))),
  };
}

/** The other events by the start of their call; events without a call are under undefined. */
function membersOf<Body extends EventBody>(
  events: readonly TimedEvent<Body>[],
  { parentAt }: Parentage,
): Map<TimedEvent<Body> | undefined, TimedEvent<Body>[]> {
  const startAt = startsAt(events, parentAt);
  const of = Map.groupBy(events, (_, place) => events[startAt[place] as number]);
  // A start is in its own group.
  for (const [start, all] of of) if (start !== undefined) all.splice(all.indexOf(start), 1);
  return of;
}

const UNKNOWN = -2;

/**
 * For each event, the index of the start that its parents lead to (for a start, its own index); -1 if there
 * is none, as in a circle.
 */
function startsAt(events: readonly TimedEvent[], parentAt: readonly number[]): number[] {
  const startAt = events.map(({ event }, place) => (event.kind === 'inference-start' ? place : UNKNOWN));
  for (let place = 0; place < events.length; place++) {
    const walked: number[] = [];
    let at = place;
    // Each index is visited once; it has no start until the walk has found one.
    for (; at >= 0 && startAt[at] === UNKNOWN; at = parentAt[at] as number) {
      startAt[at] = -1;
      walked.push(at);
    }
    const start = at < 0 ? -1 : (startAt[at] as number);
    for (const each of walked) startAt[each] = start;
  }
  return startAt;
}

const NO_TOKENS: Tokens = Object.freeze({ input: null, output: null });

/** Token counts of the providers for some calls; null if there are none. */
export function tokensOf(endings: readonly RecordedCall[]): Tokens {
  if (endings.length === 0) return NO_TOKENS;
  const sum = (of: (ended: RecordedCall) => number | null) =>
    endings.reduce<number | null>(
      (sum, each) => (of(each) === null ? sum : (sum ?? 0) + Number(of(each))),
      null,
    );
  return { input: sum((each) => each.input_tokens), output: sum((each) => each.output_tokens) };
}

/** Number of failed calls. */
export function failedIn(endings: readonly RecordedCall[]): number {
  return endings.filter(({ ending }) => ending === 'failed').length;
}

/** The ids of a call's events, its start first. */
export function eventIdsOf({ event_id, artifacts, outputs, outcomes, feedback }: RunCall): readonly string[] {
  return [event_id, ...artifacts, ...outputs, ...outcomes, ...feedback];
}

/** The events of a kind in a call or a run. */
export function ofKind<Body extends EventBody>(
  events: readonly TimedEvent<Body>[],
  kind: EventKind,
): TimedEvent<Body>[] {
  return events.filter(({ event }) => event.kind === kind);
}

/**
 * Milliseconds from a start to the first output. Unknown if an output is unreadable, because it may have been
 * the first, or if the output is earlier, because then the clocks differ.
 */
export function latencyOf(start: TimedEvent | undefined, events: readonly TimedEvent[]): number | null {
  const outputs = ofKind(events, 'human-output');
  const [first] = outputs;
  if (first === undefined || start?.body === undefined) return null;
  if (outputs.some(({ body }) => body === undefined)) return null;
  // If one clock has whole seconds, both are truncated: otherwise half of all sub-second latencies would be
  // negative.
  const isCoarse = [start, first].some(({ body }) => fractionDigits(body?.timestamp ?? '') === 0);
  const [from, to] = isCoarse ? [cutTo(start.at, 0), cutTo(first.at, 0)] : [start.at, first.at];
  const latency = millisecondsBetween(from, to);
  return latency < 0 ? null : latency;
}

/*
 * The ending of a model call as an instrumentation reported it, in the form that
 * docs/reference/instrumentation.md defines for clients in all languages. Fields of an application in another
 * form are not used.
 */

export const CALL_ENDINGS: readonly RecordedCall['ending'][] = [
  'complete',
  'failed',
  'aborted',
  'cut off',
  'not read',
  'unfinished',
];
const MOST_ATTEMPTS = 2 ** 31 - 1;

const ENDING = new MemberName('ending');
const STATUS = new MemberName('status');
const ERROR_NAME = new MemberName('error_name');
const RESPONSE_MODEL = new MemberName('response_model');
const USAGE = new MemberName('usage');
const INSTRUMENTATION = new MemberName('instrumentation');

interface FoundEnding {
  readonly ended: RecordedCall;
  /** Whether one of its numbers was sent as text. */
  readonly hasNumberInText: boolean;
}

/** @param events in canonical order. @returns the last reported ending: with retries there are several. */
function endingOf(events: readonly TimedEvent[]): FoundEnding | undefined {
  for (let i = events.length - 1; i >= 0; i--) {
    const timed = events[i] as TimedEvent;
    const sent = endedIn(timed);
    // Few events have the member, and all records are searched.
    if (sent === undefined || !hasMember(sent, ENDING)) continue;
    const found = endingIn(timed, sent);
    if (found !== undefined) return found;
  }
  return undefined;
}

function endedIn({ event, body }: TimedEvent): Sent | undefined {
  if (body === undefined) return undefined;
  if (event.kind === 'internal-artifact') return sentIn(body, 'artifact');
  return event.kind === 'human-output' ? sentIn(body, 'output') : undefined;
}

function endingIn({ event, body }: TimedEvent, sent: Sent): FoundEnding | undefined {
  const ending = CALL_ENDINGS.find((each) => each === memberIn(sent, ENDING));
  const { by, attempt } = objectIn(body && sentIn(body, 'system_metadata'), INSTRUMENTATION);
  if (ending === undefined || typeof by !== 'string') return undefined;
  const { input_tokens, output_tokens } = objectIn(sent, USAGE);
  const status = memberIn(sent, STATUS);
  return {
    ended: {
      event_id: event.eventId,
      by,
      ending,
      attempts: wholeIn(attempt, 1, MOST_ATTEMPTS) ?? 1,
      status: wholeIn(status, 100, 599),
      error_name: textIn(memberIn(sent, ERROR_NAME)),
      response_model: textIn(memberIn(sent, RESPONSE_MODEL)),
      input_tokens: countIn(input_tokens),
      output_tokens: countIn(output_tokens),
    },
    hasNumberInText: [attempt, status, input_tokens, output_tokens].some(isNumberInText),
  };
}

function objectIn(sent: Sent | undefined, name: MemberName): Readonly<Record<string, unknown>> {
  const value = memberIn(sent, name);
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}

function textIn(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

function wholeIn(value: unknown, least: number, most: number): number | null {
  const number = numberIn(value);
  return number !== undefined && Number.isInteger(number) && number >= least && number <= most
    ? number
    : null;
}

function countIn(value: unknown): number | null {
  const number = numberIn(value);
  return number !== undefined && number >= 0 ? number : null;
}
