import { assembleRecord } from './assemble.js';
import { ParsingReader } from './run-event.js';
/** The bytes of log that fill a window; a run that is larger is one for itself. */
const WINDOW_BYTES = 4 << 20;
/** A batch, likewise: few, because until its last record is made its objects survive every collection of garbage. */
const BATCH_BYTES = 512 << 10;
const MOST_RUNS = 4096;
/** Runs in their order, in parts whose events can be read together. */
export function windowsOf(runs) {
    return partsOf(runs, WINDOW_BYTES);
}
/** The events of each run, in no order, some runs at a time: only of these are there objects while the rest waits. */
export async function* eventBatchesOf(log, window, reader) {
    const read = await log.read(window.flatMap(({ places }) => places));
    let index = 0;
    for (const part of partsOf(window, BATCH_BYTES)) {
        reader.begin(read);
        yield part.map(({ places }) => places.map(() => reader.event(index++)));
    }
}
/** @returns the records of the runs, in their order. */
export async function recordsOf(log, window, linksOf) {
    const records = [];
    for await (const batch of eventBatchesOf(log, window, new ParsingReader())) {
        for (const events of batch)
            records.push(assembleRecord(events, await linksOf(records.length, events)));
    }
    return records;
}
/** In a run of a few events, which is to say in most, looking at each is quicker than making a set of them. */
const FEW = 8;
/** The parents that events of a run name and that are not of the run: what its links will be asked for. */
export function outsideParents(events) {
    const ids = events.length > FEW ? new Set(events.map(({ event }) => event.eventId)) : undefined;
    const outside = [];
    for (const { body } of events) {
        const parent = body?.parent_event_id?.toLowerCase();
        if (parent !== undefined && !(ids?.has(parent) ?? hasEvent(events, parent)))
            outside.push(parent);
    }
    return outside;
}
function hasEvent(events, id) {
    for (const { event } of events)
        if (event.eventId === id)
            return true;
    return false;
}
function* partsOf(runs, mostBytes) {
    let part = [];
    let bytes = 0;
    for (const run of runs) {
        let more = 0;
        for (const { size } of run.places)
            more += size;
        if (part.length > 0 && (bytes + more > mostBytes || part.length === MOST_RUNS)) {
            yield part;
            part = [];
            bytes = 0;
        }
        part.push(run);
        bytes += more;
    }
    if (part.length > 0)
        yield part;
}
//# sourceMappingURL=record-windows.js.map