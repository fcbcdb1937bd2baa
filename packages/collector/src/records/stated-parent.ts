/** The parent that an event states, without parsing the event where it states none. */
import { parseExact } from './raw-json.js';

const NAME = Buffer.from('parent_event_id"');
const NULL = /^\s*:\s*null/;
/** White space and the value are looked for so far behind the name. */
const BEHIND = 32;

/**
 * @param body the text of an event that the schemas have accepted.
 * @returns in lower case; null when it states none.
 */
export function statedParent(body: Buffer): string | null {
  // A name may be written with escapes; who does that is parsed.
  if (!body.includes('\\u')) {
    const at = body.indexOf(NAME);
    if (at < 0) return null;
    const behind = at + NAME.length;
    const isNull = NULL.test(body.toString('latin1', behind, behind + BEHIND));
    // A second one may be the one that counts.
    if (isNull && body.indexOf(NAME, behind) < 0) return null;
  }
  const { parent_event_id: parent } = parseExact(body.toString()) as { parent_event_id?: string | null };
  return parent?.toLowerCase() ?? null;
}
