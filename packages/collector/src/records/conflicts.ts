/**
 * What the events of a record say against each other: a closed set of kinds (schemas/record.json). Nothing is settled
 * here, and nothing is left out of the record for it: a conflict names the events, and a person decides. It holds ids
 * and nothing of a payload.
 */
import type { Conflict } from '@clinical-events/protocol';
import type { TimedEvent } from './canonical-order.js';
import { compareInstants, cutTo, fractionDigits, instantOf } from './instant.js';
import type { Parentage } from './parentage.js';

/** How much later than its receipt an event may claim to be: clocks that are kept are never that far apart. */
const AHEAD_TOLERANCE_MS = 5 * 60_000;

export interface Claims {
  /** In canonical order. */
  readonly events: readonly TimedEvent[];
  readonly parentage: Parentage;
  /** The inference-start that the record follows. */
  readonly start: TimedEvent | undefined;
  /** Ids of events whose parent is of another run, and that do not open a nested run by it. */
  readonly parentElsewhere: readonly string[];
  /** The runs that are nested in each other in a circle with this one. */
  readonly runCycle: readonly string[];
}

/** @returns in the order of the kinds and rules in the schema; the ids of each in canonical order. */
export function conflictsOf({ events, parentage, start, parentElsewhere, runCycle }: Claims): Conflict[] {
  const conflicts: Conflict[] = [];
  const add = (kind: Conflict['kind'], event_ids: readonly string[]) => {
    if (event_ids.length > 0) conflicts.push({ kind, event_ids });
  };
  const addDisorder = (rule: NonNullable<Conflict['rule']>, event_ids: readonly string[]) => {
    if (event_ids.length > 0) conflicts.push({ kind: 'clock_disorder', rule, event_ids });
  };
  const secondStarts: string[] = [];
  const beforeStart: string[] = [];
  const beforeParent: string[] = [];
  const ahead: string[] = [];
  for (let i = 0; i < events.length; i++) {
    const timed = events[i] as TimedEvent;
    const { eventId } = timed.event;
    if (timed.event.kind === 'inference-start' && timed !== start) secondStarts.push(eventId);
    // What cannot be read claims no time.
    if (timed.body === undefined) continue;
    if (isBefore(timed, start)) beforeStart.push(eventId);
    if (isBefore(timed, events[parentage.parentAt[i] ?? -1])) beforeParent.push(eventId);
    if (isAhead(timed)) ahead.push(eventId);
  }
  add('second_start', secondStarts);
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

/** Compared to the digits that the event has: 10:00:00 of a clock of whole seconds is not before 10:00:00.5. */
function isBefore({ at, body }: TimedEvent, other: TimedEvent | undefined): boolean {
  if (body === undefined || other?.body === undefined || compareInstants(at, other.at) >= 0) return false;
  return compareInstants(at, cutTo(other.at, fractionDigits(body.timestamp))) < 0;
}

function isAhead({ at, event }: TimedEvent): boolean {
  const latest = event.receivedAt + AHEAD_TOLERANCE_MS;
  // Hardly an event comes near it, and whole seconds tell so.
  return (at.seconds + 1) * 1000 >= latest && compareInstants(at, instantOf(latest)) > 0;
}
