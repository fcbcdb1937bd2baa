/** Lists of entries (run-entry.ts) under the ids of events that are looked for in the log. */
import type { EventPlaces } from '../store/event-places.js';
import { ENTRY_BYTES, entryOrganisation, FLAG, isNoId, setFlag } from './run-entry.js';

type Finder = Pick<EventPlaces, 'findPassed' | 'findingOrder'>;

/**
 * Puts the id of its run in the place of that of an event, as far as the event is found and is of one; such an entry has
 * FLAG.ofRun then. An entry under no id stays.
 * @param organisations by their numbers.
 */
export function putRuns(entries: Buffer, organisations: readonly string[], log: Finder): void {
  const order = log.findingOrder({
    count: entries.length / ENTRY_BYTES,
    ids: entries,
    at: (number) => number * ENTRY_BYTES,
    organisation: (number) => organisations[entryOrganisation(entries, number * ENTRY_BYTES)] ?? '',
  });
  for (const number of order) {
    const at = number * ENTRY_BYTES;
    if (isNoId(entries, at)) continue;
    const found = log.findPassed(organisations[entryOrganisation(entries, at)] ?? '', entries, at);
    if (found === undefined || isNoId(found.runId, 0)) continue;
    entries.set(found.runId, at);
    setFlag(entries, at, FLAG.ofRun);
  }
}
