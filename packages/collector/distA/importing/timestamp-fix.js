import { membersOf } from './offered-line.js';
/** A date-time of RFC 3339 without its offset; with a space, as databases write it. */
const LOCAL = /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2})(:\d{2}(?:\.\d+)?)$/;
const FIXES = 'import_fixes';
/**
 * @param body the text of an event.
 * @returns the text with its timestamps fixed; undefined when none lacks nothing but an offset, when the event has an
 * `import_fixes` of its own, or when it is no JSON object.
 */
export function fixTimestamps(body, kind, zone) {
    if (!isJson(body))
        return undefined;
    const event = membersOf(body);
    if (event === undefined || event.places.has(FIXES))
        return undefined;
    // In other kinds no one has named such a field.
    const outcome = kind === 'outcome' ? event.places.get('outcome') : undefined;
    const occurredAt = outcome && membersOf(body, outcome.start)?.places.get('occurred_at');
    const fixes = [
        fixAt(body, '/timestamp', event.places.get('timestamp'), zone),
        fixAt(body, '/outcome/occurred_at', occurredAt, zone),
    ].filter((fix) => fix !== undefined);
    if (fixes.length === 0)
        return undefined;
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
function isJson(text) {
    try {
        JSON.parse(text);
        return true;
    }
    catch {
        return false;
    }
}
function fixAt(body, pointer, place, zone) {
    if (place === undefined)
        return undefined;
    const original = JSON.parse(body.slice(place.start, place.end));
    const [, date, minute, rest] = LOCAL.exec(typeof original === 'string' ? original : '') ?? [];
    const local = Date.parse(`${date}T${minute}Z`);
    if (typeof original !== 'string' || Number.isNaN(local))
        return undefined;
    const offset = zone.offsetOf(local);
    if (offset === undefined)
        return undefined;
    const fixed = `${date}T${minute}${rest}${offset.text}`;
    return { pointer, place, original, fixed, clockChange: offset.clockChange };
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
    name;
    #fixed;
    #format;
    #known = new Map();
    /** @throws RangeError when `name` is neither an offset such as +01:00 or Z, nor a zone that is known here. */
    constructor(name) {
        this.name = name;
        if (name === 'Z' || FIXED.test(name)) {
            this.#fixed = name;
            return;
        }
        // Intl takes +0100 and +01 too, and an offset should have one spelling.
        if (!/^[A-Za-z]/.test(name))
            throw new RangeError('no zone');
        this.#format = new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' });
    }
    /**
     * @param local milliseconds since 1970, as if the local time were UTC; a whole minute.
     * @returns undefined when the offset was not one of whole minutes, as before zones were agreed on.
     */
    offsetOf(local) {
        if (this.#fixed !== undefined)
            return { text: this.#fixed, clockChange: undefined };
        const known = this.#known.get(local);
        if (known !== undefined)
            return known;
        if (this.#known.size >= REMEMBERED)
            this.#known.clear();
        const found = this.#find(local);
        this.#known.set(local, found);
        return found;
    }
    #find(local) {
        // No zone has changed its clocks twice within two days.
        const before = this.#minutesAt(local - DAY);
        const after = this.#minutesAt(local + DAY);
        if (before === undefined || after === undefined)
            return undefined;
        const holds = (minutes) => this.#minutesAt(local - minutes * MINUTE) === minutes;
        const [first, second] = [holds(before), holds(after)];
        const twice = first && second && before !== after;
        if (twice)
            return { text: spelt(Math.max(before, after)), clockChange: 'overlap' };
        if (first)
            return { text: spelt(before), clockChange: undefined };
        if (second)
            return { text: spelt(after), clockChange: undefined };
        return { text: spelt(before), clockChange: 'gap' };
    }
    /** The offset from UTC at an instant; undefined when it has seconds. */
    #minutesAt(instant) {
        const parts = this.#format?.formatToParts(instant);
        const text = parts?.find(({ type }) => type === 'timeZoneName')?.value ?? '';
        if (text === 'GMT')
            return 0;
        const [, sign, hours, minutes] = /^GMT([+-])(\d\d):(\d\d)$/.exec(text) ?? [];
        if (sign === undefined)
            return undefined;
        return (sign === '+' ? 1 : -1) * (60 * Number(hours) + Number(minutes));
    }
}
function spelt(minutes) {
    const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
    const two = (number) => String(number).padStart(2, '0');
    return `${minutes < 0 ? '-' : '+'}${two(hours)}:${two(rest)}`;
}
//# sourceMappingURL=timestamp-fix.js.map