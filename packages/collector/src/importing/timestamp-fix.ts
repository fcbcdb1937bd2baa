/**
 * Adds the offset of a given zone to timestamps without one, and records that in the event:
 *
 *   "import_fixes": [{"pointer": "/timestamp", "original": "2026-01-01T10:00:00", "zone": "Europe/Berlin"}]
 *
 * with `"clock_change": "overlap"` or `"gap"` if the local time occurred twice or never. All other bytes stay
 * unchanged.
 */
import type { EventKind } from '@clinical-events/protocol';
import { JsonOutline, OPEN_BRACE } from '../json-text.js';
import { type Place, placeOf } from './offered-line.js';

/** An RFC 3339 date-time without offset; also with a space, as databases write it. */
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
 * @returns the text with fixed timestamps; undefined if there is nothing to fix, if the event already has
 *   `import_fixes`, or if it is not a JSON object.
 */
export function fixTimestamps(body: string, kind: EventKind, zone: Zone): string | undefined {
  const outline = new JsonOutline(body);
  const event = outline.faultAt === undefined ? placeOf(outline) : undefined;
  if (event === undefined || outline.units[event.start] !== OPEN_BRACE) return undefined;
  if (placeOf(outline, FIXES) !== undefined) return undefined;
  // Only outcomes have this field.
  const occurredAt = kind === 'outcome' ? placeOf(outline, 'outcome', 'occurred_at') : undefined;
  const fixes = [
    fixAt(body, '/timestamp', placeOf(outline, 'timestamp'), zone),
    fixAt(body, '/outcome/occurred_at', occurredAt, zone),
  ].filter((fix) => fix !== undefined);
  if (fixes.length === 0) return undefined;
  const recorded = fixes.map(({ pointer, original, clockChange }) => ({
    ...{ pointer, original, zone: zone.name },
    ...(clockChange !== undefined && { clock_change: clockChange }),
  }));
  const close = event.end - 1;
  let text = `${body.slice(0, close)},"${FIXES}":${JSON.stringify(recorded)}${body.slice(close)}`;
  // Fixes are applied from the end, so that earlier ranges stay valid.
  for (const { place, fixed } of fixes.toSorted((a, b) => b.place.start - a.place.start)) {
    text = `${text.slice(0, place.start)}"${fixed}"${text.slice(place.end)}`;
  }
  return text;
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

/** The offset of a local time. */
interface ZoneOffset {
  /** The offset in the form of RFC 3339, such as `+01:00`. */
  readonly text: string;
  /** Set if the local time occurred twice (`overlap`) or never (`gap`). */
  readonly clockChange: 'overlap' | 'gap' | undefined;
}

const MINUTE = 60_000;
const DAY = 86_400_000;
const FIXED = /^([+-])([01]\d|2[0-3]):([0-5]\d)$/;
/** Cache size. Logs are ordered, so the same few times are looked up repeatedly. */
const REMEMBERED = 10_000;

/**
 * Interprets local times in a zone of the tz database or at a fixed offset. Clock changes follow RFC 5545,
 * section 3.3.5: a time that occurred twice means the first, and one that never occurred has the offset from
 * before the change.
 */
export class Zone {
  /** The name as given by the operator. */
  readonly name: string;
  readonly #fixed: string | undefined;
  readonly #format: Intl.DateTimeFormat | undefined;
  readonly #known = new Map<number, ZoneOffset | undefined>();

  /** @throws RangeError if `name` is neither an offset such as +01:00 or Z, nor a known zone. */
  constructor(name: string) {
    this.name = name;
    if (name === 'Z' || FIXED.test(name)) {
      this.#fixed = name;
      return;
    }
    // Intl also accepts +0100 and +01, but an offset should have one spelling.
    if (!/^[A-Za-z]/.test(name)) throw new RangeError('no zone');
    this.#format = new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' });
  }

  /**
   * @param local milliseconds since 1970, as if the local time were UTC; a whole minute.
   * @returns undefined if the offset has seconds, as before standard time zones.
   */
  offsetOf(local: number): ZoneOffset | undefined {
    if (this.#fixed !== undefined) return { text: this.#fixed, clockChange: undefined };
    const known = this.#known.get(local);
    if (known !== undefined) return known;
    if (this.#known.size >= REMEMBERED) this.#known.clear();
    const found = this.#find(local);
    this.#known.set(local, found);
    return found;
  }

  #find(local: number): ZoneOffset | undefined {
    // No zone has changed its clocks twice within two days.
    const before = this.#minutesAt(local - DAY);
    const after = this.#minutesAt(local + DAY);
    if (before === undefined || after === undefined) return undefined;
    const holds = (minutes: number) => this.#minutesAt(local - minutes * MINUTE) === minutes;
    const [first, second] = [holds(before), holds(after)];
    const twice = first && second && before !== after;
    if (twice) return { text: spelt(Math.max(before, after)), clockChange: 'overlap' };
    if (first) return { text: spelt(before), clockChange: undefined };
    if (second) return { text: spelt(after), clockChange: undefined };
    return { text: spelt(before), clockChange: 'gap' };
  }

  /** The offset from UTC at an instant, in minutes; undefined if it has seconds. */
  #minutesAt(instant: number): number | undefined {
    const parts = this.#format?.formatToParts(instant);
    const text = parts?.find(({ type }) => type === 'timeZoneName')?.value ?? '';
    if (text === 'GMT') return 0;
    const [, sign, hours, minutes] = /^GMT([+-])(\d\d):(\d\d)$/.exec(text) ?? [];
    if (sign === undefined) return undefined;
    return (sign === '+' ? 1 : -1) * (60 * Number(hours) + Number(minutes));
  }
}

function spelt(minutes: number): string {
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  const two = (number: number) => String(number).padStart(2, '0');
  return `${minutes < 0 ? '-' : '+'}${two(hours)}:${two(rest)}`;
}
