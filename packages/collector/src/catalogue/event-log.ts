/** The log as the catalogue reads it, and today's places of the store in that form. */
import type { EventPlaces, PassedEvent, ReadEvents } from '../store/event-places.js';

/** Where the driver finds an event again. `at` grows with the sequence; `size` is about how much it takes to read. */
export interface Place {
  readonly at: number;
  readonly size: number;
}

/** Where a reading goes on: the next sequence, and the driver's hint. */
export interface Cursor {
  readonly sequence: number;
  readonly at: number;
}

export const BEGINNING: Cursor = { sequence: 1, at: 0 };

/** A view of an event, valid until the next one is asked for. */
export interface PassedEntry extends Place, Omit<PassedEvent, 'address' | 'size'> {
  /** An entry of the log's own. */
  readonly isOwn: boolean;
}

export interface FoundEvent extends Place {
  /** ID_BYTES, valid until the next find; all zero when the event names no run and opens none. */
  readonly runId: Uint8Array;
}

export interface EventLog {
  /** About how much there is to read, in the unit of `Place.size`. */
  readonly extent: number;
  /** Everything that has a sequence, from the cursor on. @returns the cursor behind the last. */
  pass(from?: Cursor, options?: { readonly through?: number }): AsyncGenerator<Iterable<PassedEntry>, Cursor>;
  /** Valid until two more have been read. */
  read(places: readonly Place[]): Promise<ReadEvents>;
  /** The event of an organisation by its id, anywhere in the log. */
  find(organisation: string, id: Uint8Array): Promise<FoundEvent | undefined>;
}

const BATCH_BYTES = 1 << 20;

class PlacedEntry implements PassedEntry {
  event: PassedEvent | undefined;
  readonly isOwn = false;

  get #passed(): PassedEvent {
    if (this.event === undefined) throw new TypeError('nothing was passed');
    return this.event;
  }
  get at() {
    return this.#passed.address;
  }
  get size() {
    return this.#passed.size;
  }
  get sequence() {
    return this.#passed.sequence;
  }
  get kind() {
    return this.#passed.kind;
  }
  get organisation() {
    return this.#passed.organisation;
  }
  get receivedAt() {
    return this.#passed.receivedAt;
  }
  get source() {
    return this.#passed.source;
  }
  get eventIdAt() {
    return this.#passed.eventIdAt;
  }
  get runIdAt() {
    return this.#passed.runIdAt;
  }
  get parentIdAt() {
    return this.#passed.parentIdAt;
  }
  body() {
    return this.#passed.body();
  }
}

/** {@link EventPlaces} as an {@link EventLog}. The log's own entries are passed over. */
export class PlacesLog implements EventLog {
  #isFindable = false;

  constructor(private readonly places: EventPlaces) {}

  get extent(): number {
    return this.places.bytes;
  }

  async *pass(
    from: Cursor = BEGINNING,
    { through = Infinity }: { readonly through?: number } = {},
  ): AsyncGenerator<Iterable<PassedEntry>, Cursor> {
    const part = this.places.parts(Infinity).findLast((each) => each.from <= from.at);
    const passed = this.places.pass({ from: part?.from ?? 0, to: Infinity });
    const entry = new PlacedEntry();
    let cursor = from;
    const state = { isEnd: false };
    function* batch(): Generator<PassedEntry> {
      for (let bytes = 0; bytes < BATCH_BYTES;) {
        const next = passed.next();
        if (next.done) cursor = { sequence: Math.max(cursor.sequence, next.value), at: cursor.at };
        if (next.done || next.value.sequence > through) {
          state.isEnd = true;
          return;
        }
        entry.event = next.value;
        if (next.value.sequence < from.sequence) continue;
        cursor = { sequence: entry.sequence + 1, at: entry.at + entry.size };
        bytes += entry.size;
        yield entry;
      }
    }
    try {
      while (!state.isEnd) yield await Promise.resolve(batch());
    } finally {
      passed.return(0);
    }
    return cursor;
  }

  read(places: readonly Place[]): Promise<ReadEvents> {
    return Promise.resolve(this.places.read(places.map(({ at, size }) => ({ address: at, size }))));
  }

  find(organisation: string, id: Uint8Array): Promise<FoundEvent | undefined> {
    if (!this.#isFindable) {
      // What the id index does not cover is noted by a pass.
      const tail = this.places.pass(this.places.parts(Infinity).at(-1));
      while (tail.next().done !== true);
      this.#isFindable = true;
    }
    const found = this.places.find(organisation, Buffer.from(id), 0);
    return Promise.resolve(found && { at: found.address, size: found.size, runId: found.runId });
  }
}
