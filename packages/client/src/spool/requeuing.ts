/**
 * Puts events out of quarantine back among those that wait. Each file is moved away, so that its writer goes on in a new
 * one; its events are appended to a spool; then it is removed. Wherever that is stopped, each event is in one of the two
 * or in both, and the collector takes a repeat for what it is.
 */
import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { SpoolKeyWrong, type Spool } from './contract.js';
import { DamagedBytes } from './damaged-bytes.js';
import { moved, nodeFiles, type SpoolFiles } from './files.js';
import type { QuarantinedEvent } from './quarantine.js';
import { quarantinedLines, quarantineFiles, TAKEN } from './quarantined.js';

/** So many events, or bytes of them, are appended at a time. */
const GROUP_EVENTS = 256;
const GROUP_BYTES = 1 << 20;

export interface Requeued {
  readonly events: number;
  /** The paths to which lines were moved that are none of the quarantine's. */
  readonly unreadable: readonly string[];
}

/**
 * On return what stood in quarantine waits, as durable as the spool is, and stands there no more.
 * @param spool opened on the same directory.
 * @throws SpoolKeyWrong for a line that the key does not open, and then nothing was touched; the errors of
 * `Spool.append` and of the file system, and then what was not come to is in quarantine, and perhaps what was.
 */
export async function requeue(
  directory: string,
  key: Uint8Array | undefined,
  spool: Pick<Spool, 'append'>,
  files: SpoolFiles = nodeFiles,
): Promise<Requeued> {
  const root = path.resolve(directory);
  const found = await quarantineFiles(files, root);
  for (const file of found) {
    for await (const { event } of quarantinedLines(files, file, key)) {
      if (event === 'sealed') {
        throw new SpoolKeyWrong(
          `the quarantine is sealed${key ? ' by another key than the one given' : ', and no key was given'}`,
        );
      }
    }
  }
  const requeued = { events: 0, unreadable: [] as string[] };
  for (const file of found) {
    const taken = file.endsWith(TAKEN) ? file : `${file}.${randomUUID()}${TAKEN}`;
    // Unless somebody else was faster.
    if (taken !== file && !(await moved(files, file, taken))) continue;
    let group: QuarantinedEvent[] = [];
    let bytes = 0;
    const append = async () => {
      await Promise.all(group.map(({ kind, body }) => spool.append(kind, body)));
      requeued.events += group.length;
      [group, bytes] = [[], 0];
    };
    for await (const { event, offset, size } of quarantinedLines(files, taken, key)) {
      // A writer may have begun a line meanwhile: it will find that its file was moved, and write it again.
      if (event === undefined || event === 'sealed') {
        requeued.unreadable.push(...(await keptAside(files, root, taken, { offset, size })));
        continue;
      }
      group.push(event);
      bytes += event.body.length;
      if (group.length >= GROUP_EVENTS || bytes >= GROUP_BYTES) await append();
    }
    await append();
    await files.remove(taken);
  }
  return requeued;
}

async function keptAside(
  files: SpoolFiles,
  root: string,
  file: string,
  lost: { readonly offset: number; readonly size: number },
): Promise<string[]> {
  const fd = await files.open(file, 'read');
  try {
    const kept = await new DamagedBytes(files, root).keep(path.basename(file), fd, lost);
    return kept === undefined ? [] : [kept];
  } finally {
    await files.close(fd);
  }
}
