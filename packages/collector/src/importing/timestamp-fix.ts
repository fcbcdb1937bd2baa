/**
 * Gives timestamps without an offset the one of a stated zone, and says so in the event itself:
 *
 *   "import_fixes": [{"pointer": "/timestamp", "original": "2026-01-01T10:00:00", "zone": "Europe/Berlin"}]
 *
 * with `"clock_change": "overlap"` or `"gap"` where the local time came twice or never. Every other byte of the text
 * stays as it was.
 */
import type { EventKind } from '@clinical-events/protocol';
import { JsonOutline } from '../json-outline.js';
import { OPEN_BRACE } from '../json-text.js';
import { type Place, placeOf } from './offered-line.js';

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
  const outline = new JsonOutline(body);
  const event = outline.faultAt === undefined ? placeOf(outline) : undefined;
  if (event === undefined || outline.units[event.start] !== OPEN_BRACE) return undefined;
  if (placeOf(outline, FIXES) !== undefined) return undefined;
  // Other kinds have no such field.
  const occurredAt = kind === 'outcome' ? placeOf(outline, 'outcome', 'occurred_at') : undefined;
  const fixes = [
    fixAt(body, '/timestamp', placeOf(outline, 'timestamp'), zone),
    fixAt(body, '/outcome/occurred_at', occurredAt, zone),
  ].filter((fix) => fix !== undefined);
  if (fixes.length === 0) return undefined;
  const told = fixes.map(({ pointer, original, clockChange }) => ({
    ...{ pointer, original, zone: zone.name },
    ...(clockChange !== undefined && { clock_change: clockChange }),
  }));
  const close = event.end - 1;
  let text = `${body.slice(0, close)},"${FIXES}":${JSON.stringify(told)}${body.slice(close)}`;
  // From the end on, so that the places before stay where they are.
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

/** The offset that belongs to a local time. */
interface ZoneOffset {
  /** As RFC 3339 writes it, such as `+01:00`. */
  readonly text: string;
  /** The local time came twice (`overlap`) or never (`gap`), so that the rule has decided. */
  readonly clockChange: 'overlap' | 'gap' | undefined;
}

const MINUTE = 60_000;
const DAY = 86_400_000;
const FIXED = /^([+-])([01]\d|2[0-3]):([0-5]\d)$/;
/** A log comes in order, so that few hours are asked for again and again; more than these are forgotten together. */
const REMEMBERED = 10_000;

/**
 * What a clock on the wall meant, in a zone of the tz database or at a fixed offset. Where clocks were changed, RFC 5545
 * section 3.3.5 says what is meant: a time that came twice means the first, and one that never came is read with the
 * offset before the change.
 */
export class Zone {
  /** As the operator wrote it. */
  readonly name: string;
  readonly #fixed: string | undefined;
  readonly #format: Intl.DateTimeFormat | undefined;
  readonly #known = new Map<number, ZoneOffset | undefined>();

  /** @throws RangeError when `name` is neither an offset such as +01:00 or Z, nor a zone that is known here. */
  constructor(name: string) {
    this.name = name;
    if (name === 'Z' || FIXED.test(name)) {
      this.#fixed = name;
      return;
    }
    // Intl takes +0100 and +01 too, and an offset should have one spelling.
    if (!/^[A-Za-z]/.test(name)) throw new RangeError('no zone');
    this.#format = new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' });
  }

  /**
   * @param local milliseconds since 1970, as if the local time were UTC; a whole minute.
   * @returns undefined when the offset was not one of whole minutes, as before zones were agreed on.
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

  /** The offset from UTC at an instant; undefined when it has seconds. */
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
