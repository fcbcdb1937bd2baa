/** Finds things in a record by event id, in the same time however many events it has. */
import type { ClinicalRecord, RecordedEvent, SecondStart } from '@clinical-events/protocol';

/** An object as it was sent; any member may be missing, or be something else than the protocol's profile `full` says. */
export type Said = Readonly<Record<string, unknown>>;

const NOTHING: Said = {};

export class RecordLookup {
  readonly record: ClinicalRecord;
  readonly #events: ReadonlyMap<string, RecordedEvent>;
  readonly #payloads = new Map<string, Said>();

  constructor(record: ClinicalRecord) {
    this.record = record;
    this.#events = new Map(record.metadata.events.map((event) => [event.event_id, event]));
    for (const { event_id, artifact } of record.artifacts) this.#payloads.set(event_id, artifact);
    for (const { event_id, output } of record.outputs) this.#payloads.set(event_id, output);
    for (const { event_id, outcome } of record.outcomes) this.#payloads.set(event_id, outcome);
    for (const { event_id, feedback } of record.feedback) this.#payloads.set(event_id, feedback);
  }

  /** @returns undefined when the event is not of this record. */
  event(eventId: string | null): RecordedEvent | undefined {
    return eventId === null ? undefined : this.#events.get(eventId);
  }

  /** The artifact, output, outcome or feedback of the event; without members when it has none, or cannot be read. */
  payload({ event_id }: RecordedEvent): Said {
    return this.#payloads.get(event_id) ?? NOTHING;
  }

  /** Under which start the event is: a second start has its own objects, an unread one has none that are known. */
  startOf({ kind, payload, second_start }: RecordedEvent): SecondStart {
    if (second_start !== undefined) return second_start;
    if (kind === 'inference-start' && payload !== undefined) return {};
    const { model, user, target, inputs } = this.record;
    return {
      ...(model !== null && { model_instance: model }),
      ...(user !== null && { user_identity: user }),
      ...(target !== null && { target_identity: target }),
      ...(inputs !== null && { inputs }),
    };
  }
}
