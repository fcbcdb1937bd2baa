import { millisecondsOf } from '../../records/exports/record-columns.js';
import { numberIn } from '../../records/raw-json.js';
import { thumbOf } from '../../records/vocabulary.js';
import { CALL_ENDINGS } from '../../records/gaps.js';
import { legible, printableJson, alignedTable, wrapped } from '../terminal.js';
const NARROWEST = 60;
const WIDTH_WITHOUT_TERMINAL = 120;
const NONE = '-';
const MOST_RATING = 5;
const INDENT = '    ';
/** How wide a timeline may be on standard output. */
export function outputColumns() {
    return process.stdout.isTTY ? process.stdout.columns : WIDTH_WITHOUT_TERMINAL;
}
/** As {@link outputColumns}; where a pager reads, as wide as the terminal that it is on. */
export function pagerColumns() {
    return process.stdout.isTTY || !process.stderr.isTTY ? outputColumns() : process.stderr.columns;
}
/** A line an event. @param columns how wide the terminal is. */
export function timeline(record, columns) {
    return joined(headOf(record), eventsOf(record, Math.max(columns, NARROWEST)), conflictsOf(record));
}
/** Every member that the events have, whole, wrapped at so many columns. Words that are longer stay whole. */
export function fullTimeline(record, columns) {
    return joined(headOf(record), ...fullEventsOf(record, Math.max(columns, NARROWEST)), conflictsOf(record));
}
function joined(...parts) {
    return parts.filter((part) => part !== '').join('\n');
}
function headOf({ model, user, target, metadata }) {
    const { run_id, record_id, organisation, parent, children, completeness, latency_ms, call } = metadata;
    const { level, missing, orphans, numbers_in_text: texts, replaced_text: replaced } = completeness;
    const rows = [
        run_id === null ? ['Record', `${record_id}, without a run`] : ['Run', run_id],
        ['Organisation', organisation],
        ['Model', named(model?.model_id, model?.model_version)],
        ['User', named(user?.caller_id, user?.['caller_type'])],
        ['Target', named(target?.target_id, target?.['target_type'])],
        ...callRows(call),
        ['Latency', latency_ms === null ? NONE : `${latency_ms} ms to the first output`],
        ['Completeness', missing.length === 0 ? level : `${level}; missing: ${missing.join(', ')}`],
    ];
    if (orphans.length > 0)
        rows.push(['Orphans', orphans.join(' ')]);
    if (texts.length > 0)
        rows.push(['Numbers in text', texts.join(' ')]);
    if (replaced.length > 0)
        rows.push(['Replaced text', replaced.join(' ')]);
    if (parent !== null)
        rows.push(['Nested in', parent.run_id ?? `no run (event ${parent.event_id})`]);
    for (const [i, child] of children.entries())
        rows.push([i === 0 ? 'Nested runs' : '', child]);
    return alignedTable(rows);
}
/** What an instrumentation told of the call; nothing where the application has told its own run. */
function callRows(call) {
    if (call === null)
        return [];
    const { by, ending, status, error_name, attempts, response_model, input_tokens, output_tokens } = call;
    const how = [
        ...endingWords(ending, status, error_name),
        ...(attempts === 1 ? [] : [`attempt ${attempts}`]),
    ];
    const rows = [['Call', `${plain(how.join(', '))}; captured by ${plain(by)}`]];
    if (response_model !== null)
        rows.push(['Answered by', plain(response_model)]);
    if (input_tokens !== null || output_tokens !== null)
        rows.push(['Tokens', tokenWords(input_tokens, output_tokens)]);
    return rows;
}
/** `failed`, and by which status and error. */
function endingWords(ending, status, errorName) {
    const code = numberIn(status);
    return [
        ending,
        ...(code === undefined ? [] : [`status ${code}`]),
        ...(typeof errorName === 'string' ? [errorName] : []),
    ];
}
function tokenWords(input, output) {
    return `${numberIn(input) ?? NONE} in, ${numberIn(output) ?? NONE} out`;
}
/** @returns what is known of a thing: its id, and its version or sort. */
function named(id, more) {
    const known = [id, more].filter((part) => part !== undefined && part !== null).map(plain);
    return known.length === 0 ? NONE : known.join(' ');
}
function eventsOf(record, columns) {
    const { events } = record.metadata;
    const origin = startOf(events);
    const said = sayings(record);
    // Told apart only where there is something to tell apart.
    const isMixed = events.some((event) => makerOf(event) !== undefined);
    const maker = (event) => (isMixed ? [plain(makerOf(event) ?? 'application')] : []);
    const rows = events.map((event) => [
        offsetOf(event, origin),
        event.kind,
        ...maker(event),
        said.get(event.event_id) ?? unreadable(event),
    ]);
    return alignedTable([['TIME', 'EVENT', ...(isMixed ? ['MADE BY'] : []), ''], ...rows])
        .split('\n')
        .map((line) => cut(line, columns))
        .join('\n');
}
/** Each event as a paragraph. */
function fullEventsOf(record, columns) {
    const { events } = record.metadata;
    const origin = startOf(events);
    const sent = sentBy(record);
    return events.map((event) => {
        const maker = makerOf(event);
        const head = [
            offsetOf(event, origin),
            event.kind,
            ...(maker === undefined ? [] : [`by ${plain(maker)}`]),
        ];
        const body = (sent.get(event.event_id) ?? [])
            .map(([name, value]) => memberText(name, value, columns))
            .join('');
        const missing = unreadable(event);
        return `${head.join('  ')}  ${event.event_id}\n${body}${missing === '' ? '' : `${INDENT}${missing}\n`}`;
    });
}
/** What each event has, under the names that its sender used: two members may have the same. */
function sentBy(record) {
    const sent = new Map();
    const add = (eventId, ...parts) => sent.set(eventId, parts.flatMap((part) => Object.entries(part ?? {})));
    for (const { event_id, artifact, extra } of record.artifacts)
        add(event_id, artifact, extra);
    for (const { event_id, output, extra } of record.outputs)
        add(event_id, output, extra);
    for (const { event_id, outcome, extra } of record.outcomes)
        add(event_id, outcome, extra);
    for (const { event_id, feedback, extra } of record.feedback)
        add(event_id, feedback, extra);
    const { inputs, model, user, target } = record;
    for (const { kind, event_id, payload, second_start: again, extra } of record.metadata.events) {
        if (kind !== 'inference-start' || payload !== undefined)
            continue;
        if (again === undefined)
            add(event_id, inputs, model, user, target, extra);
        else
            add(event_id, again, extra);
    }
    return sent;
}
/** The name and the text behind it; a text of many lines, or too long for one, below it. Line breaks are the sender's. */
function memberText(name, value, columns) {
    if (value === undefined)
        return '';
    const words = name === 'rating_value' ? ratingWords(value) : name === 'usage' ? wordsOfUsage(value) : undefined;
    const text = words ?? (typeof value === 'string' ? value : printableJson(JSON.stringify(value)));
    const lines = text.split(/\r\n|\n|\r/).map((each) => legible(each.replaceAll('\t', '  ')));
    const label = `${INDENT}${legible(name)}: `;
    const [first = ''] = lines;
    if (lines.length === 1 && label.length + first.length <= columns)
        return `${label}${first}\n`;
    const indent = INDENT + INDENT;
    const below = lines.map((each) => `${wrapped(indent + each, columns, indent)}\n`.replace(/^ +\n$/, '\n'));
    return `${label.trimEnd()}\n${below.join('')}`;
}
/** The instrumentation that has made the event (docs/reference/instrumentation.md); undefined for one of the application's own. */
function makerOf({ system_metadata }) {
    const { by } = (system_metadata?.['instrumentation'] ?? {});
    return typeof by === 'string' ? by : undefined;
}
/** Times are told from the first start, or else from the first event that can be read. */
function startOf(events) {
    const start = events.find(({ kind, timestamp }) => kind === 'inference-start' && timestamp !== null);
    const first = start ?? events.find(({ timestamp }) => timestamp !== null);
    return first?.timestamp == null ? undefined : millisecondsOf(first.timestamp);
}
function offsetOf({ timestamp }, origin) {
    if (timestamp === null || origin === undefined)
        return NONE;
    const offset = millisecondsOf(timestamp) - origin;
    return offset === 0 ? timestamp : `${offset < 0 ? '-' : '+'}${duration(Math.abs(offset))}`;
}
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** In the two largest units. */
function duration(milliseconds) {
    if (milliseconds < SECOND)
        return `${milliseconds} ms`;
    if (milliseconds < MINUTE)
        return `${(milliseconds / SECOND).toFixed(1)} s`;
    if (milliseconds < HOUR)
        return `${Math.floor(milliseconds / MINUTE)} min ${Math.floor((milliseconds % MINUTE) / SECOND)} s`;
    if (milliseconds < DAY)
        return `${Math.floor(milliseconds / HOUR)} h ${Math.floor((milliseconds % HOUR) / MINUTE)} min`;
    return `${Math.floor(milliseconds / DAY)} d ${Math.floor((milliseconds % DAY) / HOUR)} h`;
}
/** What each event says, in a line. */
function sayings({ model, inputs, artifacts, outputs, outcomes, feedback, metadata, }) {
    const said = new Map();
    for (const { event_id, artifact } of artifacts) {
        said.set(event_id, line(...callWords(artifact), ...artifactWords(artifact), ...usageWords(artifact)));
    }
    for (const { event_id, output } of outputs)
        said.set(event_id, line(...callWords(output), output.summary ?? output.output_uri, ...usageWords(output)));
    for (const { event_id, outcome } of outcomes) {
        said.set(event_id, line(outcome['outcome_type'], outcome['description'] ?? outcome));
    }
    for (const { event_id, feedback: words } of feedback) {
        said.set(event_id, line(...feedbackWords(words)));
    }
    for (const event of metadata.events) {
        if (event.kind !== 'inference-start' || event.payload !== undefined)
            continue;
        const again = event.second_start;
        said.set(event.event_id, again === undefined
            ? `${named(model?.model_id, model?.model_version)}  ${line(inputs?.prompt ?? inputs?.input_uri)}`.trimEnd()
            : `another start:  ${named(again.model_instance?.model_id, again.model_instance?.model_version)}`);
    }
    return said;
}
/** What instrumentations write of an ending, of whatever attempt. */
function callWords({ ending, status, error_name: name }) {
    if (!CALL_ENDINGS.some((each) => each === ending))
        return [];
    return [ending === 'complete' ? ending : endingWords(String(ending), status, name).join(', ')];
}
/** What a provider counted, of whatever attempt. */
function usageWords({ ending, usage }) {
    const words = ending === undefined ? undefined : wordsOfUsage(usage);
    return words === undefined ? [] : [`tokens: ${words}`];
}
function wordsOfUsage(usage) {
    if (typeof usage !== 'object' || usage === null)
        return undefined;
    const { input_tokens: input, output_tokens: output } = usage;
    const isCounted = numberIn(input) !== undefined || numberIn(output) !== undefined;
    return isCounted ? tokenWords(input, output) : undefined;
}
/** `thumbs up`, `rating 4 of 5`, and what was said beside it. */
function feedbackWords(feedback) {
    const { feedback_type: type, direction, comment } = feedback;
    const rating = ratingWords(feedback['rating_value']);
    const thumb = type === 'thumbs' ? thumbOf(direction, feedback['rating_value']) : undefined;
    if (thumb !== undefined)
        return [`thumbs ${thumb}`, rating && `rating ${rating}`, comment];
    if (rating === undefined)
        return [type, comment ?? feedback];
    return [...(type === 'rating' ? [] : [type]), `rating ${rating}`, comment];
}
/** Of the scale of R-118; undefined for what is not on it. */
function ratingWords(value) {
    const rating = numberIn(value);
    return rating !== undefined && rating >= 0 && rating <= MOST_RATING
        ? `${rating} of ${MOST_RATING}`
        : undefined;
}
function artifactWords({ artifact_type, description, artifact_uri, ...more }) {
    if (artifact_type === 'tool_call' && description === undefined && typeof more['tool_name'] === 'string')
        return [artifact_type, more['tool_name']];
    return [artifact_type, description ?? artifact_uri];
}
function unreadable({ payload, action, retired_at }) {
    if (payload === undefined)
        return '';
    return action === undefined
        ? `payload ${payload}`
        : `payload retired on ${retired_at?.slice(0, 10) ?? ''} by action ${action}`;
}
function line(...parts) {
    return parts
        .filter((part) => part !== undefined && part !== null)
        .map(plain)
        .join('  ');
}
/** On one line, and harmless on a terminal. */
function plain(value) {
    return typeof value === 'string'
        ? legible(value.replace(/\s+/g, ' '))
        : printableJson(JSON.stringify(value));
}
function conflictsOf({ metadata: { conflicts } }) {
    if (conflicts.length === 0)
        return '';
    const rows = conflicts.map(({ kind, rule, event_ids }) => [
        rule === undefined ? kind : `${kind}: ${rule}`,
        event_ids.join(' '),
    ]);
    return alignedTable([['CONFLICT', 'EVENTS'], ...rows]);
}
function cut(text, columns) {
    return text.length <= columns ? text : `${text.slice(0, columns - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}
//# sourceMappingURL=timeline.js.map