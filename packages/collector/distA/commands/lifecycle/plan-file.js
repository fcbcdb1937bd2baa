/**
 * The file of an erasure plan: every event that may be erased, why, and whether it will be. A person reviews it and may change
 * the marks (`erase`) and nothing else: the SHA-256 covers the rest, and the access log has it. It names no subject.
 */
import { hash } from 'node:crypto';
import fs from 'node:fs';
import { readJson } from '../../ledger/strict-json.js';
import { untilText } from '../../privacy/retention-policy.js';
import { aboutBytes, counted } from '../../quantity.js';
import { systemCode } from '../../system-code.js';
import { shortId } from '../arguments.js';
import { usage } from '../exit-codes.js';
import { alignedTable, legible } from '../terminal.js';
import { NOT_FOUND_BY_SEARCH } from './mentions.js';
export const PLAN_FORMAT = 'clinical-events/erasure-plan/v1';
/** What one text of JSON may be. */
const MOST_BYTES = 500 << 20;
/** A plan has five. */
const MOST_NESTED = 8;
export function planFile(plan) {
    const unmarked = plan.events.map((event) => ({ ...event, erase: undefined }));
    return {
        plan,
        sha256: hash('sha256', JSON.stringify({ ...plan, events: unmarked }, inOrder)),
        marks: hash('sha256', plan.events.map(({ sequence, erase }) => `${sequence} ${erase}\n`).join('')),
    };
}
/** For JSON.stringify: the members of objects in one order, whatever order they have in the file. */
function inOrder(_, value) {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
        return value;
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
/** An event a line, so that a person can compare and edit it. */
export function planText({ plan, sha256 }) {
    const { events, ...rest } = plan;
    const head = JSON.stringify({ ...rest, sha256 }, undefined, 2).replace(/\n\}$/, '');
    const lines = events.map((event) => `    ${JSON.stringify(event)}`);
    return `${head},\n  "events": [\n${lines.join(',\n')}\n  ]\n}\n`;
}
/** @throws CommandFailure for a file that is no plan, or of which more than the marks was changed; it holds nothing of it. */
export function readPlan(file) {
    const unfit = (why) => usage(`${file} is not a plan that collector erase plan wrote: ${why}`);
    let text;
    try {
        const stat = fs.statSync(file);
        if (!stat.isFile() || stat.size > MOST_BYTES)
            throw unfit('it is not a file of at most 500 MiB');
        text = new TextDecoder('utf-8', { fatal: true }).decode(fs.readFileSync(file));
    }
    catch (error) {
        const code = systemCode(error);
        if (code !== undefined && code.startsWith('E') && !code.startsWith('ERR'))
            throw usage(`${file} cannot be read (${code})`);
        throw error instanceof TypeError ? unfit('it is not UTF-8') : error;
    }
    const { value: read, fault } = { value: undefined, ...readJson(text, MOST_NESTED) };
    // Of a name that stands twice a person may review one value while the other is applied.
    if (fault?.code === 'duplicate_key')
        throw unfit('a name stands twice in one object');
    if (fault !== undefined)
        throw unfit('it is not JSON, or was cut off');
    const { sha256, ...plan } = Object(read);
    if (plan['format'] !== PLAN_FORMAT)
        throw unfit(`its format is not ${PLAN_FORMAT}`);
    if (!hasMarks(plan))
        throw unfit('it does not have the members of one');
    const whole = planFile(plan);
    if (whole.sha256 !== sha256)
        throw unfit('more than its marks (erase) was changed: plan again, or take the file as it was');
    return whole;
}
/** All else is covered by the SHA-256, and the access log has that. */
function hasMarks(read) {
    const { events } = read;
    const isMarked = (event) => typeof Object(event).erase === 'boolean';
    return Array.isArray(events) && events.every(isMarked);
}
/** For the reviewer: a line for each run, what is blocked, and what was not compared. */
export function planTable({ plan, sha256, marks }) {
    const runs = Map.groupBy(plan.events, ({ organisation, run }) => `${organisation} ${run}`);
    const ids = [...new Set(plan.events.map(({ run }) => run))].sort();
    const short = new Map(ids.map((id, i) => [id, shortId(id, [...ids.slice(i > 0 ? i - 1 : 0, i), ...ids.slice(i + 1, i + 2)])]));
    const rows = [...runs.values()].map((events) => {
        const { run, organisation, received_at, about } = events[0];
        const left = events.filter(({ erase }) => !erase);
        return [
            ...[short.get(run) ?? run, legible(organisation)],
            ...[received_at.slice(0, 16).replace('T', ' '), String(events.length)],
            ...[[...new Set(events.map(({ because }) => because))].join(', '), about],
            left.length === 0
                ? 'yes'
                : left.length === events.length
                    ? 'no'
                    : `${events.length - left.length} of them`,
            [
                ...new Set([
                    ...left.map(({ why }) => why),
                    ...events.flatMap(({ erase, blocked }) => (erase ? blocked.map(blockText) : [])),
                ]),
            ].join('; '),
        ];
    });
    const columns = ['RUN', 'ORGANISATION', 'FIRST (UTC)', 'EVENTS', 'BECAUSE', 'ABOUT', 'ERASE', 'NOTE'];
    const table = rows.length === 0 ? '' : alignedTable([columns, ...rows]);
    const marked = plan.events.filter(({ erase }) => erase);
    const blocks = Map.groupBy(plan.events.flatMap(({ blocked }) => blocked.map(blockText)), (text) => text);
    const size = marked.reduce((sum, event) => sum + event.size, 0);
    const lines = [
        `${counted(marked.length, 'event')} of ${counted(new Set(marked.map(({ run }) => run)).size, 'run')} marked to be erased (${aboutBytes(size)}), ` +
            `${plan.events.length - marked.length} not marked`,
        ...[...blocks].map(([block, { length }]) => `${counted(length, 'event')}: ${block}`),
        ...(plan.unmatched.length === 0
            ? []
            : [
                `no start has ${counted(plan.unmatched.length, 'id')} of the subject file: number ${plan.unmatched.join(', ')} (a start that was erased before is not compared)`,
            ]),
        ...(plan.unread === 0
            ? []
            : [`${counted(plan.unread, 'payload')} could not be opened, and may be about this person too`]),
        ...(plan.searched === 'every payload'
            ? [`every payload was searched; ${NOT_FOUND_BY_SEARCH}`]
            : plan.asked.includes('subject')
                ? ['only starts were compared: --mentions searches every payload']
                : []),
        ...plan.late.map(({ action, events }) => `${counted(events, 'event')} came after action ${action} had erased their runs: plan them with --late ${action}`),
        ...(plan.events.length === 0
            ? []
            : [`SHA-256 of the plan, which the access log has: ${sha256}`, `SHA-256 of its marks: ${marks}`]),
    ];
    return `${table}${lines.map((line) => `${line}\n`).join('')}`;
}
export function blockText({ by, name, until }) {
    if (by === 'hold')
        return `on hold by ${legible(name)}`;
    if (by === 'floor')
        return `kept by the floor ${legible(name)} ${until === null ? 'for ever' : untilText(Date.parse(until))}`;
    return by;
}
//# sourceMappingURL=plan-file.js.map