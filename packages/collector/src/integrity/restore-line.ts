/**
 * The line of `access.log` with which a restored data directory goes on. It stands behind the lines of the back-up and
 * says how many they are and to which root they come; from it on the log has another name (access-log-keys.ts). So a
 * checkpoint of the old name still proves the lines that both have, what was noted after the back-up is known to be
 * lost, and a log that was cut short without such a line is found as before. Pure.
 */
import { HASH_BYTES } from './merkle.js';

/** Named as in the line. */
export interface RestoreLine {
  /** When: an instant, RFC 3339 in UTC. */
  readonly at: string;
  /** The id of the restore, 16 hexadecimal digits: nobody else draws the same. */
  readonly log: string;
  /** How many lines stand before it, all from the back-up. */
  readonly lines: number;
  /** Of these lines. */
  readonly root: Buffer;
  /** The name of the back-up's manifest. */
  readonly backup: string;
  /** How many events the back-up holds. */
  readonly events: number;
}

/** No such line is longer. */
export const LONGEST_RESTORE_LINE = 2048;
const STATE = Buffer.from('"state":"restored"');
const ID = /^[0-9a-f]{16}$/;

/**
 * @param bytes of a line, without the line feed; undefined for one that is too long.
 * @returns undefined when it is none. What it says is for the caller to hold against the lines before it.
 */
export function restoreLineIn(bytes: Buffer | undefined): RestoreLine | undefined {
  if (bytes === undefined || bytes.length > LONGEST_RESTORE_LINE || !bytes.includes(STATE)) return undefined;
  let read: unknown;
  try {
    read = JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
  if (typeof read !== 'object' || read === null) return undefined;
  const { at, state, log, lines, root: encoded, backup, events } = read as Record<string, unknown>;
  if (state !== 'restored' || typeof at !== 'string' || typeof backup !== 'string') return undefined;
  if (typeof log !== 'string' || !ID.test(log) || typeof encoded !== 'string') return undefined;
  if (!Number.isSafeInteger(lines) || !Number.isSafeInteger(events)) return undefined;
  const root = Buffer.from(encoded, 'base64');
  if (root.length !== HASH_BYTES) return undefined;
  return { at, log, lines: Number(lines), root, backup, events: Number(events) };
}
