/** Finds the record that an event of the log is part of, once all have been passed and placed. */
import type { EventPlaces } from '../store/event-places.js';
import type { Membership } from './membership.js';
import { ENTRY_BYTES, ID_BYTES, isNoId, writeEntry } from './run-entry.js';

export class EventRecords {
  readonly #log: Pick<EventPlaces, 'findPassed'>;
  readonly #organisations: readonly string[];
  readonly #membership: Membership;
  readonly #asked = Buffer.alloc(ENTRY_BYTES);

  /** @param membership of all events that name no run. */
  constructor(
    log: Pick<EventPlaces, 'findPassed'>,
    organisations: readonly string[],
    membership: Membership,
  ) {
    this.#log = log;
    this.#organisations = organisations;
    this.#membership = membership;
  }

  /** @returns an entry under the id of the record, valid until the next call; undefined when the log has no such event. */
  of(organisation: number, eventId: Buffer): Buffer | undefined {
    const name = this.#organisations[organisation];
    if (name === undefined || eventId.length !== ID_BYTES) return undefined;
    const found = this.#log.findPassed(name, eventId, 0);
    if (found === undefined) return undefined;
    const namesNone = isNoId(found.runId, 0);
    const id = namesNone ? eventId : found.runId;
    writeEntry(this.#asked, 0, id, 0, { address: 0, size: 0, organisation, flags: 0 });
    if (!namesNone) return this.#asked;
    const at = this.#membership.recordOf(this.#asked, 0);
    return at < 0 ? undefined : this.#membership.records.subarray(at, at + ENTRY_BYTES);
  }
}
