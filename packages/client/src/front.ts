/**
 * What is captured and not in the spool yet: it waits for its content to be stored, or for the spool to be opened.
 * Bounded, as what waits for the disk is: a place that does not answer must not take the memory of the application.
 */
import type { EventKind } from '@clinical-events/protocol';
import { SpoolFull } from './spool/spool.js';

/** Of events and their content. More is refused, unless there is nothing else. */
const MOST_BYTES = 32 << 20;

export interface Content {
  readonly bytes: Uint8Array;
  readonly sha256: string;
}

interface FrontEvent {
  readonly kind: EventKind;
  readonly body: Uint8Array;
  readonly content: Content | undefined;
  /** Unix time in milliseconds. */
  readonly capturedAt: number;
}

export class Front {
  bytes = 0;
  /** Oldest first. */
  readonly #events = new Set<FrontEvent>();

  get waiting(): number {
    return this.#events.size;
  }

  /** When the first of those that wait was captured. */
  get oldest(): number | undefined {
    const [first] = this.#events;
    return first?.capturedAt;
  }

  /** @throws SpoolFull */
  add(kind: EventKind, body: Uint8Array, content: Content | undefined): FrontEvent {
    const event = { kind, body, content, capturedAt: Date.now() };
    const size = sizeOf(event);
    if (this.bytes > 0 && this.bytes + size > MOST_BYTES) {
      throw new SpoolFull(
        `${MOST_BYTES} bytes wait for their content to be stored, or for the spool to open`,
      );
    }
    this.bytes += size;
    this.#events.add(event);
    return event;
  }

  remove(event: FrontEvent): void {
    if (this.#events.delete(event)) this.bytes -= sizeOf(event);
  }

  /** Oldest first; nothing waits then. */
  takeAll(): FrontEvent[] {
    const events = [...this.#events];
    this.#events.clear();
    this.bytes = 0;
    return events;
  }
}

function sizeOf({ body, content }: FrontEvent): number {
  return body.length + (content?.bytes.length ?? 0);
}
