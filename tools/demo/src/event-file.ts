/** The texts of events, and files of them for `collector import`. */
import { randomBytes } from 'node:crypto';
import fs from 'node:fs/promises';
import path from 'node:path';
import { PROTOCOL_VERSION } from '@clinical-events/protocol';
import type { SentEvent } from './anomalies.js';
import { type Clock, type Payload, type PlannedEvent, SECOND } from './planned-run.js';
import { WALL_AHEAD } from './random.js';

/** Marks each event in `system_metadata`, because events stay in the log and these are not real. */
const ENVIRONMENT = 'demo';

/** @returns the body to post: the same for the same event. */
export function textOf(event: SentEvent): string {
  const { planned, sending, namesRun, strayParent, inOwnWords, more } = event;
  const stampedAt = event.stampedAt + (sending === 'conflict' ? SECOND : 0);
  const { sender, runId } = planned;
  const fields = {
    event_id: planned.eventId,
    run_id: namesRun ? runId : undefined,
    parent_event_id: strayParent ?? planned.parentEventId,
    timestamp: timestampOf(stampedAt, sender.clock),
    protocol_version: PROTOCOL_VERSION,
    system_metadata: {
      hostname: sender.host,
      app_name: sender.app,
      proc_id: sender.process,
      latency_ms: planned.latencyMs,
      environment: ENVIRONMENT,
    },
    ...payloadOf(planned, inOwnWords),
    ...more,
  };
  return sending === 'respelt' ? JSON.stringify(reversed(fields), undefined, 2) : JSON.stringify(fields);
}

/** An outcome in own words imitates a program that does not know the protocol's vocabulary. */
function payloadOf({ payload }: PlannedEvent, inOwnWords: boolean): Payload {
  const { outcome } = payload;
  if (!inOwnWords || outcome === undefined) return payload;
  const note = 'description' in outcome ? outcome.description : undefined;
  return { outcome: { note, closed: true } };
}

/** @returns the instant in the form of the sender's clock; all three are RFC 3339. */
function timestampOf(at: number, clock: Clock): string {
  switch (clock) {
    case 'milliseconds':
      return new Date(at).toISOString();
    case 'microseconds': {
      const micros = String((at * 7919) % SECOND).padStart(3, '0');
      return `${new Date(at).toISOString().slice(0, -1)}${micros}+00:00`;
    }
    case 'wall seconds': {
      const wall = new Date(at + WALL_AHEAD).toISOString().slice(0, 19);
      return `${wall}+01:00`;
    }
  }
}

/** The same value with the members of every object in reverse order. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).reverse();
  return Object.fromEntries(entries.map(([name, each]) => [name, reversed(each)]));
}

/** Approximate number of characters per write. */
const PIECE = 1 << 20;

export interface Written {
  readonly lines: number;
  readonly bytes: number;
}

/**
 * Writes events as NDJSON, each with its kind. On return the file is whole and on stable storage; otherwise
 * no file is left.
 * @param organisation the organisation in each line; a name that needs no escapes in JSON.
 * @returns undefined when `stop` was aborted before the end.
 * @throws the system's error: EEXIST if the file exists.
 */
export async function writeEvents(
  file: string,
  organisation: string,
  events: Iterable<SentEvent>,
  stop: AbortSignal,
): Promise<Written | undefined> {
  const draft = path.join(
    path.dirname(file),
    `.${path.basename(file)}.${randomBytes(4).toString('hex')}.tmp`,
  );
  const handle = await fs.open(draft, 'wx');
  try {
    let [lines, bytes, piece] = [0, 0, ''];
    // One piece is written to disk while the next is made.
    let writing = Promise.resolve();
    const write = async () => {
      const encoded = Buffer.from(piece);
      piece = '';
      bytes += encoded.length;
      await writing;
      writing = handle.writeFile(encoded);
      // The next `await writing` throws its error.
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

/** A text with line breaks is a JSON string in its line. */
function lineOf(event: SentEvent, organisation: string): string {
  const text = textOf(event);
  const member = event.sending === 'respelt' ? `"body":${JSON.stringify(text)}` : `"event":${text}`;
  return `{"kind":"${event.planned.kind}","organisation":"${organisation}",${member}}\n`;
}
