/** One record as text for a person: who and what at the top, then what happened, when, in canonical order. */
import type { Artifact, ClinicalRecord, RecordedEvent } from '@clinical-events/protocol';
import { millisecondsOf } from '../records/exports/record-columns.js';
import { CALL_ENDINGS } from '../records/recorded-call.js';
import { legible, printableJson } from './printable.js';
import { alignedTable } from './table.js';

const NARROWEST = 60;
const WIDTH_WITHOUT_TERMINAL = 120;
const NONE = '-';

/** How wide a timeline may be on standard output. */
export function outputColumns(): number {
  return process.stdout.isTTY ? process.stdout.columns : WIDTH_WITHOUT_TERMINAL;
}

/** @param columns how wide the terminal is. */
export function timeline(record: ClinicalRecord, columns: number): string {
  return [headOf(record), eventsOf(record, Math.max(columns, NARROWEST)), conflictsOf(record)]
    .filter((part) => part !== '')
    .join('\n');
}

function headOf({ model, user, target, metadata }: ClinicalRecord): string {
  const { run_id, record_id, organisation, parent, children, completeness, latency_ms, call } = metadata;
  const { level, missing, orphans, numbers_in_text: texts } = completeness;
  const rows: [string, string][] = [
    run_id === null ? ['Record', `${record_id}, without a run`] : ['Run', run_id],
    ['Organisation', organisation],
    ['Model', named(model?.model_id, model?.model_version)],
    ['User', named(user?.caller_id, user?.['caller_type'])],
    ['Target', named(target?.target_id, target?.['target_type'])],
    ...callRows(call),
    ['Latency', latency_ms === null ? NONE : `${latency_ms} ms to the first output`],
    ['Completeness', missing.length === 0 ? level : `${level}; missing: ${missing.join(', ')}`],
  ];
  if (orphans.length > 0) rows.push(['Orphans', orphans.join(' ')]);
  if (texts.length > 0) rows.push(['Numbers in text', texts.join(' ')]);
  if (parent !== null) rows.push(['Nested in', parent.run_id ?? `no run (event ${parent.event_id})`]);
  for (const [i, child] of children.entries()) rows.push([i === 0 ? 'Nested runs' : '', child]);
  return alignedTable(rows);
}

/** What an instrumentation told of the call; nothing where the application has told its own run. */
function callRows(call: ClinicalRecord['metadata']['call']): [string, string][] {
  if (call === null) return [];
  const { by, ending, status, error_name, attempts, response_model, input_tokens, output_tokens } = call;
  const how = [
    ending,
    ...(status === null ? [] : [`status ${status}`]),
    ...(error_name === null ? [] : [plain(error_name)]),
    ...(attempts === 1 ? [] : [`attempt ${attempts}`]),
  ];
  const rows: [string, string][] = [['Call', `${how.join(', ')}; captured by ${plain(by)}`]];
  if (response_model !== null) rows.push(['Answered by', plain(response_model)]);
  if (input_tokens !== null || output_tokens !== null)
    rows.push(['Tokens', `${input_tokens ?? NONE} in, ${output_tokens ?? NONE} out`]);
  return rows;
}

/** @returns what is known of a thing: its id, and its version or sort. */
function named(id: unknown, more: unknown): string {
  const known = [id, more].filter((part) => part !== undefined && part !== null).map(plain);
  return known.length === 0 ? NONE : known.join(' ');
}

function eventsOf(record: ClinicalRecord, columns: number): string {
  const { events } = record.metadata;
  const origin = startOf(events);
  const said = sayings(record);
  // Told apart only where there is something to tell apart.
  const isMixed = events.some((event) => makerOf(event) !== undefined);
  const maker = (event: RecordedEvent) => (isMixed ? [plain(makerOf(event) ?? 'application')] : []);
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

/** The instrumentation that has made the event (docs/CLIENT_SPEC.md); undefined for one of the application's own. */
function makerOf({ system_metadata }: RecordedEvent): string | undefined {
  const { by } = (system_metadata?.['instrumentation'] ?? {}) as Readonly<Record<string, unknown>>;
  return typeof by === 'string' ? by : undefined;
}

/** Times are told from the first start, or else from the first event that can be read. */
function startOf(events: readonly RecordedEvent[]): number | undefined {
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

/** In the two largest units. */
function duration(milliseconds: number): string {
  if (milliseconds < SECOND) return `${milliseconds} ms`;
  if (milliseconds < MINUTE) return `${(milliseconds / SECOND).toFixed(1)} s`;
  if (milliseconds < HOUR)
    return `${Math.floor(milliseconds / MINUTE)} min ${Math.floor((milliseconds % MINUTE) / SECOND)} s`;
  if (milliseconds < DAY)
    return `${Math.floor(milliseconds / HOUR)} h ${Math.floor((milliseconds % HOUR) / MINUTE)} min`;
  return `${Math.floor(milliseconds / DAY)} d ${Math.floor((milliseconds % DAY) / HOUR)} h`;
}

/** What each event says, in a line. */
function sayings({
  model,
  inputs,
  artifacts,
  outputs,
  outcomes,
  feedback,
  metadata,
}: ClinicalRecord): Map<string, string> {
  const said = new Map<string, string>();
  for (const { event_id, artifact } of artifacts) {
    said.set(event_id, line(...callWords(artifact), ...artifactWords(artifact)));
  }
  for (const { event_id, output } of outputs)
    said.set(event_id, line(...callWords(output), output.summary ?? output.output_uri));
  for (const { event_id, outcome } of outcomes) {
    said.set(event_id, line(outcome['outcome_type'], outcome['description'] ?? outcome));
  }
  for (const { event_id, feedback: words } of feedback) {
    said.set(event_id, line(words['feedback_type'], words['rating_value'], words['comment'] ?? words));
  }
  for (const event of metadata.events) {
    if (event.kind !== 'inference-start' || event.payload !== undefined) continue;
    const again = event.second_start;
    said.set(
      event.event_id,
      again === undefined
        ? `${named(model?.model_id, model?.model_version)}  ${line(inputs?.prompt ?? inputs?.input_uri)}`.trimEnd()
        : `another start:  ${named(again.model_instance?.model_id, again.model_instance?.model_version)}`,
    );
  }
  return said;
}

/** What instrumentations write of an ending, of whatever attempt. */
function callWords({ ending, status, error_name: name }: Readonly<Record<string, unknown>>): unknown[] {
  if (!CALL_ENDINGS.some((each) => each === ending)) return [];
  return ending === 'complete' ? [ending] : [ending, status, name];
}

function artifactWords({ artifact_type, description, artifact_uri, ...more }: Artifact): unknown[] {
  if (artifact_type === 'tool_call' && description === undefined && typeof more['tool_name'] === 'string')
    return [artifact_type, more['tool_name']];
  return [artifact_type, description ?? artifact_uri];
}

function unreadable({ payload }: RecordedEvent): string {
  return payload === undefined ? '' : `payload ${payload}`;
}

function line(...parts: readonly unknown[]): string {
  return parts
    .filter((part) => part !== undefined && part !== null)
    .map(plain)
    .join('  ');
}

/** On one line, and harmless on a terminal. */
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

function cut(text: string, columns: number): string {
  return text.length <= columns ? text : `${text.slice(0, columns - 1)}…`;
}
