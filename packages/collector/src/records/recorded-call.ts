/**
 * How the call of a model ended, as an instrumentation of its library told it: the form that docs/CLIENT_SPEC.md,
 * "Instrumentation", sets for clients in all languages. What an application says by itself is not taken for it.
 */
import type { RecordedCall } from '@clinical-events/protocol';
import type { TimedEvent } from './canonical-order.js';
import { hasMember, memberIn, sentIn, type Sent } from './event-body.js';
import { MemberName } from './json-scan.js';
import { isNumberInText, numberIn } from './raw-json.js';

export const CALL_ENDINGS: readonly RecordedCall['ending'][] = [
  'complete',
  'failed',
  'aborted',
  'cut off',
  'not read',
];
const MOST_ATTEMPTS = 2 ** 31 - 1;

const ENDING = new MemberName('ending');
const STATUS = new MemberName('status');
const ERROR_NAME = new MemberName('error_name');
const RESPONSE_MODEL = new MemberName('response_model');
const USAGE = new MemberName('usage');
const INSTRUMENTATION = new MemberName('instrumentation');

export interface FoundCall {
  readonly call: RecordedCall;
  /** Whether one of its numbers was sent as a text. */
  readonly hasNumberInText: boolean;
}

/** @param events in canonical order. @returns the last of them that tells of an ending: with retries there are several. */
export function callOf(events: readonly TimedEvent[]): FoundCall | undefined {
  for (let i = events.length - 1; i >= 0; i--) {
    const timed = events[i] as TimedEvent;
    const sent = endedIn(timed);
    // Hardly an event has the member, and all records are looked through.
    if (sent === undefined || !hasMember(sent, ENDING)) continue;
    const found = callIn(timed, sent);
    if (found !== undefined) return found;
  }
  return undefined;
}

function endedIn({ event, body }: TimedEvent): Sent | undefined {
  if (body === undefined) return undefined;
  if (event.kind === 'internal-artifact') return sentIn(body, 'artifact');
  return event.kind === 'human-output' ? sentIn(body, 'output') : undefined;
}

function callIn({ event, body }: TimedEvent, sent: Sent): FoundCall | undefined {
  const ending = CALL_ENDINGS.find((each) => each === memberIn(sent, ENDING));
  const { by, attempt } = objectIn(body && sentIn(body, 'system_metadata'), INSTRUMENTATION);
  if (ending === undefined || typeof by !== 'string') return undefined;
  const { input_tokens, output_tokens } = objectIn(sent, USAGE);
  const status = memberIn(sent, STATUS);
  return {
    call: {
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
