/** The checks of a body before it may be stored: pure, the same for HTTP and every import. */
import { isUtf8 } from 'node:buffer';
import { ERRORS, type ErrorCode, type EventKind, type Profile } from '@clinical-events/protocol';
import { validateEvent } from '@clinical-events/protocol/validate';
import { type JsonFault, readEvent } from './strict-json.js';

/** Why a body is refused. No member holds a value of the body or the name of an unknown field. */
export interface Fault {
  readonly code: ErrorCode;
  /** Replaces the code's own message. */
  readonly message?: string;
  readonly details?: Record<string, unknown>;
}

/** The ids that the ledger needs from a good body. */
export interface Examined {
  readonly eventId: Uint8Array;
  readonly runId: Uint8Array;
  readonly parentId: Uint8Array;
}

const NO_ID = new Uint8Array(16);

/**
 * Checks one body: UTF-8, depth, JSON, repeated keys, then the schema of its kind in its profile.
 * @param body the exact bytes; not kept.
 * @returns the ids, or the fault with which the sender is answered.
 */
export function examine(body: Buffer, kind: EventKind, profile: Profile, maxDepth: number): Examined | Fault {
  if (!isUtf8(body)) return notUtf8(body);
  const reading = readEvent(body.toString(), maxDepth);
  if (reading.fault) return faultOf(reading.fault);
  const issues = validateEvent(kind, profile, reading.value);
  if (issues) return { code: 'validation_failed', details: { issues } };
  const event = reading.value as { event_id: string; run_id?: string; parent_event_id?: string | null };
  const eventId = uuidBytes(event.event_id);
  return {
    eventId,
    runId:
      event.run_id !== undefined ? uuidBytes(event.run_id) : kind === 'inference-start' ? eventId : NO_ID,
    parentId: typeof event.parent_event_id === 'string' ? uuidBytes(event.parent_event_id) : NO_ID,
  };
}

/** @param body of an event or line that is not UTF-8. */
export function notUtf8(body: Uint8Array): Fault {
  const mark = ((body[0] ?? 0) << 8) | (body[1] ?? 0);
  if (mark !== 0xfffe && mark !== 0xfeff) return { code: 'invalid_encoding' };
  const own = ERRORS.invalid_encoding.message.slice(0, -1);
  return { code: 'invalid_encoding', message: `${own}: it begins with the byte order mark of UTF-16.` };
}

export function faultOf({ code, ...found }: JsonFault): Fault {
  return 'offset' in found ? { code, message: found.message, details: { offset: found.offset } } : { code };
}

export function isFault(result: Examined | Fault): result is Fault {
  return 'code' in result;
}

const NIBBLE = new Uint8Array(128);
for (let i = 0; i < 16; i++) {
  NIBBLE[i.toString(16).charCodeAt(0)] = i;
  NIBBLE[i.toString(16).toUpperCase().charCodeAt(0)] = i;
}
const HYPHEN = 45;

/** @param text a UUID that the schema has accepted (RFC 9562, either case). */
function uuidBytes(text: string): Uint8Array {
  const bytes = new Uint8Array(16);
  let at = 0;
  for (let i = 0; at < 16; i += 2) {
    if (text.charCodeAt(i) === HYPHEN) i++;
    bytes[at++] = ((NIBBLE[text.charCodeAt(i)] ?? 0) << 4) | (NIBBLE[text.charCodeAt(i + 1)] ?? 0);
  }
  return bytes;
}
