import { card, h, table, takenAt } from './elements.js';
import { NONE, milliseconds, rate } from './format.js';
/*
 * The charts of the last five minutes: steps, a second wide, because a second is what was counted. Where nothing was
 * measured there is nothing. The drawing is stretched to its place by the browser; what is written stands beside it.
 */
export const SPAN_SECONDS = 300;
const HEIGHT = 100;
/** Back to the axis. */
const END = `V${HEIGHT}Z`;
export function plot({ label, series, format, least, marked }) {
    const values = series.flatMap(({ steps }) => steps.map(({ value }) => value ?? 0));
    const top = roundUp(Math.max(least, ...values));
    const x = marked === undefined ? undefined : SPAN_SECONDS - marked;
    return h('div', { class: 'plot' }, h('div', { class: 'scale', 'aria-hidden': 'true' }, [top, top / 2, 0].map((at) => h('span', {}, format(at)))), h('div', { class: 'drawing', 'data-plot': true }, h('svg', {
        role: 'img',
        'aria-label': label,
        viewBox: `0 0 ${SPAN_SECONDS} ${HEIGHT}`,
        preserveAspectRatio: 'none',
    }, [0, HEIGHT / 2, HEIGHT].map((y) => grid(0, y, SPAN_SECONDS, y)), [60, 120, 180, 240].map((at) => grid(at, 0, at, HEIGHT)), series.map(({ className, area, steps }) => h('path', { class: className, d: (area ? areaOf : lineOf)(steps, top) })), x !== undefined && h('line', { class: 'mark', x1: x, x2: x, y1: 0, y2: HEIGHT }))), h('div', { class: 'times', 'aria-hidden': 'true' }, ['5 min', '4', '3', '2', '1', 'now'].map((text) => h('span', {}, text))));
}
/** A name and a value beside a sample of the line. */
function legend(entries) {
    return h('dl', { class: 'legend' }, entries.map(({ className, name, value }) => h('div', { class: className }, h('dt', {}, name), h('dd', {}, value))));
}
/** The next of 1, 2, 4, 6, 8 and 10 times a power of ten: half of each is a short number too. */
export function roundUp(value) {
    const power = 10 ** Math.floor(Math.log10(value));
    const found = [1, 2, 4, 6, 8, 10].find((times) => times * power >= value * (1 - 1e-9));
    return (found ?? 10) * power;
}
function grid(x1, y1, x2, y2) {
    return h('line', { class: 'grid', x1, y1, x2, y2 });
}
function* placesOf(steps, top) {
    let end = Number.NaN;
    for (const { ago, seconds, value } of steps) {
        const to = SPAN_SECONDS - ago;
        if (value === null || to <= 0)
            continue;
        // A second that was looked at late is wider; one that begins within a hair of the last one's end is joined to it.
        const begin = Math.max(0, to - seconds);
        const joined = Math.abs(begin - end) < 0.5;
        yield { from: joined ? end : begin, to, y: HEIGHT * (1 - value / top), joined };
        end = to;
    }
}
function areaOf(steps, top) {
    let path = '';
    for (const { from, to, y, joined } of placesOf(steps, top)) {
        if (!joined)
            path += `${path === '' ? '' : END}M${short(from)} ${HEIGHT}`;
        path += `V${short(y)}H${short(to)}`;
    }
    return path === '' ? '' : path + END;
}
function lineOf(steps, top) {
    let path = '';
    for (const { from, to, y, joined } of placesOf(steps, top)) {
        path += joined ? `V${short(y)}H${short(to)}` : `M${short(from)} ${short(y)}H${short(to)}`;
    }
    return path;
}
function short(number) {
    return String(Math.round(number * 10) / 10);
}
const ROW_SECONDS = 10;
export function traffic(view) {
    if (isIdle(view))
        return idle(view);
    const end = endOf(view);
    const seconds = view.state.traffic.seconds.map((second) => ({
        ...second,
        ago: (end - Date.parse(second.at)) / 1000,
    }));
    const steps = (value) => seconds.map((second) => ({ ago: second.ago, seconds: second.ms / 1000, value: value(second) }));
    const accepted = steps(acceptedRate);
    const refused = steps(refusedRate);
    const p50 = steps(({ p50_ms }) => p50_ms);
    const p99 = steps(({ p99_ms }) => p99_ms);
    const shown = secondAt(seconds, view.marked);
    const when = view.marked === undefined || shown === undefined ? 'now' : view.timeOfDay(Date.parse(shown.at));
    const { marked } = view;
    return card('traffic', 'Last five minutes', [marked === undefined ? 'second by second' : `at ${when}`], h('div', { class: 'charts' }, h('figure', {}, h('figcaption', {}, h('h3', {}, 'Events a second'), legend([
        { className: 'accepted', name: 'accepted', value: valueOf(shown && acceptedRate(shown), rate) },
        { className: 'refused', name: 'refused', value: valueOf(shown && refusedRate(shown), rate) },
    ])), plot({
        label: `Accepted events a second over the last five minutes, at most ${rate(mostOf(accepted))}; refused, at most ${rate(mostOf(refused))}.`,
        series: [
            { className: 'accepted', area: true, steps: accepted },
            // No line along the axis where nothing was refused: it would hide the other.
            {
                className: 'refused',
                area: true,
                steps: refused.map((step) => ({ ...step, value: step.value === 0 ? null : step.value })),
            },
        ],
        format: rate,
        least: 2,
        marked,
    })), h('figure', {}, h('figcaption', {}, h('h3', {}, 'Time to the acknowledgement'), legend([
        { className: 'p50', name: 'half within', value: valueOf(shown?.p50_ms, milliseconds) },
        { className: 'p99', name: '99 % within', value: valueOf(shown?.p99_ms, milliseconds) },
    ])), plot({
        label: `Milliseconds to the acknowledgement over the last five minutes: the 99th percentile was at most ${milliseconds(mostOf(p99))}.`,
        series: [
            { className: 'p99', area: false, steps: p99 },
            { className: 'p50', area: false, steps: p50 },
        ],
        format: milliseconds,
        least: 2,
        marked,
    }))), h('details', { class: 'same' }, h('summary', {}, 'The same as a table'), rowsTable(seconds, (ago) => view.timeOfDay(end - ago * 1000))));
}
function isIdle({ state: { traffic: found } }) {
    return found.seconds.every(({ accepted, refused }) => accepted === 0 && refused === 0);
}
/** Two empty charts would say less, in more room. */
function idle({ state: { ledger, command } }) {
    return card('traffic', 'Last five minutes', '', h('p', { class: 'empty' }, ledger.events > 0
        ? 'Nothing was accepted or refused. As soon as something is, rates and times are drawn here.'
        : [
            'No event has come yet. The page ',
            h('a', { href: 'docs' }, 'Interface'),
            ' shows how to send one; ',
            h('code', {}, `${command} demo`),
            ' sends made-up runs. Rates and times are then drawn here.',
        ]));
}
/** Where the charts end: at the last second, or when it was looked at if that is long ago. */
function endOf(view) {
    const at = view.state.traffic.seconds.at(-1)?.at;
    const now = takenAt(view);
    return at === undefined || now - Date.parse(at) > 2000 ? now : Date.parse(at);
}
/** The second that is pointed at, or the last one. */
function secondAt(seconds, marked) {
    if (marked === undefined)
        return seconds.at(-1);
    return seconds.find(({ ago, ms }) => ago <= marked && ago + ms / 1000 >= marked);
}
function rowsTable(seconds, timeOfDay) {
    const inRows = Map.groupBy(seconds, ({ ago }) => Math.floor(ago / ROW_SECONDS));
    const rows = [];
    for (let row = 0; row < SPAN_SECONDS / ROW_SECONDS; row++) {
        const inRow = inRows.get(row);
        if (inRow === undefined)
            continue;
        const ms = sum(inRow.map((second) => second.ms));
        const perSecond = (value) => rate((sum(inRow.map(value)) * 1000) / ms);
        const most = (value) => valueOf(mostKnown(inRow.map(value)), milliseconds);
        rows.push([
            timeOfDay(row * ROW_SECONDS),
            perSecond(({ accepted }) => accepted),
            perSecond(({ refused }) => refused),
            most(({ p50_ms }) => p50_ms),
            most(({ p99_ms }) => p99_ms),
        ]);
    }
    return h('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'The last five minutes as a table' }, table('The ten seconds until then, newest first. Of times, the longest second.', ['Until', 'Accepted a second', 'Refused a second', 'Half within', '99 % within'].map((name, i) => i === 0 ? { name } : { name, className: 'number' }), rows));
}
function acceptedRate({ accepted, ms }) {
    return (accepted * 1000) / ms;
}
function refusedRate({ refused, ms }) {
    return (refused * 1000) / ms;
}
function valueOf(value, format) {
    return value === null || value === undefined ? NONE : format(value);
}
function mostOf(steps) {
    return Math.max(0, ...steps.map(({ value }) => value ?? 0));
}
function mostKnown(values) {
    const known = values.filter((value) => value !== null);
    return known.length === 0 ? undefined : Math.max(...known);
}
function sum(values) {
    return values.reduce((total, value) => total + value, 0);
}
