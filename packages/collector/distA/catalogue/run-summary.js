/** What the catalogue says of a record: all that a list of runs or a report asks of it, and nothing of its texts. */
import { EVENT_KINDS } from '@clinical-events/protocol';
import { DAY_MS } from '../quantity.js';
import { memberIn, sentIn } from '../records/run-event.js';
import { modelVersionOf, NAMES, stringOf, textOf } from '../records/exports/record-columns.js';
import { epochMilliseconds } from '../records/instant.js';
import { MemberName } from '../records/json-scan.js';
import { numberIn } from '../records/raw-json.js';
import { FEEDBACK_WORDS, feedbackWord, outcomeWord, thumbOf, } from '../records/vocabulary.js';
const APP_NAME = new MemberName('app_name');
const OUTCOME_TYPE = new MemberName('outcome_type');
const FEEDBACK_TYPE = new MemberName('feedback_type');
const RATING_VALUE = new MemberName('rating_value');
const DIRECTION = new MemberName('direction');
/** */
export const MOST_RATING = 5;
/** The one rule of what a row says. @param run of all events of the record. */
export function summaryOf(run) {
    const { metadata, start } = run;
    const { completeness } = metadata;
    return {
        organisation: metadata.organisation,
        recordId: metadata.record_id,
        isRun: metadata.run_id !== null,
        ...spanOf(metadata.events, start),
        modelId: nameIn(textOf(run.model, NAMES.model_id)),
        modelVersion: nameIn(modelVersionOf(run)),
        userId: nameIn(textOf(run.user, NAMES.caller_id)),
        targetId: nameIn(textOf(run.target, NAMES.target_id)),
        application: applicationOf(metadata.events, start),
        ...outcomeOf(run),
        ...feedbackOf(run),
        call: callOf(metadata.call),
        latencyMs: metadata.latency_ms,
        level: completeness.level,
        missing: completeness.missing,
        orphanEvents: start === undefined ? metadata.events.length : completeness.orphans.length,
        conflicts: metadata.conflicts.flatMap(({ kind, rule }) => kind === 'clock_disorder' ? (rule ?? []) : kind),
        numbersInText: completeness.numbers_in_text.length,
    };
}
function nameIn(text) {
    return stringOf(text) ?? null;
}
/** By the sender's clock, in milliseconds since 1970; the collector's where the payload cannot be read or says no time. */
export function sentAtOf({ event, at }) {
    const sent = epochMilliseconds(at);
    return Number.isNaN(sent) ? event.receivedAt : sent;
}
function momentOf(timed) {
    return { received: timed.event.receivedAt, sender: sentAtOf(timed) };
}
/** When a record began by the sender's clock, in milliseconds since 1970: its first start, else its earliest event. */
export function beganBySender(events, start) {
    if (start !== undefined)
        return sentAtOf(start);
    return events.reduce((earliest, timed) => Math.min(earliest, sentAtOf(timed)), Infinity);
}
function spanOf(events, start) {
    let [firstSequence, lastSequence] = [Infinity, 0];
    const received = { first: Infinity, last: -Infinity };
    const sent = { first: Infinity, last: -Infinity };
    let [unreadable, apart] = [0, 0];
    const counts = { ...NO_EVENTS };
    for (const timed of events) {
        const { event, body } = timed;
        const sender = sentAtOf(timed);
        counts[event.kind]++;
        firstSequence = Math.min(firstSequence, event.sequence);
        lastSequence = Math.max(lastSequence, event.sequence);
        received.first = Math.min(received.first, event.receivedAt);
        received.last = Math.max(received.last, event.receivedAt);
        sent.first = Math.min(sent.first, sender);
        sent.last = Math.max(sent.last, sender);
        if (body === undefined)
            unreadable++;
        else if (Math.abs(event.receivedAt - sender) > DAY_MS)
            apart++;
    }
    const began = { received: received.first, sender: beganBySender(events, start) };
    return { firstSequence, lastSequence, times: { received, sent, unreadable, apart }, began, counts };
}
function zeros(words) {
    return Object.fromEntries(words.map((word) => [word, 0]));
}
/** To be copied: to make one from its words costs as much as half of a summary. */
const NO_EVENTS = zeros(EVENT_KINDS);
function applicationOf(events, start) {
    for (const timed of start === undefined ? events : [start, ...events]) {
        const name = textOf(timed.body && sentIn(timed.body, 'system_metadata'), APP_NAME);
        if (name !== undefined)
            return nameIn(name);
    }
    return null;
}
const NO_OUTCOME = { outcome: 'none', outcomeAt: null, outcomesDiffer: false };
function outcomeOf({ metadata, outcomes }) {
    const last = metadata.events.findLast(({ event }) => event.kind === 'outcome');
    if (last === undefined)
        return NO_OUTCOME;
    const earliest = { received: Infinity, sender: Infinity };
    for (const timed of metadata.events) {
        if (timed.event.kind !== 'outcome')
            continue;
        const { received, sender } = momentOf(timed);
        earliest.received = Math.min(earliest.received, received);
        earliest.sender = Math.min(earliest.sender, sender);
    }
    const words = outcomes.map(({ body }) => outcomeWord(memberIn(body && sentIn(body, 'outcome'), OUTCOME_TYPE)));
    return {
        outcome: last.body === undefined ? 'unreadable' : (words.at(-1) ?? 'unreadable'),
        outcomeAt: { last: momentOf(last), earliest },
        outcomesDiffer: words.some((word) => word !== words[0]),
    };
}
const NO_FEEDBACK = {
    feedback: zeros(FEEDBACK_WORDS),
    thumbs: { up: 0, down: 0 },
    ratings: new Array(MOST_RATING + 1).fill(0),
    ratingSum: 0,
};
function feedbackOf({ metadata, feedback }) {
    const all = metadata.events.filter(({ event }) => event.kind === 'user-feedback').length;
    if (all === 0)
        return NO_FEEDBACK;
    const words = { ...NO_FEEDBACK.feedback };
    const thumbs = { up: 0, down: 0 };
    const ratings = new Array(MOST_RATING + 1).fill(0);
    let ratingSum = 0;
    for (const { body } of feedback) {
        const said = body && sentIn(body, 'feedback');
        const word = feedbackWord(memberIn(said, FEEDBACK_TYPE));
        words[word]++;
        const sentRating = memberIn(said, RATING_VALUE);
        const rating = numberIn(sentRating);
        if (rating !== undefined && rating >= 0 && rating <= MOST_RATING) {
            const rounded = Math.round(rating);
            ratings[rounded] = (ratings[rounded] ?? 0) + 1;
            ratingSum += rating;
        }
        const thumb = word === 'thumbs' ? thumbOf(memberIn(said, DIRECTION), sentRating) : undefined;
        if (thumb !== undefined)
            thumbs[thumb]++;
    }
    words.unreadable += all - feedback.length;
    return { feedback: words, thumbs, ratings, ratingSum };
}
function callOf(call) {
    if (call === null)
        return null;
    const { ending, status, attempts, input_tokens, output_tokens } = call;
    return { ending, status, attempts, input_tokens, output_tokens };
}
//# sourceMappingURL=run-summary.js.map