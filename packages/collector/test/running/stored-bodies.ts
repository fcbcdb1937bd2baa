/** Reads a ledger in this process: for tests that read it after every request, where the command would take 0.2 s. */
import { storedEvents } from '../store/embedded/filled-directory.js';

/** The bodies stored under each id in all organisations, in the order of arrival. Works beside a running collector. */
export function allStoredBodies(dataDir: string): Map<string, string[]> {
  const bodies = new Map<string, string[]>();
  for (const { eventId, body } of storedEvents(dataDir)) {
    const known = bodies.get(eventId);
    if (known) known.push(body.toString());
    else bodies.set(eventId, [body.toString()]);
  }
  return bodies;
}

/** The bodies stored under one id. */
export function storedBodies(dataDir: string, eventId: string): string[] {
  return allStoredBodies(dataDir).get(eventId.toLowerCase()) ?? [];
}
