/** Reads the whole log and compares it with the outcome that the senders recorded for each event. */
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { DIST } from '../lib/collector.mjs';
import { FATE, Fates } from './fates.mjs';

const KEPT = 10;

/** A count with the first few examples. */
class Found {
  count = 0;
  first = [];
  add(what) {
    this.count++;
    if (this.first.length < KEPT) this.first.push(what);
  }
}

/**
 * @param senders `{ keyId, organisation }` in the order of `fates`.
 * @param fates the bytes of the {@link Fates} of each sender.
 * @returns the numbers of stored and acknowledged events, and the faults: lost, stored twice, changed, of
 * another kind or key, never sent, always refused.
 */
export async function checkLedger(dataDir, events, senders, fates) {
  const { openStore } = await import(pathToFileURL(path.join(DIST, 'store/open-to-read.js')).href);
  const known = fates.map((bytes) => Fates.of(bytes));
  const [lost, twice, changed, notSent, refused] = Array.from({ length: 5 }, () => new Found());
  let stored = 0;
  let before = 0;
  let unanswered = 0;
  const log = openStore(dataDir).events;
  for await (const batch of log.scan({})) {
    for (const event of batch) {
      stored++;
      const { eventId, sequence, kind, keyId, organisation, body } = event;
      const place = events.placeOf(eventId);
      const of = place && known[place.sender];
      const fate = of?.at(place.number) ?? 0;
      if (of === undefined || fate === 0) notSent.add(eventId);
      else if ((fate & (FATE.accepted | FATE.unanswered)) === 0) refused.add(eventId);
      else if ((fate & FATE.accepted) === 0) unanswered++;
      if ((fate & FATE.found) !== 0) twice.add(eventId);
      // The log has entries of its own between events.
      if (sequence <= before) changed.add(`${eventId} has sequence ${sequence} behind ${before}`);
      before = sequence;
      if (of === undefined) continue;
      of.note(place.number, FATE.found);
      const sender = senders[place.sender];
      const isAsSent =
        body.equals(Buffer.from(events.body(place.sender, place.number), 'latin1')) &&
        kind === events.kindOf(place.number) &&
        keyId === sender.keyId &&
        organisation === sender.organisation;
      if (!isAsSent) changed.add(eventId);
    }
  }
  await log.close();
  let acknowledged = 0;
  for (const [sender, bytes] of known.map((fate) => fate.bytes).entries()) {
    for (let number = 0; number < bytes.length; number++) {
      if ((bytes[number] & FATE.accepted) === 0) continue;
      acknowledged++;
      if ((bytes[number] & FATE.found) === 0) lost.add(events.id(sender, number));
    }
  }
  return { stored, acknowledged, unanswered, lost, twice, changed, notSent, refused };
}
