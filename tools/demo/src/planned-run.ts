/** A run as its sender makes it, before anything goes wrong on the way to the collector. */
import type { EventKind } from '@clinical-events/protocol';

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** The period of a demonstration. Instants are milliseconds since 1970 UTC. */
export interface Period {
  readonly since: number;
  /** The end, which is not part of the period. */
  readonly until: number;
}

/** How a program writes the time. */
export type Clock = 'milliseconds' | 'microseconds' | 'wall seconds';

/** A program that sends events. */
export interface Sender {
  readonly app: string;
  readonly host: string;
  readonly process: string;
  readonly clock: Clock;
}

/** The objects that an event of its kind carries, by name. */
export type Payload = Readonly<Record<string, object>>;

export interface PlannedEvent {
  readonly kind: EventKind;
  readonly eventId: string;
  /** Undefined if the inference-start names the run by its own id. */
  readonly runId: string | undefined;
  readonly parentEventId: string | null;
  /** When it happens and is sent: milliseconds since 1970. */
  readonly at: number;
  readonly sender: Sender;
  readonly latencyMs: number | undefined;
  readonly payload: Payload;
}

export interface Circumstances {
  readonly at: number;
  readonly sender: Sender;
  readonly parent: string | null;
  readonly latencyMs: number | undefined;
  /** The id of this event is the run's only id; the event does not name a run. */
  readonly namesRun: boolean;
}

export class PlannedRun {
  readonly runId: string;
  readonly events: PlannedEvent[] = [];

  /** @param newId returns a new id. */
  constructor(
    readonly scenario: string,
    private readonly newId: () => string,
  ) {
    this.runId = newId();
  }

  /** @returns the id of the event. */
  add(kind: EventKind, payload: Payload, circumstances: Circumstances): string {
    const { at, sender, parent, latencyMs, namesRun } = circumstances;
    const eventId = namesRun ? this.runId : this.newId();
    this.events.push({
      kind,
      eventId,
      runId: namesRun ? undefined : this.runId,
      parentEventId: parent,
      at: Math.round(at),
      sender,
      latencyMs: latencyMs === undefined ? undefined : Math.round(latencyMs),
      payload,
    });
    return eventId;
  }
}
