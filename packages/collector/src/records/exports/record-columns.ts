/**
 * The columns of a record, for CSV and Parquet (docs/reference/records.md). A value whose type is not the
 * column's is left out: with profile `minimum` a sender may write any type.
 */
import type { RecordedCall } from '@clinical-events/protocol';
import { epochMilliseconds, readInstant, hasDay } from '../instant.js';
import { MemberName } from '../json-scan.js';
import { numberIn } from '../raw-json.js';
import type { AssembledRun, RunMetadata } from '../assemble.js';
import { failedIn } from '../calls.js';
import type { TimedEvent } from '../canonical-order.js';
import { hasMember, memberIn, ScannedObject, type Sent, sentIn, type Text } from '../run-event.js';

/** The source of columns: a record, or an assembled run. */
export interface ColumnSource {
  readonly model: Sent | null;
  readonly user: Sent | null;
  readonly target: Sent | null;
  readonly inputs: Sent | null;
  readonly metadata: RunMetadata & {
    readonly calls: readonly { readonly ended: RecordedCall | null }[];
    readonly events: readonly unknown[];
  };
}

interface Column<Type extends string, Value, Of> {
  readonly name: string;
  readonly type: Type;
  /** Undefined if the record has no value. */
  readonly of: (source: Of) => Value | undefined;
}

/** A column whose values `of` finds in a record. */
type ValueColumn<Of> =
  | Column<'text', Text, Of>
  | Column<'number', number, Of>
  | Column<'count', number, Of>
  | Column<'flag', boolean, Of>
  /** From an RFC 3339 date-time that the schemas or {@link timeIn} accepted. */
  | Column<'time', string, Of>
  | Column<'texts', readonly string[], Of>;

export type RecordColumn<Of = AssembledRun> = ValueColumn<Of>;

/** RFC 3339 without the leap second; the day of the month is checked separately. */
const DATE_TIME =
  /^\d{4}-\d\d-\d\d[Tt](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

export function textIn(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** A date-time in a field that the protocol does not check. */
export function timeIn(value: unknown): string | undefined {
  return typeof value === 'string' && DATE_TIME.test(value) && hasDay(value) ? value : undefined;
}

/** Milliseconds since 1970 UTC, rounded down. */
export function millisecondsOf(time: string): number {
  return epochMilliseconds(readInstant(time));
}

export const NAMES = {
  model_id: new MemberName('model_id'),
  model_version: new MemberName('model_version'),
  caller_id: new MemberName('caller_id'),
  target_id: new MemberName('target_id'),
  input_uri: new MemberName('input_uri'),
  prompt: new MemberName('prompt'),
  caller_type: new MemberName('caller_type'),
  target_type: new MemberName('target_type'),
};

/** The text of a member; undefined if there is none. */
export function textOf(sent: Sent | null | undefined, name: MemberName): Text | undefined {
  return sent instanceof ScannedObject ? sent.text(name) : textIn(sent?.[name.text]);
}

export function stringOf(text: Text | undefined): string | undefined {
  return typeof text === 'object' ? text.bytes.toString('utf8', text.from, text.to) : text;
}

/**
 * The model that the start names; if it names no version, the model that answered. A call that failed or
 * ended without an answer counts for the requested model.
 */
export function modelVersionOf(model: Sent | null, ended: RecordedCall | null): Text | undefined {
  if (model === null) return undefined;
  const answered = ended?.ending === 'failed' ? null : ended?.response_model;
  const said = textOf(model, NAMES.model_version) ?? answered ?? undefined;
  if (said !== undefined || ended === null || ended.ending === 'complete') return said;
  return textOf(model, NAMES.model_id);
}

/** The model of the first call, as in the catalogue. */
export function versionOf({ model, metadata: { calls } }: ColumnSource): Text | undefined {
  return modelVersionOf(model, calls[0]?.ended ?? null);
}

/* The host of a run, and its sampling decision. */

const APP_NAME = new MemberName('app_name');
const HOSTNAME = new MemberName('hostname');
const ENVIRONMENT = new MemberName('environment');

/** A text in the system_metadata of the start, otherwise of the first event that has one. */
export function systemText(
  events: readonly TimedEvent[],
  start: TimedEvent | undefined,
  name: MemberName,
): Text | undefined {
  for (const { body } of start === undefined ? events : [start, ...events]) {
    const text = textOf(body && sentIn(body, 'system_metadata'), name);
    if (text !== undefined) return text;
  }
  return undefined;
}

const systemColumn = (member: MemberName): RecordColumn => ({
  name: member.text,
  type: 'text',
  of: ({ metadata: { events }, start }) => systemText(events, start, member),
});

const SAMPLING = new MemberName('sampling');
const NOT_CAPTURED = new MemberName('not_captured');

/** Sampling data (docs/reference/sampling.md); undefined if the run has none. */
interface SamplingMarks {
  readonly rate: number | undefined;
  readonly selected: boolean | undefined;
  readonly afterModelChange: boolean | undefined;
  readonly trigger: string | undefined;
  /** Reports of omitted runs in the events of the run. */
  readonly notCaptured: { readonly runs: number; readonly events: number } | undefined;
}

let lastMarked: { readonly run: AssembledRun; readonly marks: SamplingMarks } | undefined;

/** Computed once for all columns of a run. */
function marksOf(run: AssembledRun): SamplingMarks {
  if (lastMarked?.run !== run) lastMarked = { run, marks: foundMarks(run) };
  return lastMarked.marks;
}

function foundMarks({ metadata, start }: AssembledRun): SamplingMarks {
  const { rate, selected, after_model_change: changed } = systemObject(start, SAMPLING);
  let trigger: string | undefined;
  let notCaptured: SamplingMarks['notCaptured'];
  for (const timed of metadata.events) {
    trigger ??= textIn(systemObject(timed, SAMPLING)['trigger']);
    const { runs, events } = systemObject(timed, NOT_CAPTURED);
    if (runs === undefined && events === undefined) continue;
    const before = notCaptured ?? { runs: 0, events: 0 };
    notCaptured = {
      runs: before.runs + (numberIn(runs) ?? 0),
      events: before.events + (numberIn(events) ?? 0),
    };
  }
  return {
    rate: numberIn(rate),
    selected: flagIn(selected),
    afterModelChange: flagIn(changed),
    trigger,
    notCaptured,
  };
}

const NOTHING = {};

function systemObject(timed: TimedEvent | undefined, name: MemberName): Readonly<Record<string, unknown>> {
  const system = timed?.body && sentIn(timed.body, 'system_metadata');
  // Few events have the member, and all are searched.
  if (system === undefined || !hasMember(system, name)) return NOTHING;
  const value = memberIn(system, name);
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : NOTHING;
}

function flagIn(value: unknown): boolean | undefined {
  return typeof value === 'boolean' ? value : undefined;
}

const SYSTEM_COLUMNS: readonly RecordColumn[] = [
  ...[APP_NAME, HOSTNAME, ENVIRONMENT].map(systemColumn),
  { name: 'sampling_rate', type: 'number', of: (run) => marksOf(run).rate },
  { name: 'sampling_selected', type: 'flag', of: (run) => marksOf(run).selected },
  { name: 'sampling_after_model_change', type: 'flag', of: (run) => marksOf(run).afterModelChange },
  { name: 'sampling_trigger', type: 'text', of: (run) => marksOf(run).trigger },
  { name: 'not_captured_runs', type: 'number', of: (run) => marksOf(run).notCaptured?.runs },
  { name: 'not_captured_events', type: 'number', of: (run) => marksOf(run).notCaptured?.events },
];

/** Each model once, in the order of the calls: MODEL_ID or MODEL_ID@VERSION. */
function modelsOf({ metadata: { calls } }: AssembledRun): string[] {
  const named = calls.flatMap(({ start: { body }, ended }) => {
    const model = (body && sentIn(body, 'model_instance')) ?? null;
    const id = stringOf(textOf(model, NAMES.model_id));
    const version = stringOf(modelVersionOf(model, ended));
    return id === undefined ? [] : version === undefined ? id : `${id}@${version}`;
  });
  return [...new Set(named)];
}

/** The number of calls and of failed calls, and their total cost, with the names of `collector runs`. */
const CALL_COLUMNS: readonly RecordColumn[] = [
  { name: 'call_count', type: 'count', of: ({ metadata }) => metadata.calls.length },
  { name: 'failed_calls', type: 'count', of: ({ endings }) => failedIn(endings) },
  { name: 'models', type: 'texts', of: modelsOf },
];

export const RECORD_COLUMNS: readonly RecordColumn[] = [
  { name: 'record_id', type: 'text', of: ({ metadata }) => metadata.record_id },
  { name: 'run_id', type: 'text', of: ({ metadata }) => metadata.run_id ?? undefined },
  { name: 'organisation', type: 'text', of: ({ metadata }) => metadata.organisation },
  { name: 'parent_run_id', type: 'text', of: ({ metadata }) => metadata.parent?.run_id ?? undefined },
  { name: 'parent_event_id', type: 'text', of: ({ metadata }) => metadata.parent?.event_id },
  { name: 'model_id', type: 'text', of: ({ model }) => textOf(model, NAMES.model_id) },
  { name: 'model_version', type: 'text', of: versionOf },
  { name: 'caller_id', type: 'text', of: ({ user }) => textOf(user, NAMES.caller_id) },
  { name: 'caller_type', type: 'text', of: ({ user }) => textOf(user, NAMES.caller_type) },
  { name: 'target_id', type: 'text', of: ({ target }) => textOf(target, NAMES.target_id) },
  { name: 'target_type', type: 'text', of: ({ target }) => textOf(target, NAMES.target_type) },
  { name: 'input_uri', type: 'text', of: ({ inputs }) => textOf(inputs, NAMES.input_uri) },
  { name: 'prompt', type: 'text', of: ({ inputs }) => textOf(inputs, NAMES.prompt) },
  { name: 'first_timestamp', type: 'time', of: ({ metadata }) => metadata.first_timestamp ?? undefined },
  { name: 'last_timestamp', type: 'time', of: ({ metadata }) => metadata.last_timestamp ?? undefined },
  { name: 'first_received_at', type: 'time', of: ({ metadata }) => metadata.first_received_at },
  { name: 'last_received_at', type: 'time', of: ({ metadata }) => metadata.last_received_at },
  { name: 'latency_ms', type: 'number', of: ({ metadata }) => metadata.latency_ms ?? undefined },
  { name: 'completeness', type: 'text', of: ({ metadata }) => metadata.completeness.level },
  { name: 'missing', type: 'texts', of: ({ metadata }) => metadata.completeness.missing },
  {
    name: 'conflicts',
    type: 'texts',
    of: ({ metadata }) =>
      metadata.conflicts.map(({ kind, rule }) => (rule === undefined ? kind : `${kind}:${rule}`)),
  },
  { name: 'children', type: 'texts', of: ({ metadata }) => metadata.children },
  { name: 'protocol_versions', type: 'texts', of: ({ metadata }) => metadata.protocol_versions },
  { name: 'event_count', type: 'count', of: ({ metadata }) => metadata.events.length },
  {
    name: 'numbers_in_text',
    type: 'count',
    of: ({ metadata }) => metadata.completeness.numbers_in_text.length,
  },
  {
    name: 'replaced_text',
    type: 'count',
    of: ({ metadata }) => metadata.completeness.replaced_text.length,
  },
  { name: 'call_by', type: 'text', of: ({ metadata }) => metadata.call?.by },
  { name: 'call_ending', type: 'text', of: ({ metadata }) => metadata.call?.ending },
  { name: 'call_attempts', type: 'count', of: ({ metadata }) => metadata.call?.attempts },
  { name: 'call_status', type: 'count', of: ({ metadata }) => metadata.call?.status ?? undefined },
  { name: 'call_error', type: 'text', of: ({ metadata }) => metadata.call?.error_name ?? undefined },
  { name: 'response_model', type: 'text', of: ({ metadata }) => metadata.call?.response_model ?? undefined },
  { name: 'input_tokens', type: 'number', of: ({ metadata }) => metadata.tokens.input ?? undefined },
  { name: 'output_tokens', type: 'number', of: ({ metadata }) => metadata.tokens.output ?? undefined },
  ...CALL_COLUMNS,
  ...SYSTEM_COLUMNS,
];

/** The number in a member as the nearest double, even if it was sent as text; undefined if there is none. */
export function memberNumber(sent: Sent | undefined, name: MemberName): number | undefined {
  return numberIn(memberIn(sent, name));
}
