import { card, chip, facts, h, table, takenAt, } from './elements.js';
import { NONE, ago, count, counted, day, days, duration, milliseconds } from './format.js';
const DAY_MS = 86_400_000;
const SOON_DAYS = 14;
export function proof(view) {
    return card('proof', 'Proof and back-up', '', facts([
        newest(view),
        ...noSink(view),
        ...(view.state.database === null ? [verify(view), backup(view)] : shared(view)),
        ...privacy(view),
        ...certificates(view),
    ]));
}
function newest(view) {
    const { checkpoint, checkpoints_fail_since: failing } = view.state;
    const trouble = failing !== null &&
        chip('warning', `none can be made for ${duration(takenAt(view) - Date.parse(failing))}`);
    return {
        name: 'Checkpoint',
        value: checkpoint === null
            ? ['none yet ', trouble]
            : [ago(Date.parse(checkpoint.at), takenAt(view)), ' ', trouble],
        ...(checkpoint !== null && {
            more: checkpoint.entries === 0 && checkpoint.entries_behind === 0
                ? 'of the empty log'
                : `${counted(checkpoint.entries, 'entry', 'entries')}, ${count(checkpoint.entries_behind)} since`,
        }),
    };
}
/** A log in a database is verified where its mirror is, and backed up by the tools of the database. */
function shared({ state: { database } }) {
    const p99 = database?.merge_delay_p99_ms ?? null;
    const value = p99 === null ? 'not known yet' : `p99 ${milliseconds(p99)}`;
    return [{ name: 'Merge delay', value: [value], more: 'from a commit to the checkpoint over it' }];
}
function noSink({ state: { sinks: list } }) {
    return list.length === 0 ? [{ name: 'Sinks', value: 'none', more: 'checkpoints stay on this host' }] : [];
}
function verify(view) {
    const { last_verify: found } = view.state;
    const name = 'Last verified';
    if (found === null)
        return { name, value: 'never', more: ['by ', command(`${view.state.command} verify --note`)] };
    return {
        name,
        value: [
            ago(Date.parse(found.at), takenAt(view)),
            ' ',
            chip(found.intact ? 'good' : 'critical', found.intact ? 'intact' : 'not intact'),
        ],
        more: counted(found.events, 'event'),
    };
}
function backup(view) {
    const { last_backup: last } = view.state;
    const name = 'Last back-up';
    if (last === null)
        return { name, value: 'never', more: ['by ', command(`${view.state.command} backup`)] };
    return {
        name,
        value: ago(Date.parse(last.at), takenAt(view)),
        more: `${counted(last.events, 'event')}, ${count(last.events_since)} since`,
    };
}
function privacy(view) {
    const { privacy: state, database } = view.state;
    if (state === null)
        return [{ name: 'Payloads', value: 'in the clear' }];
    const { directories, unreached, epoch_begun: begun, retired, pending, holds: held } = state;
    const away = unreached > 0 && chip('warning', `${count(unreached)} away`);
    const waits = pending > 0 && chip('warning', `${counted(pending, 'erasure')} not at the end`);
    return [
        {
            name: 'Keys of payloads',
            value: [
                database === null ? counted(directories, 'directory', 'directories') : 'in a database of their own',
                ...[' ', away],
            ],
            more: `epoch begun ${ago(Date.parse(begun), takenAt(view))}`,
        },
        {
            name: 'Erased',
            value: [counted(retired, 'event'), ' ', waits],
            more: held === 0 ? 'nothing on hold' : counted(held, 'hold'),
        },
    ];
}
function command(text) {
    return h('code', {}, text);
}
function certificates(view) {
    return view.state.certificates.map(({ name, not_after }) => ({
        name: 'Certificate',
        value: ['until ', expiry(not_after, takenAt(view))],
        more: name,
    }));
}
const MOODS = {
    ok: 'good',
    untried: 'idle',
    failing: 'warning',
    forked: 'critical',
};
/** Nothing where there is none: the facts say so. */
export function sinks(view) {
    const { sinks: list } = view.state;
    if (list.length === 0)
        return false;
    return card('sinks', 'Checkpoint sinks', 'where checkpoints leave this host', table('Sinks: where checkpoints are sent', [
        { name: 'Sink' },
        { name: 'State', className: 'state' },
        { name: 'Newest checkpoint', className: 'number' },
        { name: 'Waiting', className: 'number' },
        { name: 'Dropped', className: 'number' },
    ], list.map((sink) => sinkRow(sink, takenAt(view))), 'stacks'));
}
function sinkRow(sink, now) {
    const { number, kind, state, entries, at, failing_since: failing, waiting, dropped } = sink;
    return [
        `${number} ${kind}`,
        [
            chip(MOODS[state], state === 'untried' ? 'not tried yet' : state),
            failing !== null && h('span', { class: 'more' }, `for ${duration(now - Date.parse(failing))}`),
        ],
        at === null || entries === null
            ? NONE
            : [ago(Date.parse(at), now), h('span', { class: 'more' }, counted(entries, 'entry', 'entries'))],
        count(waiting),
        count(dropped),
    ];
}
/** The day, and how long until then when that is soon. */
export function expiry(instant, now) {
    const left = (Date.parse(instant) - now) / DAY_MS;
    if (left <= 0)
        return [day(instant), ' ', chip('warning', 'over')];
    return left <= SOON_DAYS ? [day(instant), ' ', chip('warning', `in ${days(left)}`)] : day(instant);
}
/* What an operator should look at, the most severe first, and what to do about each; and what is not set up yet. */
/** So many of a kind are told one by one; two hundred keys that expire together are one thing to do. */
const TOLD = 2;
/** Nothing where all is well: the status at the top says so. */
export function attention({ state: { warnings } }) {
    if (warnings.length === 0)
        return false;
    return h('section', { id: 'attention', 'aria-labelledby': 'attention-heading' }, h('h2', { id: 'attention-heading', class: 'hidden' }, 'What needs attention'), h('ul', { class: 'alerts' }, groupsOf(warnings).map(group)));
}
/** What is not set up yet. May be folded away by anyone who has decided otherwise. */
export function hints({ state: { hints: list } }) {
    if (list.length === 0)
        return false;
    return h('section', { id: 'hints', 'aria-labelledby': 'hints-heading' }, h('h2', { id: 'hints-heading', class: 'hidden' }, 'What is not set up yet'), h('details', { class: 'hints', open: true }, h('summary', {}, `${counted(list.length, 'thing')} not set up yet`), h('ul', {}, list.map((hint) => h('li', {}, item(hint))))));
}
/** `2 critical, 1 warning`, or nothing. */
export function summary(warnings) {
    const critical = warnings.filter(({ severity }) => severity === 'critical').length;
    const others = warnings.length - critical;
    return [critical > 0 && `${critical} critical`, others > 0 && counted(others, 'warning')]
        .filter((part) => part !== false)
        .join(', ');
}
/** Those of the same id and severity together, in the order in which they came. */
function groupsOf(warnings) {
    const groups = new Map();
    for (const warning of warnings) {
        const id = `${warning.severity}-${warning.id}`;
        const group = groups.get(id);
        if (group === undefined)
            groups.set(id, [warning]);
        else
            group.push(warning);
    }
    return [...groups].map(([id, list]) => ({ id, warnings: list }));
}
function group({ id, warnings }) {
    const [first] = warnings;
    const told = warnings.length <= TOLD + 1 ? warnings : warnings.slice(0, TOLD);
    const others = warnings.slice(told.length);
    return h('li', { id: `attention-${id}`, class: `alert ${first.severity}` }, chip(first.severity, first.severity === 'critical' ? 'Critical' : 'Warning'), h('div', { class: 'items' }, told.map(item), others.length > 0 &&
        h('details', {}, h('summary', {}, `${count(others.length)} more of the same kind`), h('div', { class: 'items' }, others.map(item)))));
}
function item({ title, what_to_do }) {
    return h('div', {}, h('h3', {}, title), h('p', {}, what_to_do));
}
