/**
 * Sums records: reads their events from the log and makes what their rows say. It knows the log and no table, so that
 * it can be done in a thread of its own (summing-thread.ts).
 */
import { assembleRun } from '../records/assemble.js';
import { readInstant } from '../records/instant.js';
import { MemberName } from '../records/json-scan.js';
import { outsideParents } from '../records/record-windows.js';
import { BASE_FIELDS, memberIn, sentIn, ScanningReader, } from '../records/run-event.js';
import { isNoId, uuidBytes, uuidText } from '../store/text.js';
import { SUMMARY_COLUMNS } from './columns.js';
import { sentAtOf, summaryOf } from './run-summary.js';
/**
 * Bytes of log that are read with one call, and whose events are objects at a time; of a record that has more, what a
 * summary asks for is kept of each event.
 */
export const READ_BYTES = 512 << 10;
/** What is to be done in a thread: as one list of numbers, as to clone an object for each event takes longer. */
export function packJob(records, before) {
    const packed = [before];
    for (const { row, isInCircle, places } of records) {
        packed.push(row, Number(isInCircle), places.length);
        for (const { at, size } of places)
            packed.push(at, size);
    }
    return Float64Array.from(packed);
}
export function unpackJob(packed) {
    const numbers = packed.values();
    const next = () => Number(numbers.next().value);
    const before = next();
    const records = [];
    for (let row; (row = numbers.next().value) !== undefined;) {
        const isInCircle = next() === 1;
        const places = Array.from({ length: next() }, () => ({ at: next(), size: next() }));
        records.push({ row, isInCircle, places });
    }
    return { records, before };
}
/** The run of an event that names one or opens one. @param before what has a lower sequence is looked at. */
export async function runInLog(log, before, organisation, eventId) {
    const found = await log.find(organisation, uuidBytes(eventId), before);
    if (found === undefined || found.sequence >= before)
        return undefined;
    return isNoId(found.runId) ? null : uuidText(found.runId);
}
/** A name is told as it is, and numbered where the tables are. */
const AS_TEXT = { idOf: (name) => name, nameOf: String };
export class Summer {
    log;
    findParent;
    #reader = new ScanningReader();
    constructor(log, findParent) {
        this.log = log;
        this.findParent = findParent;
    }
    /**
     * @param records whose events take READ_BYTES at most together, or one that has more.
     * @returns null for one whose parents are not known here.
     */
    async sum(records) {
        const [first] = records;
        if (first === undefined)
            return [];
        if (records.length === 1 && bytesOf(first) > READ_BYTES)
            return [await this.#summed(first, await this.#thinEventsOf(first.places))];
        this.#reader.begin(await this.log.read(records.flatMap(({ places }) => places)));
        const summed = [];
        let index = 0;
        for (const record of records) {
            const events = record.places.map(() => this.#reader.event(index++));
            summed.push(await this.#summed(record, events));
        }
        return summed;
    }
    async #thinEventsOf(places) {
        const events = [];
        for (const part of partsOf(places.map((place) => ({ places: [place] })), READ_BYTES)) {
            this.#reader.begin(await this.log.read(part.flatMap((each) => each.places)));
            for (const index of part.keys())
                events.push(thin(this.#reader.event(index)));
        }
        return events;
    }
    async #summed({ row, isInCircle }, events) {
        const organisation = events[0]?.event.organisation ?? '';
        const runs = new Map();
        for (const parent of outsideParents(events)) {
            if (runs.has(parent))
                continue;
            const found = await this.findParent(organisation, parent);
            if (found === 'unknown')
                return null;
            runs.set(parent, found.run);
        }
        const run = assembleRun(events, {
            parentRunOf: (eventId) => runs.get(eventId),
            children: [],
            // Of a circle a summary says that there is one, anyone who is in it.
            cycle: isInCircle ? [''] : [],
        });
        const summary = summaryOf(run);
        const parent = summary.isRun ? run.metadata.parent?.event_id : undefined;
        const parentRun = parent === undefined ? undefined : runs.get(parent);
        return {
            ...{ row, isInCircle, isRun: summary.isRun, recordId: summary.recordId },
            ...{ firstSequence: summary.firstSequence, lastSequence: summary.lastSequence },
            values: SUMMARY_COLUMNS.map(({ of }) => of(summary, AS_TEXT)),
            sent: events.map(({ event, body }) => body === undefined ? null : sentAtOf({ event, at: readInstant(body.timestamp) })),
            parent: parent === undefined || parentRun === undefined ? null : { eventId: parent, run: parentRun },
            awaits: [...runs].flatMap(([eventId, of]) => (typeof of === 'string' ? [] : eventId)),
        };
    }
}
function bytesOf({ places }) {
    let bytes = 0;
    for (const { size } of places)
        bytes += size;
    return bytes;
}
/** Groups of at most that many bytes; one that is larger stands alone. */
export function* partsOf(all, most) {
    let part = [];
    let bytes = 0;
    for (const each of all) {
        const more = bytesOf(each);
        if (part.length > 0 && bytes + more > most) {
            yield part;
            part = [];
            bytes = 0;
        }
        part.push(each);
        bytes += more;
    }
    if (part.length > 0)
        yield part;
}
/** Of each object of an event the members that a summary asks for. */
const ENDED = ['ending', 'status', 'error_name', 'response_model', 'usage'];
const ASKED = Object.entries({
    system_metadata: ['app_name', 'instrumentation'],
    model_instance: ['model_id', 'model_version'],
    user_identity: ['caller_id'],
    target_identity: ['target_id'],
    inputs: [],
    artifact: ENDED,
    output: ['output_uri', ...ENDED],
    outcome: ['outcome_type'],
    feedback: ['feedback_type', 'rating_value', 'direction'],
}).map(([object, members]) => ({
    object: object,
    members: members.map((name) => new MemberName(name)),
}));
/** The event with what a summary asks for, and nothing that keeps what was read in memory. */
function thin({ event, body }) {
    if (body === undefined)
        return { event, body };
    const kept = {};
    for (const name of BASE_FIELDS)
        if (name !== 'system_metadata' && name in body)
            kept[name] = body[name];
    for (const { object, members } of ASKED) {
        const sent = sentIn(body, object);
        if (sent === undefined)
            continue;
        kept[object] = Object.fromEntries(members.map((name) => [name.text, memberIn(sent, name)]).filter(([, value]) => value !== undefined));
    }
    return { event, body: kept };
}
//# sourceMappingURL=summing.js.map