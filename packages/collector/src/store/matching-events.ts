/** The counterpart of `EventLog.scan` for a log in a database. */
import type { Cursor, EntryLog, EventFilter, StoredEntry, StoredEvent } from './contract/events.js';

export async function* matchingEvents(
  log: EntryLog,
  filter: EventFilter,
  from?: Cursor,
): AsyncGenerator<Iterable<StoredEvent>, Cursor, undefined> {
  const entries = log.entries(from);
  for (;;) {
    const next = await entries.next();
    if (next.done) return next.value;
    yield matching(next.value, filter);
  }
}

/** Entries are valid until the next one is requested. */
function* matching(entries: Iterable<StoredEntry>, filter: EventFilter): Generator<StoredEvent> {
  const { kinds, organisation, runId, eventId, since = 0, until = Infinity } = filter;
  for (const entry of entries) {
    if (!isEvent(entry) || entry.receivedAt < since || entry.receivedAt >= until) continue;
    if (kinds !== undefined && !kinds.has(entry.kind)) continue;
    if (organisation !== undefined && entry.organisation !== organisation) continue;
    if (runId !== undefined && entry.runId !== runId) continue;
    if (eventId === undefined || entry.eventId === eventId) yield entry;
  }
}

function isEvent(entry: StoredEntry): entry is StoredEvent {
  return typeof entry.kind !== 'number';
}
