/**
 * The record of a run from its events: a pure function, the same whatever order the events are handed in.
 * Each event handed in stands once in `metadata.events`; what its sender wrote stands once more where it belongs, as
 * sent, and fields that no one named go with it. docs/reference/records.md, "How a record is made", has the rules in
 * words.
 */
import { EVENT_KINDS, } from '@clinical-events/protocol';
import { inCanonicalOrder, parentageOf } from './canonical-order.js';
import { callOf, completenessOf, conflictsOf } from './gaps.js';
import { cutTo, fractionDigits, millisecondsBetween, utcText } from './instant.js';
import { BASE_FIELDS, PAYLOADS, sentIn } from './run-event.js';
/** For a record whose events name no event outside it, and that no run is nested in. */
export const UNLINKED = { parentRunOf: () => undefined, children: [], cycle: [] };
/** @throws RangeError when there are no events, or they are of two runs or two organisations. */
function metadataOf({ events, start, parentage, links }) {
    const { organisation, runId } = oneRecord(events);
    const { parent, orphans, elsewhere } = outsideOf(events, start, parentage, links);
    const found = callOf(events);
    return {
        record_id: runId ?? rootOf(events, parentage),
        run_id: runId ?? null,
        organisation,
        parent,
        children: [...links.children].sort(),
        ...spanOf(events),
        latency_ms: latencyOf(events, start),
        call: found?.call ?? null,
        completeness: completenessOf(events, start, orphans, found),
        conflicts: conflictsOf({
            events,
            parentage,
            start,
            parentElsewhere: elsewhere,
            runCycle: links.cycle,
        }),
    };
}
function oneRecord(events) {
    const organisation = events[0]?.event.organisation;
    if (organisation === undefined)
        throw new RangeError('a record is made of at least one event');
    let runId;
    for (const { event } of events) {
        if (event.organisation !== organisation)
            throw new RangeError('events of two organisations');
        if (event.runId === undefined || event.runId === runId)
            continue;
        if (runId !== undefined)
            throw new RangeError('events of two runs');
        runId = event.runId;
    }
    return { organisation, runId };
}
/**
 * The event that the others of a record without a run hang on; in a circle, the smallest id
 * (catalogue/placing.ts).
 */
function rootOf(events, { parentAt, cyclic }) {
    const places = cyclic.length > 0 ? cyclic : [parentAt.indexOf(-1)];
    const [root] = places.map((place) => events[place]?.event.eventId ?? '').sort();
    return root ?? '';
}
/** What there is to say of parents that are not of this record. */
function outsideOf(events, start, { outside }, links) {
    let parent = null;
    const orphans = [];
    const elsewhere = [];
    for (const place of outside) {
        const timed = events[place];
        if (timed === undefined || timed.parentId === null)
            continue;
        const run = links.parentRunOf(timed.parentId);
        if (run === undefined)
            orphans.push(timed.event.eventId);
        if (timed === start)
            parent = { run_id: run ?? null, event_id: timed.parentId };
        else if (typeof run === 'string')
            elsewhere.push(timed.event.eventId);
    }
    return { parent, orphans, elsewhere };
}
/** Between which times, by either clock, and in which versions of the protocol the events were sent. */
function spanOf(events) {
    const versions = new Set();
    let version = null;
    let firstTimestamp = null;
    let lastTimestamp = null;
    let [firstReceived, lastReceived] = [Infinity, -Infinity];
    for (const { event, body } of events) {
        const { timestamp = null, protocol_version = null } = body ?? {};
        firstTimestamp ??= timestamp;
        lastTimestamp = timestamp ?? lastTimestamp;
        if (protocol_version !== null && protocol_version !== version)
            versions.add(protocol_version);
        version = protocol_version;
        firstReceived = Math.min(firstReceived, event.receivedAt);
        lastReceived = Math.max(lastReceived, event.receivedAt);
    }
    return {
        protocol_versions: [...versions].sort(),
        first_timestamp: firstTimestamp,
        last_timestamp: lastTimestamp,
        first_received_at: utcText(firstReceived),
        last_received_at: utcText(lastReceived),
    };
}
/**
 * From the start to the first output. Not known when an output cannot be read: it may have been the first; nor when
 * the output is the earlier one: that is no latency but two clocks.
 */
function latencyOf(events, start) {
    const outputs = events.filter(({ event }) => event.kind === 'human-output');
    const [first] = outputs;
    if (first === undefined || start?.body === undefined)
        return null;
    if (outputs.some(({ body }) => body === undefined))
        return null;
    // Where one clock gives whole seconds, both are taken so: half of all sub-second latencies would else be negative.
    const isCoarse = [start, first].some(({ body }) => fractionDigits(body?.timestamp ?? '') === 0);
    const [from, to] = isCoarse ? [cutTo(start.at, 0), cutTo(first.at, 0)] : [start.at, first.at];
    const latency = millisecondsBetween(from, to);
    return latency < 0 ? null : latency;
}
/* What `metadata.events` says of an event: everything but the payload that stands elsewhere in the record. */
const START_OBJECTS = PAYLOADS['inference-start'];
const NAMED = new Map(EVENT_KINDS.map((kind) => [kind, new Set([...BASE_FIELDS, ...PAYLOADS[kind]])]));
/**
 * @param isStart whether it is the inference-start that the record follows.
 * @param hasParent whether its parent is of the same record.
 */
function recordedEventOf(timed, isStart, hasParent) {
    const { event, body, parentId } = timed;
    const entry = {
        event_id: event.eventId,
        kind: event.kind,
        sequence: event.sequence,
        timestamp: body?.timestamp ?? null,
        received_at: utcText(event.receivedAt),
        parent_event_id: parentId,
        joined_by: event.runId !== undefined ? 'run_id' : hasParent ? 'parent_event_id' : null,
        protocol_version: body?.protocol_version ?? null,
        system_metadata: body?.system_metadata ?? null,
        key_id: event.keyId,
        profile: event.profile,
        extra: extraOf(timed),
    };
    if (event.payloadState !== 'plain') {
        const { payloadState: payload, retirement } = event;
        if (retirement === undefined)
            return { ...entry, payload };
        return { ...entry, payload, action: retirement.action, retired_at: utcText(retirement.at) };
    }
    if (event.kind !== 'inference-start' || isStart || body === undefined)
        return entry;
    return { ...entry, second_start: startObjectsOf(body) };
}
/** Most events have no field that no one named: they share this one. */
const NOTHING = Object.freeze({});
/** The fields that the protocol does not name. */
export function extraOf({ event, body }) {
    if (body === undefined)
        return NOTHING;
    const named = NAMED.get(event.kind);
    let extra;
    for (const name in body) {
        if (named?.has(name))
            continue;
        extra ??= {};
        // Assigned, a member called __proto__ would be lost.
        if (name !== '__proto__')
            extra[name] = body[name];
        else
            Object.defineProperty(extra, name, { value: body[name], enumerable: true });
    }
    return extraWith(event, extra ?? NOTHING, body);
}
/** The nil UUID names no run (RFC 9562), and is kept where it is not lost. */
function extraWith({ runId }, extra, { run_id }) {
    return runId === undefined && run_id !== undefined ? { ...extra, run_id } : extra;
}
function startObjectsOf(body) {
    return Object.fromEntries(START_OBJECTS.filter((name) => body[name] !== undefined).map((name) => [name, body[name]]));
}
/**
 * @param events all events of one record (catalogue/placing.ts), at least one, each once. Their bodies become
 *   part of the record; neither may be changed afterwards.
 * @throws RangeError when there are none, or they are of two runs or two organisations.
 */
export function assembleRun(events, links = UNLINKED) {
    const ordered = inCanonicalOrder(events);
    const start = ordered.find(({ event }) => event.kind === 'inference-start');
    const parentage = parentageOf(ordered);
    const lists = {
        'inference-start': [],
        'internal-artifact': [],
        'human-output': [],
        outcome: [],
        'user-feedback': [],
    };
    for (const timed of ordered)
        if (timed.body !== undefined)
            lists[timed.event.kind].push(timed);
    const said = start?.body;
    return {
        model: (said && sentIn(said, 'model_instance')) ?? null,
        user: (said && sentIn(said, 'user_identity')) ?? null,
        target: (said && sentIn(said, 'target_identity')) ?? null,
        inputs: (said && sentIn(said, 'inputs')) ?? null,
        artifacts: lists['internal-artifact'],
        outputs: lists['human-output'],
        outcomes: lists.outcome,
        feedback: lists['user-feedback'],
        metadata: { ...metadataOf({ events: ordered, start, parentage, links }), events: ordered },
        start,
        parentage,
    };
}
/** The record itself, whole. */
export function recordOf(run) {
    const { metadata, start, parentage } = run;
    const entryOf = (timed) => ({
        event_id: timed.event.eventId,
        timestamp: timed.body?.timestamp ?? '',
        received_at: utcText(timed.event.receivedAt),
        parent_event_id: timed.parentId,
    });
    return {
        model: run.model,
        user: run.user,
        target: run.target,
        inputs: run.inputs,
        artifacts: run.artifacts.map((timed) => ({
            ...entryOf(timed),
            artifact: timed.body?.['artifact'],
            extra: extraOf(timed),
        })),
        outputs: run.outputs.map((timed) => ({
            ...entryOf(timed),
            output: timed.body?.['output'],
            extra: extraOf(timed),
        })),
        outcomes: run.outcomes.map((timed) => ({
            ...entryOf(timed),
            outcome: timed.body?.['outcome'],
            extra: extraOf(timed),
        })),
        metadata: {
            ...metadata,
            events: metadata.events.map((timed, place) => recordedEventOf(timed, timed === start, (parentage.parentAt[place] ?? -1) >= 0)),
        },
        feedback: run.feedback.map((timed) => ({
            ...entryOf(timed),
            feedback: timed.body?.['feedback'],
            extra: extraOf(timed),
        })),
    };
}
export function assembleRecord(events, links = UNLINKED) {
    return recordOf(assembleRun(events, links));
}
//# sourceMappingURL=assemble.js.map