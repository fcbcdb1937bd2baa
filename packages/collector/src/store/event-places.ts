/**
 * Where events stand in the log, and how they are found and read there again: for readers that go through the log
 * once, note in a few bytes what they need of each event, and come back for the bodies.
 */
import type { EventKind } from '@clinical-events/protocol';
import type { StoredEvent } from './store.js';

/** Bytes of the log. A place stays the same as long as the ledger lives. */
export interface EventPlace {
  readonly address: number;
  readonly size: number;
}

/** An event that a pass has come to. The same object for each, valid until the next is asked for. */
export interface PassedEvent extends EventPlace {
  readonly sequence: number;
  readonly kind: EventKind;
  readonly organisation: string;
  readonly receivedAt: number;
  /** Holds the ids, ID_BYTES each. */
  readonly source: Buffer;
  readonly eventIdAt: number;
  /** All zero when the event names no run and opens none. */
  readonly runIdAt: number;
  /** The event with all that it says. */
  decode(): StoredEvent;
}

export const ID_BYTES = 16;

/** Where an event is that was looked for. */
export interface FoundEvent extends EventPlace {
  /** Lower-case text form; undefined when it names no run and opens none. */
  readonly runId: string | undefined;
}

export interface EventPlaces {
  /** How much there is to pass, about: a running collector adds to it. */
  readonly bytes: number;
  /**
   * Passes every event once, in the order of their sequences, each checked against its checksum.
   * @returns the sequence behind the last one.
   * @throws StoreDamaged at the first place that does not hold what was written.
   */
  pass(): Generator<PassedEvent, number>;
  /**
   * Reads events again, each checked once more. Neighbours are read with one call.
   * @param places by address.
   * @param take is told of each event, in that order, with its place in `places`; the event is valid only then.
   * @throws StoreDamaged.
   */
  read(places: readonly EventPlace[], take: (event: StoredEvent, index: number) => void): void;
  /**
   * Finds an event among those passed. Ask only after a pass has ended.
   * @param eventId lower-case text form.
   */
  find(organisation: string, eventId: string): FoundEvent | undefined;
  close(): Promise<void>;
}
