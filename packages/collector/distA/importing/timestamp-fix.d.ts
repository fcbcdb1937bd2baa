/**
 * Gives timestamps without an offset the one of a stated zone, and says so in the event itself:
 *
 *   "import_fixes": [{"pointer": "/timestamp", "original": "2026-01-01T10:00:00", "zone": "Europe/Berlin"}]
 *
 * with `"clock_change": "overlap"` or `"gap"` where the local time came twice or never. Every other byte of the text
 * stays as it was.
 */
import type { EventKind } from '@clinical-events/protocol';
/**
 * @param body the text of an event.
 * @returns the text with its timestamps fixed; undefined when none lacks nothing but an offset, when the event has an
 * `import_fixes` of its own, or when it is no JSON object.
 */
export declare function fixTimestamps(body: string, kind: EventKind, zone: Zone): string | undefined;
/** The offset that belongs to a local time. */
interface ZoneOffset {
    /** As RFC 3339 writes it, such as `+01:00`. */
    readonly text: string;
    /** The local time came twice (`overlap`) or never (`gap`), so that the rule has decided. */
    readonly clockChange: 'overlap' | 'gap' | undefined;
}
/**
 * What a clock on the wall meant, in a zone of the tz database or at a fixed offset. Where clocks were changed, RFC 5545
 * section 3.3.5 says what is meant: a time that came twice means the first, and one that never came is read with the
 * offset before the change.
 */
export declare class Zone {
    #private;
    /** As the operator wrote it. */
    readonly name: string;
    /** @throws RangeError when `name` is neither an offset such as +01:00 or Z, nor a zone that is known here. */
    constructor(name: string);
    /**
     * @param local milliseconds since 1970, as if the local time were UTC; a whole minute.
     * @returns undefined when the offset was not one of whole minutes, as before zones were agreed on.
     */
    offsetOf(local: number): ZoneOffset | undefined;
}
export {};
