/**
 * Gives timestamps without an offset the one of a stated zone, and says so in the event itself:
 *
 *   "import_fixes": [{"pointer": "/timestamp", "original": "2026-01-01T10:00:00", "zone": "Europe/Berlin"}]
 *
 * with `"clock_change": "overlap"` or `"gap"` where the local time came twice or never. Every other byte of the text
 * stays as it was.
 */
import type { EventKind } from '@clinical-events/protocol';
import { membersOf, type Place } from './json-members.js';
import type { Zone } from './zone.js';

/** A date-time of RFC 3339 without its offset; with a space, as databases write it. */
const LOCAL = /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2})(:\d{2}(?:\.\d+)?)$/;
const FIXES = 'import_fixes';

interface Fix {
  readonly pointer: string;
  readonly place: Place;
  readonly original: string;
  readonly fixed: string;
  readonly clockChange: string | undefined;
}

/**
 * @param body the text of an event.
 * @returns the text with its timestamps fixed; undefined when none lacks nothing but an offset, when the event has an
 * `import_fixes` of its own, or when it is no JSON object.
 */
export function fixTimestamps(body: string, kind: EventKind, zone: Zone): string | undefined {
  if (!isJson(body)) return undefined;
  const event = membersOf(body);
  if (event === undefined || event.places.has(FIXES)) return undefined;
  // In other kinds nobody has named such a field.
  const outcome = kind === 'outcome' ? event.places.get('outcome') : undefined;
  const occurredAt = outcome && membersOf(body, outcome.start)?.places.get('occurred_at');
  const fixes = [
    fixAt(body, '/timestamp', event.places.get('timestamp'), zone),
    fixAt(body, '/outcome/occurred_at', occurredAt, zone),
  ].filter((fix) => fix !== undefined);
  if (fixes.length === 0) return undefined;
  const told = fixes.map(({ pointer, original, clockChange }) => ({
    ...{ pointer, original, zone: zone.name },
    ...(clockChange !== undefined && { clock_change: clockChange }),
  }));
  let text = `${body.slice(0, event.close)},"${FIXES}":${JSON.stringify(told)}${body.slice(event.close)}`;
  // From the end on, so that the places before stay where they are.
  for (const { place, fixed } of fixes.toSorted((a, b) => b.place.start - a.place.start)) {
    text = `${text.slice(0, place.start)}"${fixed}"${text.slice(place.end)}`;
  }
  return text;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function fixAt(body: string, pointer: string, place: Place | undefined, zone: Zone): Fix | undefined {
  if (place === undefined) return undefined;
  const original: unknown = JSON.parse(body.slice(place.start, place.end));
  const [, date, minute, rest] = LOCAL.exec(typeof original === 'string' ? original : '') ?? [];
  const local = Date.parse(`${date}T${minute}Z`);
  if (typeof original !== 'string' || Number.isNaN(local)) return undefined;
  const offset = zone.offsetOf(local);
  if (offset === undefined) return undefined;
  const fixed = `${date}T${minute}${rest}${offset.text}`;
  return { pointer, place, original, fixed, clockChange: offset.clockChange };
}
