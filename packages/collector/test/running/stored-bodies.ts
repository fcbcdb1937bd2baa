/** Reads a ledger in this process: for tests that look after every request, where the command would cost 0.2 s. */
import { EventReader } from '../../src/store/embedded/event-reader.js';
import { nodeFiles } from '../../src/store/embedded/files.js';

/** The bodies stored under an id in all organisations, first come first. Good beside a running collector. */
export function storedBodies(dataDir: string, eventId: string): string[] {
  const bodies: string[] = [];
  for (const event of new EventReader(dataDir, nodeFiles).scan({})) {
    if (event.eventId === eventId.toLowerCase()) bodies.push(event.body.toString());
  }
  return bodies;
}
