/** A log with many events. It is kept if the caller names its directory. */
import path from 'node:path';
import fs from 'node:fs';
import { Child, temporaryDirectory } from './children.mjs';
import { createKey } from './collector.mjs';
import { bytesOnDisk, requireRoom } from './disk.mjs';
import { EVENT_BYTES } from './event.mjs';
import { gibibytes, whole } from './numbers.mjs';

export const FILLER = path.resolve(import.meta.dirname, '../fill.mjs');
/** Bytes of frame and index entry besides the body. */
const BYTES_BESIDE = 200;
/** Free space for the events that the measurements add. */
const ROOM_LEFT = 3 * 2 ** 30;

/** Resolves with the directory, an API key, and the numbers of the fill. */
export async function filledLedger({ options, say }) {
  const directory = options.dataDir ?? temporaryDirectory(options.scratch, 'filled');
  fs.mkdirSync(directory, { recursive: true });
  const wanted = options.events * (EVENT_BYTES + BYTES_BESIDE);
  requireRoom(directory, Math.max(0, wanted - bytesOnDisk(directory)) + ROOM_LEFT);
  const { key, key_id: keyId } = await createKey(directory);
  say(`filling the ledger to ${whole(options.events)} events`);
  const child = new Child('the filler', process.execPath, [
    ...[FILLER, directory, `${options.events}`, keyId],
    ...(options.encrypted ? ['--encrypted'] : []),
  ]);
  child.onLine((stream, line) => {
    if (stream === 'stderr') say(line);
  });
  const filled = await child.json('stdout', (value) => 'events' in value);
  const code = await child.exited;
  if (code !== 0) throw new Error(`the filler ended with ${code}`);
  const diskBytes = bytesOnDisk(directory);
  say(`it holds ${whole(filled.events)} events in ${gibibytes(diskBytes)} GiB`);
  return { directory, key, filled: { ...filled, diskBytes } };
}
