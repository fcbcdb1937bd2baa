/** Segments on a disk in memory, made by a spool, and the result of another spool that reads them. */
import { expect } from 'vitest';
import { openSpool } from '../../src/spool/disk-spool.js';
import type { SpooledEvent, SpoolOptions } from '../../src/spool/spool.js';
import { MemoryDisk } from './memory-disk.js';

export const ROOT = '/spool';
const DAMAGED = '/spool/damaged';

export const textOf = (event: { body: Uint8Array }) => Buffer.from(event.body).toString();

/** The segment of a spool that was closed, or else killed, with these events in it. */
export async function segmentWith(
  texts: readonly string[],
  how: 'closed' | 'killed',
  options: Partial<SpoolOptions> = {},
): Promise<{ name: string; bytes: Buffer }> {
  const disk = new MemoryDisk();
  const process = disk.process();
  const spool = await openSpool({ directory: ROOT, durability: 'os', files: process.files, ...options });
  for (const text of texts) await spool.append('outcome', Buffer.from(text));
  if (how === 'killed') process.end();
  await spool.close();
  const [file = ''] = disk.files(ROOT, '.segment');
  return { name: file.slice(-40, -8), bytes: Buffer.from(disk.bytesOf(file)) };
}

/** Aborts once a disk in memory has had time for all answers. */
function soon(): AbortSignal {
  const controller = new AbortController();
  setImmediate(() => setImmediate(() => controller.abort()));
  return controller.signal;
}

interface Found {
  readonly texts: string[];
  readonly troubles: string[];
  /** The files that were put aside, by name. */
  readonly damaged: Map<string, Buffer>;
  /** Writes that were cut off. */
  readonly cut: number;
  readonly disk: MemoryDisk;
}

/** The events that a spool returns from these files of a closed one. All are marked as done. */
export async function read(
  files: Readonly<Record<string, Uint8Array>>,
  options: Partial<SpoolOptions> = {},
): Promise<Found> {
  const disk = new MemoryDisk();
  const series = '0'.repeat(26);
  for (const at of [ROOT, `${ROOT}/${series}`]) disk.directories.add(at);
  for (const [name, bytes] of Object.entries(files)) disk.put(`${ROOT}/${series}/${name}`, bytes);
  const troubles: string[] = [];
  const spool = await openSpool({
    ...{ directory: ROOT, durability: 'os', files: disk.process().files },
    onTrouble: (what) => troubles.push(what),
    ...options,
  });
  const texts: string[] = [];
  // The last call gets no event, but searches the last segment for damage.
  let events: SpooledEvent[];
  do {
    events = await spool.take(3, 300, soon());
    for (const event of events) {
      texts.push(textOf(event));
      spool.done(event);
    }
  } while (events.length > 0);
  const { waiting, cut } = spool.state;
  expect(waiting).toBe(0);
  await spool.close();
  const damaged = new Map(
    disk
      .files(DAMAGED, '.bytes')
      .map((file) => [file.slice(DAMAGED.length + 1), Buffer.from(disk.bytesOf(file))]),
  );
  return { texts, troubles, damaged, cut, disk };
}
