/**
 * The order of a record's events: by the sender's timestamp as an instant, then by kind (what was shown comes after the
 * start, where a clock gives whole seconds), then by event id. When they arrived does not count, so the same events
 * make the same record.
 */
import { EVENT_KINDS } from '@clinical-events/protocol';
import { compareInstants, instantOf, readInstant } from './instant.js';
/** @returns the events, each once, in canonical order. */
export function inCanonicalOrder(events) {
    const ordered = events.map(timed);
    // Most runs are stored in their order, and then sorting would be the larger part of the work.
    return ordered.every((event, i) => i === 0 || compare(ordered[i - 1] ?? event, event) <= 0)
        ? ordered
        : ordered.sort(compare);
}
function timed({ event, body, isReplaced }) {
    const at = body === undefined ? instantOf(event.receivedAt) : readInstant(body.timestamp);
    return { event, body, isReplaced, at, parentId: body?.parent_event_id?.toLowerCase() ?? null };
}
function compare(a, b) {
    const order = compareInstants(a.at, b.at) || EVENT_KINDS.indexOf(a.event.kind) - EVENT_KINDS.indexOf(b.event.kind);
    if (order !== 0)
        return order;
    if (a.event.eventId === b.event.eventId)
        return 0;
    return a.event.eventId < b.event.eventId ? -1 : 1;
}
/** @param events in canonical order. */
export function parentageOf(events) {
    const placeOf = placesIn(events);
    const parentAt = [];
    const outside = [];
    let backwards = false;
    for (let i = 0; i < events.length; i++) {
        const parentId = events[i]?.parentId ?? null;
        const place = parentId === null ? -1 : placeOf(parentId);
        if (parentId !== null && place < 0)
            outside.push(i);
        if (place >= i)
            backwards = true;
        parentAt.push(place);
    }
    // Where every parent stands before its child there is no circle.
    return { parentAt, outside, cyclic: backwards ? cyclicPlaces(parentAt) : [] };
}
/** In a run of a few events, which is to say in most, looking at each is quicker than making a map of them. */
const FEW = 8;
/** @returns a function that gives the place of an event, or -1 when it is not among these. */
function placesIn(events) {
    if (events.length <= FEW)
        return (eventId) => events.findIndex(({ event }) => event.eventId === eventId);
    const places = new Map(events.map(({ event }, place) => [event.eventId, place]));
    return (eventId) => places.get(eventId) ?? -1;
}
/** Every event has at most one parent, so a walk up ends at a root, where another walk has been, or in a new circle. */
function cyclicPlaces(parentAt) {
    const walkOf = new Array(parentAt.length).fill(-1);
    const cyclic = [];
    for (let start = 0; start < parentAt.length; start++) {
        let at = start;
        while (at >= 0 && walkOf[at] === -1) {
            walkOf[at] = start;
            at = parentAt[at] ?? -1;
        }
        if (at < 0 || walkOf[at] !== start)
            continue;
        let next = at;
        do {
            cyclic.push(next);
            next = parentAt[next] ?? -1;
        } while (next !== at);
    }
    return cyclic.sort((a, b) => a - b);
}
//# sourceMappingURL=canonical-order.js.map