/** A run as its sender lived it, before anything goes wrong on the way to the collector. */
import type { EventKind } from '@clinical-events/protocol';

/* The stretch of time in which the runs of a demonstration happen. Instants are milliseconds since 1970 UTC. */

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

export interface Period {
  readonly since: number;
  /** Nothing happens at this instant or later. */
  readonly until: number;
}

/** How a program writes the time. */
export type Clock = 'milliseconds' | 'microseconds' | 'wall seconds';

/** A program somewhere that sends events. */
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
  /** Left out by a sender whose inference-start names the run by its own id. */
  readonly runId: string | undefined;
  readonly parentEventId: string | null;
  /** When it happens and is sent: milliseconds since 1970. */
  readonly at: number;
  readonly sender: Sender;
  readonly latencyMs: number | undefined;
  readonly payload: Payload;
}

/** What an event is beside its payload. */
export interface Circumstances {
  readonly at: number;
  readonly sender: Sender;
  readonly parent?: string | null;
  readonly latencyMs?: number;
}

export interface ModelInstance {
  readonly model_id: string;
  readonly model_version: string;
  readonly model_card_url: string;
  readonly data_sheet_url: string;
}

/** What an inference-start says; all of it, as profile `full` asks. */
export interface Start {
  readonly model_instance: ModelInstance;
  readonly user_identity: { readonly caller_id: string; readonly caller_type: string };
  readonly target_identity: { readonly target_id: string; readonly target_type: string };
  readonly inputs: { readonly prompt?: string; readonly input_uri?: string };
}

export class PlannedRun {
  readonly runId: string;
  readonly events: PlannedEvent[] = [];

  /** @param newId gives an id that was never used. */
  constructor(
    readonly scenario: string,
    private readonly newId: () => string,
  ) {
    this.runId = newId();
  }

  /**
   * @param namedByStart the run has no id but that of this event, which does not name a run.
   * @returns the id of the event.
   */
  start(content: Start, circumstances: Circumstances, namedByStart = false): string {
    return this.#add('inference-start', { ...content }, circumstances, namedByStart);
  }

  artifact(artifact: object, circumstances: Circumstances): string {
    return this.#add('internal-artifact', { artifact }, circumstances);
  }

  output(output: object, circumstances: Circumstances): string {
    return this.#add('human-output', { output }, circumstances);
  }

  outcome(outcome: object, circumstances: Circumstances): string {
    return this.#add('outcome', { outcome }, circumstances);
  }

  feedback(feedback: object, circumstances: Circumstances): string {
    return this.#add('user-feedback', { feedback }, circumstances);
  }

  #add(kind: EventKind, payload: Payload, circumstances: Circumstances, namedByStart = false): string {
    const { at, sender, parent = null, latencyMs } = circumstances;
    const eventId = namedByStart ? this.runId : this.newId();
    this.events.push({
      kind,
      eventId,
      runId: namedByStart ? undefined : this.runId,
      parentEventId: parent,
      at: Math.round(at),
      sender,
      latencyMs: latencyMs === undefined ? undefined : Math.round(latencyMs),
      payload,
    });
    return eventId;
  }
}
