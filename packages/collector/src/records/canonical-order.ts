/**
 * The canonical order of a record's events: by the sender's timestamp as an instant, then by kind (outputs
 * follow the start if a clock has whole seconds), then by event id. It does not depend on the order of
 * arrival.
 */
import { EVENT_KINDS } from '@clinical-events/protocol';
import { type Instant, compareInstants, instantOf, readInstant } from './instant.js';
import type { EventBody, RunEvent } from './run-event.js';

export interface TimedEvent<Body extends EventBody = EventBody> extends RunEvent<Body> {
  /** The time by the sender's clock; for an unreadable payload, the time of receipt. */
  readonly at: Instant;
  /** The parent in lower case; null if there is none or the payload is unreadable. */
  readonly parentId: string | null;
}

/** @returns the events, each once, in canonical order. */
export function inCanonicalOrder<Body extends EventBody>(
  events: readonly RunEvent<Body>[],
): TimedEvent<Body>[] {
  const ordered = events.map(timed);
  // Most runs are stored in canonical order, and sorting would dominate the cost.
  return ordered.every((event, i) => i === 0 || compare(ordered[i - 1] ?? event, event) <= 0)
    ? ordered
    : ordered.sort(compare);
}

function timed<Body extends EventBody>({ event, body, isReplaced }: RunEvent<Body>): TimedEvent<Body> {
  const at = body === undefined ? instantOf(event.receivedAt) : readInstant(body.timestamp);
  return { event, body, isReplaced, at, parentId: body?.parent_event_id?.toLowerCase() ?? null };
}

function compare(a: TimedEvent, b: TimedEvent): number {
  const order =
    compareInstants(a.at, b.at) || EVENT_KINDS.indexOf(a.event.kind) - EVENT_KINDS.indexOf(b.event.kind);
  if (order !== 0) return order;
  if (a.event.eventId === b.event.eventId) return 0;
  return a.event.eventId < b.event.eventId ? -1 : 1;
}

export interface Parentage {
  /** For each event, the index of its parent in the record; -1 without a parent in the record. */
  readonly parentAt: readonly number[];
  /** Indexes of events whose parent is not in the record, in order. */
  readonly outside: readonly number[];
  /** Indexes of events in a circle of parents, in order. */
  readonly cyclic: readonly number[];
}

/** @param events in canonical order. */
export function parentageOf(events: readonly TimedEvent[]): Parentage {
  const placeOf = placesIn(events);
  const parentAt: number[] = [];
  const outside: number[] = [];
  let backwards = false;
  for (let i = 0; i < events.length; i++) {
    const parentId = events[i]?.parentId ?? null;
    const place = parentId === null ? -1 : placeOf(parentId);
    if (parentId !== null && place < 0) outside.push(i);
    if (place >= i) backwards = true;
    parentAt.push(place);
  }
  // If every parent precedes its child, there is no circle.
  return { parentAt, outside, cyclic: backwards ? cyclicPlaces(parentAt) : [] };
}

/** For a few events, as in most runs, a linear search is faster than a map. */
const FEW = 8;

/** @returns a function that returns the index of an event, or -1. */
function placesIn(events: readonly TimedEvent[]): (eventId: string) => number {
  if (events.length <= FEW) return (eventId) => events.findIndex(({ event }) => event.eventId === eventId);
  const places = new Map(events.map(({ event }, place) => [event.eventId, place]));
  return (eventId) => places.get(eventId) ?? -1;
}

/** Every event has at most one parent, so a walk ends at a root, at a visited event, or in a new circle. */
function cyclicPlaces(parentAt: readonly number[]): number[] {
  const walkOf = new Array<number>(parentAt.length).fill(-1);
  const cyclic: number[] = [];
  for (let start = 0; start < parentAt.length; start++) {
    let at = start;
    while (at >= 0 && walkOf[at] === -1) {
      walkOf[at] = start;
      at = parentAt[at] ?? -1;
    }
    if (at < 0 || walkOf[at] !== start) continue;
    let next = at;
    do {
      cyclic.push(next);
      next = parentAt[next] ?? -1;
    } while (next !== at);
  }
  return cyclic.sort((a, b) => a - b);
}
