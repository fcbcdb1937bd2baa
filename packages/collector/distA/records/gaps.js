import { compareInstants, cutTo, fractionDigits, instantOf } from './instant.js';
import { MemberName } from './json-scan.js';
import { isNumberInText, numberIn } from './raw-json.js';
import { hasMember, memberIn, sentIn } from './run-event.js';
/*
 * How the call of a model ended, as an instrumentation of its library reported it: the form that
 * docs/reference/instrumentation.md sets for clients in all languages. What an application says by itself is not taken for it.
 */
export const CALL_ENDINGS = [
    'complete',
    'failed',
    'aborted',
    'cut off',
    'not read',
    'unfinished',
];
const MOST_ATTEMPTS = 2 ** 31 - 1;
const ENDING = new MemberName('ending');
const STATUS = new MemberName('status');
const ERROR_NAME = new MemberName('error_name');
const RESPONSE_MODEL = new MemberName('response_model');
const USAGE = new MemberName('usage');
const INSTRUMENTATION = new MemberName('instrumentation');
/**
 * @param events in canonical order. @returns the last of them that reports an ending: with retries there are several.
 */
export function callOf(events) {
    for (let i = events.length - 1; i >= 0; i--) {
        const timed = events[i];
        const sent = endedIn(timed);
        // Hardly an event has the member, and all records are looked through.
        if (sent === undefined || !hasMember(sent, ENDING))
            continue;
        const found = callIn(timed, sent);
        if (found !== undefined)
            return found;
    }
    return undefined;
}
function endedIn({ event, body }) {
    if (body === undefined)
        return undefined;
    if (event.kind === 'internal-artifact')
        return sentIn(body, 'artifact');
    return event.kind === 'human-output' ? sentIn(body, 'output') : undefined;
}
function callIn({ event, body }, sent) {
    const ending = CALL_ENDINGS.find((each) => each === memberIn(sent, ENDING));
    const { by, attempt } = objectIn(body && sentIn(body, 'system_metadata'), INSTRUMENTATION);
    if (ending === undefined || typeof by !== 'string')
        return undefined;
    const { input_tokens, output_tokens } = objectIn(sent, USAGE);
    const status = memberIn(sent, STATUS);
    return {
        call: {
            event_id: event.eventId,
            by,
            ending,
            attempts: wholeIn(attempt, 1, MOST_ATTEMPTS) ?? 1,
            status: wholeIn(status, 100, 599),
            error_name: textIn(memberIn(sent, ERROR_NAME)),
            response_model: textIn(memberIn(sent, RESPONSE_MODEL)),
            input_tokens: countIn(input_tokens),
            output_tokens: countIn(output_tokens),
        },
        hasNumberInText: [attempt, status, input_tokens, output_tokens].some(isNumberInText),
    };
}
function objectIn(sent, name) {
    const value = memberIn(sent, name);
    return typeof value === 'object' && value !== null ? value : {};
}
function textIn(value) {
    return typeof value === 'string' ? value : null;
}
function wholeIn(value, least, most) {
    const number = numberIn(value);
    return number !== undefined && Number.isInteger(number) && number >= least && number <= most
        ? number
        : null;
}
function countIn(value) {
    const number = numberIn(value);
    return number !== undefined && number >= 0 ? number : null;
}
/** Without these no one can say what the run was, or the log itself says that a part of it is not there. */
const BROKEN = new Set(['inference-start', 'parent', 'payload']);
const OUTPUT_URI = new MemberName('output_uri');
const RATING = new MemberName('rating_value');
const START_OBJECTS = [
    ['model', 'model_instance'],
    ['user', 'user_identity'],
    ['target', 'target_identity'],
    ['inputs', 'inputs'],
];
/**
 * @param start the inference-start that the record follows.
 * @param orphans ids of the events whose parent is not in the log.
 * @param found how the call of the model ended.
 */
export function completenessOf(events, start, orphans, found) {
    const missing = [];
    if (start === undefined) {
        missing.push('inference-start', 'model', 'user', 'target', 'inputs');
    }
    else if (start.body !== undefined) {
        for (const [name, field] of START_OBJECTS)
            if (sentIn(start.body, field) === undefined)
                missing.push(name);
    }
    let [outputs, unplaced, outcomes, feedback, unreadable, retired] = [0, 0, 0, 0, 0, 0];
    const numbersInText = [];
    for (const { event, body } of events) {
        if (body === undefined)
            unreadable++;
        if (event.payloadState === 'retired')
            retired++;
        if (found?.hasNumberInText === true && found.call.event_id === event.eventId)
            numbersInText.push(event.eventId);
        if (event.kind === 'outcome')
            outcomes++;
        else if (event.kind === 'user-feedback') {
            feedback++;
            if (body !== undefined && isNumberInText(memberIn(sentIn(body, 'feedback'), RATING)))
                numbersInText.push(event.eventId);
        }
        else if (event.kind === 'human-output') {
            outputs++;
            if (body !== undefined && !hasMember(sentIn(body, 'output'), OUTPUT_URI))
                unplaced++;
        }
    }
    if (outputs === 0)
        missing.push('output');
    else if (unplaced === outputs)
        missing.push('output_uri');
    if (outcomes === 0)
        missing.push('outcome');
    if (feedback === 0)
        missing.push('feedback');
    if (orphans.length > 0)
        missing.push('parent');
    if (unreadable > 0)
        missing.push('payload');
    return {
        level: levelOf(missing, unreadable === retired),
        missing,
        orphans,
        numbers_in_text: numbersInText,
        replaced_text: events.flatMap(({ event, isReplaced }) => (isReplaced ? [event.eventId] : [])),
    };
}
/** @param isLawful whether each payload that is missing was destroyed by an action of the log. */
function levelOf(missing, isLawful) {
    if (missing.length === 0)
        return 'full';
    const broken = missing.filter((piece) => BROKEN.has(piece));
    if (broken.length === 0)
        return 'minimum';
    return isLawful && broken.every((piece) => piece === 'payload') ? 'retired' : 'incomplete';
}
/*
 * What the events of a record say against each other: a closed set of kinds (schemas/record.json). Nothing is settled
 * here, and nothing is left out of the record for it: a conflict names the events, and a person decides. It holds ids
 * and nothing of a payload.
 */
/** How much later than its receipt an event may claim to be: clocks that are kept are never that far apart. */
const AHEAD_TOLERANCE_MS = 5 * 60_000;
/** @returns in the order of the kinds and rules in the schema; the ids of each in canonical order. */
export function conflictsOf({ events, parentage, start, parentElsewhere, runCycle }) {
    const conflicts = [];
    const add = (kind, event_ids) => {
        if (event_ids.length > 0)
            conflicts.push({ kind, event_ids });
    };
    const addDisorder = (rule, event_ids) => {
        if (event_ids.length > 0)
            conflicts.push({ kind: 'clock_disorder', rule, event_ids });
    };
    const secondStarts = [];
    const beforeStart = [];
    const beforeParent = [];
    const ahead = [];
    for (let i = 0; i < events.length; i++) {
        const timed = events[i];
        const { eventId } = timed.event;
        if (timed.event.kind === 'inference-start' && timed !== start)
            secondStarts.push(eventId);
        // What cannot be read claims no time.
        if (timed.body === undefined)
            continue;
        if (isBefore(timed, start))
            beforeStart.push(eventId);
        if (isBefore(timed, events[parentage.parentAt[i] ?? -1]))
            beforeParent.push(eventId);
        if (isAhead(timed))
            ahead.push(eventId);
    }
    add('second_start', secondStarts);
    add('parent_cycle', parentage.cyclic.map((place) => events[place]?.event.eventId ?? ''));
    if (runCycle.length > 0) {
        const event_ids = start === undefined ? [] : [start.event.eventId];
        conflicts.push({ kind: 'run_cycle', event_ids, run_ids: runCycle });
    }
    add('parent_in_other_run', parentElsewhere);
    addDisorder('before_start', beforeStart);
    addDisorder('before_parent', beforeParent);
    addDisorder('ahead_of_receipt', ahead);
    return conflicts;
}
/** Compared to the digits that the event has: 10:00:00 of a clock of whole seconds is not before 10:00:00.5. */
function isBefore({ at, body }, other) {
    if (body === undefined || other?.body === undefined || compareInstants(at, other.at) >= 0)
        return false;
    return compareInstants(at, cutTo(other.at, fractionDigits(body.timestamp))) < 0;
}
function isAhead({ at, event }) {
    const latest = event.receivedAt + AHEAD_TOLERANCE_MS;
    // Hardly an event comes near it, and whole seconds tell so.
    return (at.seconds + 1) * 1000 >= latest && compareInstants(at, instantOf(latest)) > 0;
}
//# sourceMappingURL=gaps.js.map