/**
 * Events as lines for `collector import`: NDJSON, each event wrapped with its kind. The file appears whole, by a link,
 * and never takes the place of another.
 */
import { randomBytes } from 'node:crypto';
import fs from 'node:fs/promises';
import path from 'node:path';
import { textOf } from './event-text.js';
import type { OddEvent } from './oddities.js';

/** Lines are written in pieces of about so many characters. */
const PIECE = 1 << 20;

export interface Written {
  readonly lines: number;
  readonly bytes: number;
}

/**
 * On return the file is whole and on stable storage; when it throws or is stopped, nothing is left.
 * @param organisation goes on each line; a name that needs no escapes in JSON.
 * @returns undefined when `stop` was aborted before the end.
 * @throws the system's error: EEXIST when there is a file of that name.
 */
export async function writeEvents(
  file: string,
  organisation: string,
  events: Iterable<OddEvent>,
  stop: AbortSignal,
): Promise<Written | undefined> {
  const draft = path.join(
    path.dirname(file),
    `.${path.basename(file)}.${randomBytes(4).toString('hex')}.tmp`,
  );
  const handle = await fs.open(draft, 'wx');
  try {
    let [lines, bytes, piece] = [0, 0, ''];
    // The disk takes one piece while the next is made.
    let writing = Promise.resolve();
    const write = async () => {
      const encoded = Buffer.from(piece);
      piece = '';
      bytes += encoded.length;
      await writing;
      writing = handle.writeFile(encoded);
      // Its failure is told by anyone who waits for it next, if anybody still does.
      writing.catch(() => undefined);
    };
    for (const event of events) {
      piece += lineOf(event, organisation);
      lines++;
      if (piece.length < PIECE) continue;
      await write();
      if (stop.aborted) break;
    }
    if (!stop.aborted) await write();
    await writing;
    if (stop.aborted) return undefined;
    await handle.sync();
    await fs.link(draft, file);
    return { lines, bytes };
  } finally {
    await handle.close();
    await fs.rm(draft, { force: true });
  }
}

/** A text with line breaks cannot stand in a line but as a string. */
function lineOf(event: OddEvent, organisation: string): string {
  const text = textOf(event);
  const member = event.sending === 'respelt' ? `"body":${JSON.stringify(text)}` : `"event":${text}`;
  return `{"kind":"${event.planned.kind}","organisation":"${organisation}",${member}}\n`;
}
