/** When a run and its events were, by the clock that a report counts by. */
import type { ClinicalRecord, RecordedEvent } from '@clinical-events/protocol';
import type { AssembledRun } from '../assemble.js';
import { epochMilliseconds, readInstant } from '../instant.js';
import { DAY_MS } from './period-steps.js';

/**
 * received: when the collector had an event. sender: the timestamp that the event has, which is what is left of the
 * past where events came by an import; for a payload that cannot be read, when the collector had it.
 */
export const CLOCKS = ['received', 'sender'] as const;
export type Clock = (typeof CLOCKS)[number];

/** Milliseconds since 1970. */
export interface RunMoments {
  /** Of each event of the record, in its order. */
  readonly events: readonly number[];
  /** By the sender's clock that of the inference-start; else, or without one, that of the earliest event. */
  readonly began: number;
  /** Of the earliest outcome; undefined when there is none. */
  readonly outcome: number | undefined;
}

export function momentsOf({ metadata }: ClinicalRecord, clock: Clock): RunMoments {
  const events: number[] = [];
  let began = Infinity;
  let start: number | undefined;
  let outcome: number | undefined;
  for (const event of metadata.events) {
    const at = momentOf(event, clock);
    events.push(at);
    if (at < began) began = at;
    if (event.kind === 'inference-start') start ??= at;
    else if (event.kind === 'outcome' && (outcome === undefined || at < outcome)) outcome = at;
  }
  return { events, began: clock === 'sender' ? (start ?? began) : began, outcome };
}

/** When a record began by the sender's clock, as {@link momentsOf} says. */
export function beganBySender({ start, metadata }: AssembledRun): number {
  const first = start ?? metadata.events[0];
  return first === undefined ? NaN : epochMilliseconds(first.at);
}

function momentOf({ timestamp, received_at }: RecordedEvent, clock: Clock): number {
  return epochMilliseconds(readInstant(clock === 'sender' ? (timestamp ?? received_at) : received_at));
}

/** Whether the two clocks put an event more than a day apart; undefined where its payload cannot be read. */
export function areClocksApart(event: RecordedEvent): boolean | undefined {
  if (event.timestamp === null) return undefined;
  return Math.abs(momentOf(event, 'received') - momentOf(event, 'sender')) > DAY_MS;
}
