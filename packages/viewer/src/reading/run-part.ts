/**
 * The part of a run that one page shows. Contents of its other events do not leave the thread, so that a page
 * is made in a bounded time however large the run is.
 */
import type { ClinicalRecord } from '@clinical-events/protocol';

/** Most events of a part. */
export const PART_EVENTS = 500;
/** A part ends before the event that would exceed this, and has at least one event. */
const PART_CHARACTERS = 1 << 20;

export interface RunPart {
  /** The number of its first event, from 0, and of the first event after it. */
  readonly from: number;
  readonly until: number;
}

/** @param from the number of the first event; the last event if it is too high. */
export function partOf(
  whole: ClinicalRecord,
  from: number,
): { readonly record: ClinicalRecord; readonly part: RunPart } {
  const { metadata, ...record } = whole;
  const { artifacts, outputs, outcomes, feedback } = record;
  const { events, calls } = metadata;
  const contents = new Map<string, unknown>(
    [...artifacts, ...outputs, ...outcomes, ...feedback, ...calls].map((each) => [each.event_id, each]),
  );
  const first = Math.max(0, Math.min(from, events.length - 1));
  const shown = new Set<string>();
  let characters = 0;
  for (const event of events.slice(first, first + PART_EVENTS)) {
    characters += JSON.stringify([event, contents.get(event.event_id)]).length;
    if (characters > PART_CHARACTERS && shown.size > 0) break;
    shown.add(event.event_id);
  }
  const part = { from: first, until: first + shown.size };
  if (shown.size === events.length) return { part, record: whole };
  const isShown = ({ event_id: id }: { readonly event_id: string }) => shown.has(id);
  return {
    part,
    record: {
      ...record,
      inputs: null,
      artifacts: artifacts.filter(isShown),
      outputs: outputs.filter(isShown),
      outcomes: outcomes.filter(isShown),
      feedback: feedback.filter(isShown),
      metadata: {
        ...metadata,
        calls: calls.map((call) =>
          isShown(call) ? call : { ...call, inputs: null, user: null, target: null },
        ),
        events: events.map((event) =>
          isShown(event) ? event : { ...event, system_metadata: null, extra: {} },
        ),
      },
    },
  };
}
