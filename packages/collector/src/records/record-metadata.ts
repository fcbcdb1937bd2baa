/** Where a record comes from: its ids, clocks and versions, what is missing in it and what is contradictory. */
import type { RecordMetadata } from '@clinical-events/protocol';
import type { TimedEvent } from './canonical-order.js';
import { completenessOf } from './completeness.js';
import { conflictsOf } from './conflicts.js';
import { cutTo, fractionDigits, millisecondsBetween, utcText } from './instant.js';
import type { Parentage } from './parentage.js';
import { callOf } from './recorded-call.js';

/** What a record says of itself, but for its single events. */
export type RunMetadata = {
  // Omit would forget the names: the interface has an index signature.
  readonly [
    Name in keyof RecordMetadata as string extends Name ? never : Name extends 'events' ? never : Name
  ]: RecordMetadata[Name];
};

/** What a record has to know of the rest of the log. Ids in lower case. */
export interface RunLinks {
  /**
   * Where an event is that is not of this record: its run, or null when it is of no run.
   * @returns undefined when the log has no such event.
   */
  parentRunOf(eventId: string): string | null | undefined;
  /** The runs that are nested in this record, each once. */
  readonly children: readonly string[];
  /** The runs of the circle that this run is part of; empty when it is nested properly or not at all. */
  readonly cycle: readonly string[];
}

/** For a record whose events name no event outside it, and that no run is nested in. */
export const UNLINKED: RunLinks = { parentRunOf: () => undefined, children: [], cycle: [] };

export interface RecordParts {
  /** In canonical order. */
  readonly events: readonly TimedEvent[];
  /** The inference-start that the record follows: the first. */
  readonly start: TimedEvent | undefined;
  readonly parentage: Parentage;
  readonly links: RunLinks;
}

/** @throws RangeError when there are no events, or they are of two runs or two organisations. */
export function metadataOf({ events, start, parentage, links }: RecordParts): RunMetadata {
  const { organisation, runId } = oneRecord(events);
  const { parent, orphans, elsewhere } = outsideOf(events, start, parentage, links);
  const found = callOf(events);
  return {
    record_id: runId ?? rootOf(events, parentage),
    run_id: runId ?? null,
    organisation,
    parent,
    children: [...links.children].sort(),
    ...spanOf(events),
    latency_ms: latencyOf(events, start),
    call: found?.call ?? null,
    completeness: completenessOf(events, start, orphans, found),
    conflicts: conflictsOf({
      events,
      parentage,
      start,
      parentElsewhere: elsewhere,
      runCycle: links.cycle,
    }),
  };
}

function oneRecord(events: readonly TimedEvent[]): { organisation: string; runId: string | undefined } {
  const organisation = events[0]?.event.organisation;
  if (organisation === undefined) throw new RangeError('a record is made of at least one event');
  let runId: string | undefined;
  for (const { event } of events) {
    if (event.organisation !== organisation) throw new RangeError('events of two organisations');
    if (event.runId === undefined || event.runId === runId) continue;
    if (runId !== undefined) throw new RangeError('events of two runs');
    runId = event.runId;
  }
  return { organisation, runId };
}

/** The event that the others of a record without a run hang on; in a circle, the smallest id (catalogue/batch-records.ts). */
function rootOf(events: readonly TimedEvent[], { parentAt, cyclic }: Parentage): string {
  const places = cyclic.length > 0 ? cyclic : [parentAt.indexOf(-1)];
  const [root] = places.map((place) => events[place]?.event.eventId ?? '').sort();
  return root ?? '';
}

/** What there is to say of parents that are not of this record. */
function outsideOf(
  events: readonly TimedEvent[],
  start: TimedEvent | undefined,
  { outside }: Parentage,
  links: RunLinks,
): Pick<RecordMetadata, 'parent'> & { orphans: string[]; elsewhere: string[] } {
  let parent: RecordMetadata['parent'] = null;
  const orphans: string[] = [];
  const elsewhere: string[] = [];
  for (const place of outside) {
    const timed = events[place];
    if (timed === undefined || timed.parentId === null) continue;
    const run = links.parentRunOf(timed.parentId);
    if (run === undefined) orphans.push(timed.event.eventId);
    if (timed === start) parent = { run_id: run ?? null, event_id: timed.parentId };
    else if (typeof run === 'string') elsewhere.push(timed.event.eventId);
  }
  return { parent, orphans, elsewhere };
}

type Span = Pick<
  RecordMetadata,
  'protocol_versions' | 'first_timestamp' | 'last_timestamp' | 'first_received_at' | 'last_received_at'
>;

/** Between which times, by either clock, and in which versions of the protocol the events were sent. */
function spanOf(events: readonly TimedEvent[]): Span {
  const versions = new Set<string>();
  let version: string | null = null;
  let firstTimestamp: string | null = null;
  let lastTimestamp: string | null = null;
  let [firstReceived, lastReceived] = [Infinity, -Infinity];
  for (const { event, body } of events) {
    const { timestamp = null, protocol_version = null } = body ?? {};
    firstTimestamp ??= timestamp;
    lastTimestamp = timestamp ?? lastTimestamp;
    if (protocol_version !== null && protocol_version !== version) versions.add(protocol_version);
    version = protocol_version;
    firstReceived = Math.min(firstReceived, event.receivedAt);
    lastReceived = Math.max(lastReceived, event.receivedAt);
  }
  return {
    protocol_versions: [...versions].sort(),
    first_timestamp: firstTimestamp,
    last_timestamp: lastTimestamp,
    first_received_at: utcText(firstReceived),
    last_received_at: utcText(lastReceived),
  };
}

/**
 * From the start to the first output. Not known when an output cannot be read: it may have been the first; nor when
 * the output is the earlier one: that is no latency but two clocks.
 */
function latencyOf(events: readonly TimedEvent[], start: TimedEvent | undefined): number | null {
  const outputs = events.filter(({ event }) => event.kind === 'human-output');
  const [first] = outputs;
  if (first === undefined || start?.body === undefined) return null;
  if (outputs.some(({ body }) => body === undefined)) return null;
  // Where one clock tells whole seconds, both are taken so: half of all sub-second latencies would else be negative.
  const isCoarse = [start, first].some(({ body }) => fractionDigits(body?.timestamp ?? '') === 0);
  const [from, to] = isCoarse ? [cutTo(start.at, 0), cutTo(first.at, 0)] : [start.at, first.at];
  const latency = millisecondsBetween(from, to);
  return latency < 0 ? null : latency;
}
