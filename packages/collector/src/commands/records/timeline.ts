/** One record as text: identity and model at the top, then its events in canonical order. */
import type { Artifact, ClinicalRecord, RecordedEvent } from '@clinical-events/protocol';
import { millisecondsOf } from '../../records/exports/record-columns.js';
import { numberIn } from '../../records/raw-json.js';
import { thumbOf } from '../../records/vocabulary.js';
import { CALL_ENDINGS, eventIdsOf } from '../../records/calls.js';
import { legible, printableJson, alignedTable, wrapped } from '../terminal.js';
import type { ContentDirectory } from './content.js';

const NARROWEST = 60;
const WIDTH_WITHOUT_TERMINAL = 120;
const NONE = '-';
const MOST_RATING = 5;
const INDENT = '    ';
/** Members that reference content. */
const OF_CONTENT: readonly string[] = ['input_uri', 'artifact_uri', 'output_uri', 'evidence_uri'];

/** The width of a timeline on standard output. */
export function outputColumns(): number {
  return process.stdout.isTTY ? process.stdout.columns : WIDTH_WITHOUT_TERMINAL;
}

/** Like {@link outputColumns}, but the width of the terminal if the output is a pipe to a pager. */
export function pagerColumns(): number {
  return process.stdout.isTTY || !process.stderr.isTTY ? outputColumns() : process.stderr.columns;
}

/** A record with one line per event. @param columns width of the terminal. */
export function timeline(record: ClinicalRecord, columns: number): string {
  return joined(
    headOf(record),
    callsOf(record, Math.max(columns, NARROWEST)),
    eventsOf(record, Math.max(columns, NARROWEST)),
    conflictsOf(record),
  );
}

/**
 * Every member of the events in full, wrapped at `columns`; longer words are not broken.
 * @param content the directory with the content that URIs reference; if undefined, none is read.
 */
export function fullTimeline(record: ClinicalRecord, columns: number, content?: ContentDirectory): string {
  return joined(
    headOf(record),
    callsOf(record, Math.max(columns, NARROWEST)),
    ...fullEventsOf(record, Math.max(columns, NARROWEST), content),
    conflictsOf(record),
  );
}

/** How one record is printed for a person. */
export function textOfRecord(
  isFull: boolean,
  content: ContentDirectory | undefined,
): (record: ClinicalRecord) => string {
  const columns = isFull ? pagerColumns() : outputColumns();
  return (record) => (isFull ? fullTimeline(record, columns, content) : timeline(record, columns));
}

function joined(...parts: readonly string[]): string {
  return parts.filter((part) => part !== '').join('\n');
}

function headOf({ model, user, target, metadata }: ClinicalRecord): string {
  const { run_id, record_id, organisation, parent, children, completeness, latency_ms } = metadata;
  const { level, missing, orphans, numbers_in_text: texts, replaced_text: replaced } = completeness;
  const rows: [string, string][] = [
    run_id === null ? ['Record', `${record_id}, without a run`] : ['Run', run_id],
    ['Organisation', organisation],
    ['Model', named(model?.model_id, model?.model_version)],
    ['User', named(user?.caller_id, user?.['caller_type'])],
    ['Target', named(target?.target_id, target?.['target_type'])],
    ...(isOfSeveral(metadata) ? [] : callRows(metadata.call)),
    ['Latency', latency_ms === null ? NONE : `${latency_ms} ms to the first output`],
    ['Completeness', missing.length === 0 ? level : `${level}; missing: ${missing.join(', ')}`],
  ];
  if (orphans.length > 0) rows.push(['Orphans', orphans.join(' ')]);
  if (texts.length > 0) rows.push(['Numbers in text', texts.join(' ')]);
  if (replaced.length > 0) rows.push(['Replaced text', replaced.join(' ')]);
  if (parent !== null) rows.push(['Nested in', parent.run_id ?? `no run (event ${parent.event_id})`]);
  for (const [i, child] of children.entries()) rows.push([i === 0 ? 'Nested runs' : '', child]);
  return alignedTable(rows);
}

function isOfSeveral({ calls }: ClinicalRecord['metadata']): boolean {
  return calls.length > 1;
}

/** The calls of a run with several calls, one line each. */
function callsOf({ metadata }: ClinicalRecord, columns: number): string {
  if (!isOfSeveral(metadata)) return '';
  const rows = metadata.calls.map(({ model, latency_ms, ended }, place) => [
    String(place + 1),
    named(model?.model_id, model?.model_version),
    latency_ms === null ? NONE : `${latency_ms} ms`,
    ended === null ? NONE : plain(endingWords(ended.ending, ended.status, ended.error_name).join(', ')),
    ended?.response_model == null ? NONE : plain(ended.response_model),
    ended === null ? NONE : tokenWords(ended.input_tokens, ended.output_tokens),
  ]);
  return cutTable([['CALL', 'MODEL', 'LATENCY', 'ENDED', 'ANSWERED BY', 'TOKENS'], ...rows], columns);
}

/** The number of the call of each event, by event id; empty for a run with one call. */
export function callNumbers({ metadata }: ClinicalRecord): ReadonlyMap<string, number> {
  const numbers = new Map<string, number>();
  if (!isOfSeveral(metadata)) return numbers;
  for (const [place, call] of metadata.calls.entries())
    for (const eventId of eventIdsOf(call)) numbers.set(eventId, place + 1);
  return numbers;
}

/** The call as reported by an instrumentation; empty if the application reported its own run. */
function callRows(call: ClinicalRecord['metadata']['call']): [string, string][] {
  if (call === null) return [];
  const { by, ending, status, error_name, attempts, response_model, input_tokens, output_tokens } = call;
  const how = [
    ...endingWords(ending, status, error_name),
    ...(attempts === 1 ? [] : [`attempt ${attempts}`]),
  ];
  const rows: [string, string][] = [['Call', `${plain(how.join(', '))}; captured by ${plain(by)}`]];
  if (response_model !== null) rows.push(['Answered by', plain(response_model)]);
  if (input_tokens !== null || output_tokens !== null)
    rows.push(['Tokens', tokenWords(input_tokens, output_tokens)]);
  return rows;
}

/** The ending, with status and error if known. */
export function endingWords(ending: string, status: unknown, errorName: unknown): string[] {
  const code = numberIn(status);
  return [
    ending,
    ...(code === undefined ? [] : [`status ${code}`]),
    ...(typeof errorName === 'string' ? [errorName] : []),
  ];
}

/** Token counts. Agents and failed calls may have no counts. */
function tokenWords(input: unknown, output: unknown): string {
  if (numberIn(input) === undefined && numberIn(output) === undefined) return NONE;
  return `${numberIn(input) ?? NONE} in, ${numberIn(output) ?? NONE} out`;
}

/** @returns an id followed by its version or type, if known. */
function named(id: unknown, more: unknown): string {
  const known = [id, more].filter((part) => part !== undefined && part !== null).map(plain);
  return known.length === 0 ? NONE : known.join(' ');
}

function eventsOf(record: ClinicalRecord, columns: number): string {
  const { events } = record.metadata;
  const origin = startOf(events);
  const said = sayings(record);
  // The column is shown only if an instrumentation has made an event.
  const isMixed = events.some((event) => makerOf(event) !== undefined);
  const maker = (event: RecordedEvent) => (isMixed ? [plain(makerOf(event) ?? 'application')] : []);
  const numbers = callNumbers(record);
  const ofCall = (text: string | number) => (numbers.size > 0 ? [String(text)] : []);
  const rows = events.map((event) => [
    offsetOf(event, origin),
    ...ofCall(numbers.get(event.event_id) ?? NONE),
    event.kind,
    ...maker(event),
    said.get(event.event_id) ?? unreadable(event),
  ]);
  return cutTable(
    [['TIME', ...ofCall('CALL'), 'EVENT', ...(isMixed ? ['MADE BY'] : []), ''], ...rows],
    columns,
  );
}

/** The events, one paragraph each. */
function fullEventsOf(
  record: ClinicalRecord,
  columns: number,
  content: ContentDirectory | undefined,
): string[] {
  const { events } = record.metadata;
  const origin = startOf(events);
  const sent = sentBy(record);
  const numbers = callNumbers(record);
  const contentText = (name: string, value: unknown, members: Members) => {
    if (content === undefined || typeof value !== 'string' || !OF_CONTENT.includes(name)) return '';
    const [, type] = members.find(([each]) => each === 'mime_type') ?? [];
    const found = content.read(value, typeof type === 'string' ? type : undefined);
    if (found === undefined) return '';
    return memberText(`content of ${name}`, 'text' in found ? found.text : found.note, columns);
  };
  return events.map((event) => {
    const maker = makerOf(event);
    const call = numbers.get(event.event_id);
    const head = [
      offsetOf(event, origin),
      event.kind,
      ...(maker === undefined ? [] : [`by ${plain(maker)}`]),
    ];
    const members = sent.get(event.event_id) ?? [];
    const body = members
      .map(([name, value]) => memberText(name, value, columns) + contentText(name, value, members))
      .join('');
    const missing = unreadable(event);
    const ofCall = call === undefined ? '' : `${INDENT}of call ${call}\n`;
    const last = missing === '' ? '' : `${INDENT}${missing}\n`;
    return `${head.join('  ')}  ${event.event_id}\n${ofCall}${body}${last}`;
  });
}

type Members = readonly (readonly [string, unknown])[];

/** The members of each event under the sender's names; a name may occur twice. */
function sentBy(record: ClinicalRecord): Map<string, Members> {
  const sent = new Map<string, Members>();
  const add = (eventId: string, ...parts: readonly (object | null | undefined)[]) =>
    sent.set(
      eventId,
      parts.flatMap((part) => Object.entries(part ?? {}) as Members),
    );
  for (const { event_id, artifact, extra } of record.artifacts) add(event_id, artifact, extra);
  for (const { event_id, output, extra } of record.outputs) add(event_id, output, extra);
  for (const { event_id, outcome, extra } of record.outcomes) add(event_id, outcome, extra);
  for (const { event_id, feedback, extra } of record.feedback) add(event_id, feedback, extra);
  const { calls, events } = record.metadata;
  const extras = new Map(events.map(({ event_id, extra }) => [event_id, extra]));
  for (const { event_id, inputs, model, user, target } of calls)
    add(event_id, inputs, model, user, target, extras.get(event_id));
  return sent;
}

/** The name followed by the text. A text that is long or has several lines begins on a new line. */
function memberText(name: string, value: unknown, columns: number): string {
  if (value === undefined) return '';
  const words =
    name === 'rating_value' ? ratingWords(value) : name === 'usage' ? wordsOfUsage(value) : undefined;
  const text = words ?? (typeof value === 'string' ? value : printableJson(JSON.stringify(value)));
  const lines = text.split(/\r\n|\n|\r/).map((each) => legible(each.replaceAll('\t', '  ')));
  const label = `${INDENT}${legible(name)}: `;
  const [first = ''] = lines;
  if (lines.length === 1 && label.length + first.length <= columns) return `${label}${first}\n`;
  const indent = INDENT + INDENT;
  const below = lines.map((each) => `${wrapped(indent + each, columns, indent)}\n`.replace(/^ +\n$/, '\n'));
  return `${label.trimEnd()}\n${below.join('')}`;
}

/**
 * The instrumentation that made the event (docs/reference/instrumentation.md); undefined for the
 * application's own.
 */
export function makerOf({ system_metadata }: RecordedEvent): string | undefined {
  const { by } = (system_metadata?.['instrumentation'] ?? {}) as Readonly<Record<string, unknown>>;
  return typeof by === 'string' ? by : undefined;
}

/** The origin of times: the first start, or else the first readable event. */
export function startOf(events: readonly RecordedEvent[]): number | undefined {
  const start = events.find(({ kind, timestamp }) => kind === 'inference-start' && timestamp !== null);
  const first = start ?? events.find(({ timestamp }) => timestamp !== null);
  return first?.timestamp == null ? undefined : millisecondsOf(first.timestamp);
}

function offsetOf({ timestamp }: RecordedEvent, origin: number | undefined): string {
  if (timestamp === null || origin === undefined) return NONE;
  const offset = millisecondsOf(timestamp) - origin;
  return offset === 0 ? timestamp : `${offset < 0 ? '-' : '+'}${duration(Math.abs(offset))}`;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A duration in its two largest units. */
export function duration(milliseconds: number): string {
  if (milliseconds < SECOND) return `${milliseconds} ms`;
  if (milliseconds < MINUTE) return `${(milliseconds / SECOND).toFixed(1)} s`;
  if (milliseconds < HOUR)
    return `${Math.floor(milliseconds / MINUTE)} min ${Math.floor((milliseconds % MINUTE) / SECOND)} s`;
  if (milliseconds < DAY)
    return `${Math.floor(milliseconds / HOUR)} h ${Math.floor((milliseconds % HOUR) / MINUTE)} min`;
  return `${Math.floor(milliseconds / DAY)} d ${Math.floor((milliseconds % DAY) / HOUR)} h`;
}

/** A one-line summary of each event. */
function sayings({ artifacts, outputs, outcomes, feedback, metadata }: ClinicalRecord): Map<string, string> {
  const said = new Map<string, string>();
  for (const { event_id, artifact } of artifacts) {
    said.set(event_id, line(...callWords(artifact), ...artifactWords(artifact), ...usageWords(artifact)));
  }
  for (const { event_id, output } of outputs)
    said.set(
      event_id,
      line(...callWords(output), output.summary ?? output.output_uri, ...usageWords(output)),
    );
  for (const { event_id, outcome } of outcomes) {
    said.set(event_id, line(outcome['outcome_type'], outcome['description'] ?? outcome));
  }
  for (const { event_id, feedback: words } of feedback) {
    said.set(event_id, line(...feedbackWords(words)));
  }
  for (const { event_id, timestamp, model, inputs } of metadata.calls) {
    if (timestamp === null) continue;
    const prompt = line(inputs?.prompt ?? inputs?.input_uri);
    const words = `${named(model?.model_id, model?.model_version)}  ${prompt}`;
    said.set(event_id, words.trimEnd());
  }
  return said;
}

/** The ending of a call or attempt, as instrumentations write it. */
function callWords({ ending, status, error_name: name }: Readonly<Record<string, unknown>>): unknown[] {
  if (!CALL_ENDINGS.some((each) => each === ending)) return [];
  return [ending === 'complete' ? ending : endingWords(String(ending), status, name).join(', ')];
}

/** The tokens that a provider counted for a call or attempt. */
function usageWords({ ending, usage }: Readonly<Record<string, unknown>>): string[] {
  const words = ending === undefined ? undefined : wordsOfUsage(usage);
  return words === undefined ? [] : [`tokens: ${words}`];
}

function wordsOfUsage(usage: unknown): string | undefined {
  if (typeof usage !== 'object' || usage === null) return undefined;
  const { input_tokens: input, output_tokens: output } = usage as Readonly<Record<string, unknown>>;
  const isCounted = numberIn(input) !== undefined || numberIn(output) !== undefined;
  return isCounted ? tokenWords(input, output) : undefined;
}

/** Feedback such as `thumbs up` or `rating 4 of 5`, with its comment. */
function feedbackWords(feedback: Readonly<Record<string, unknown>>): unknown[] {
  const { feedback_type: type, direction, comment } = feedback;
  const rating = ratingWords(feedback['rating_value']);
  const thumb = type === 'thumbs' ? thumbOf(direction, feedback['rating_value']) : undefined;
  if (thumb !== undefined) return [`thumbs ${thumb}`, rating && `rating ${rating}`, comment];
  if (rating === undefined) return [type, comment ?? feedback];
  return [...(type === 'rating' ? [] : [type]), `rating ${rating}`, comment];
}

/** A rating on the scale of R-115; undefined for other values. */
export function ratingWords(value: unknown): string | undefined {
  const rating = numberIn(value);
  return rating !== undefined && rating >= 0 && rating <= MOST_RATING
    ? `${rating} of ${MOST_RATING}`
    : undefined;
}

function artifactWords({ artifact_type, description, artifact_uri, ...more }: Artifact): unknown[] {
  if (artifact_type === 'tool_call' && description === undefined && typeof more['tool_name'] === 'string')
    return [artifact_type, more['tool_name']];
  return [artifact_type, description ?? artifact_uri];
}

function unreadable({ payload, action, erased_at }: RecordedEvent): string {
  if (payload === undefined) return '';
  return action === undefined
    ? `payload ${payload}`
    : `payload erased on ${erased_at?.slice(0, 10) ?? ''} by action ${action}`;
}

function line(...parts: readonly unknown[]): string {
  return parts
    .filter((part) => part !== undefined && part !== null)
    .map(plain)
    .join('  ');
}

/** The text on one line, with control characters escaped. */
function plain(value: unknown): string {
  return typeof value === 'string'
    ? legible(value.replace(/\s+/g, ' '))
    : printableJson(JSON.stringify(value));
}

function conflictsOf({ metadata: { conflicts } }: ClinicalRecord): string {
  if (conflicts.length === 0) return '';
  const rows = conflicts.map(({ kind, rule, event_ids }) => [
    rule === undefined ? kind : `${kind}: ${rule}`,
    event_ids.join(' '),
  ]);
  return alignedTable([['CONFLICT', 'EVENTS'], ...rows]);
}

function cutTable(rows: readonly (readonly string[])[], columns: number): string {
  return alignedTable(rows)
    .split('\n')
    .map((line) => cut(line, columns))
    .join('\n');
}

function cut(text: string, columns: number): string {
  return text.length <= columns ? text : `${text.slice(0, columns - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}
