/** One record as text for a person: who and what at the top, then what happened, when, in canonical order. */
import type { ClinicalRecord, RecordedEvent } from '@clinical-events/protocol';
import { millisecondsOf } from '../records/exports/record-columns.js';
import { printable, printableJson } from './printable.js';
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
  const { run_id, record_id, organisation, parent, children, completeness, latency_ms } = metadata;
  const { level, missing, orphans } = completeness;
  const rows: [string, string][] = [
    run_id === null ? ['Record', `${record_id}, without a run`] : ['Run', run_id],
    ['Organisation', organisation],
    ['Model', named(model?.model_id, model?.model_version)],
    ['User', named(user?.caller_id, user?.['caller_type'])],
    ['Target', named(target?.target_id, target?.['target_type'])],
    ['Latency', latency_ms === null ? NONE : `${latency_ms} ms to the first output`],
    ['Completeness', missing.length === 0 ? level : `${level}; missing: ${missing.join(', ')}`],
  ];
  if (orphans.length > 0) rows.push(['Orphans', orphans.join(' ')]);
  if (parent !== null) rows.push(['Nested in', parent.run_id ?? `no run (event ${parent.event_id})`]);
  for (const [i, child] of children.entries()) rows.push([i === 0 ? 'Nested runs' : '', child]);
  return alignedTable(rows);
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
  const rows = events.map((event) => [
    offsetOf(event, origin),
    event.kind,
    said.get(event.event_id) ?? unreadable(event),
  ]);
  return alignedTable([['TIME', 'EVENT', ''], ...rows])
    .split('\n')
    .map((line) => cut(line, columns))
    .join('\n');
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
    said.set(event_id, line(artifact.artifact_type, artifact.description ?? artifact.artifact_uri));
  }
  for (const { event_id, output } of outputs) said.set(event_id, line(output.summary ?? output.output_uri));
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
        ? line(named(model?.model_id, model?.model_version), inputs?.prompt ?? inputs?.input_uri)
        : line('another start:', named(again.model_instance?.model_id, again.model_instance?.model_version)),
    );
  }
  return said;
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
    ? printable(value.replace(/\s+/g, ' '))
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
