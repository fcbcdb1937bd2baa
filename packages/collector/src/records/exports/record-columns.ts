/**
 * What of a record stands in columns, for CSV and for Parquet: the one table of both (docs/EXPORTS.md). A value of
 * another type than the column's is not in it: the profile `minimum` lets a sender write what they like there.
 */
import type { ClinicalRecord } from '@clinical-events/protocol';
import { epochMilliseconds, readInstant } from '../instant.js';
import { numberOf } from '../raw-json.js';

interface Column<Type extends string, Value, Of> {
  readonly name: string;
  readonly type: Type;
  /** Undefined where the record has none. */
  readonly of: (source: Of) => Value | undefined;
}

/** A column of values that `of` finds in a record. */
type ValueColumn<Of> =
  | Column<'text', string, Of>
  | Column<'number', number, Of>
  | Column<'count', number, Of>
  /** By an RFC 3339 date-time that the schemas or {@link timeIn} have accepted. */
  | Column<'time', string, Of>
  | Column<'texts', readonly string[], Of>;

export type RecordColumn = ValueColumn<ClinicalRecord>;

const DATE_TIME = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/;

export function textIn(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** A date-time in a field that the protocol does not check. */
export function timeIn(value: unknown): string | undefined {
  if (typeof value !== 'string' || !DATE_TIME.test(value) || Number.isNaN(Date.parse(value)))
    return undefined;
  // Date takes 30 February for 2 March.
  const day = value.slice(0, 'YYYY-MM-DD'.length);
  return new Date(day).toISOString().startsWith(day) ? value : undefined;
}

/** Milliseconds since 1970 UTC, rounded down. */
export function millisecondsOf(time: string): number {
  return epochMilliseconds(readInstant(time));
}

export const RECORD_COLUMNS: readonly RecordColumn[] = [
  { name: 'record_id', type: 'text', of: ({ metadata }) => metadata.record_id },
  { name: 'run_id', type: 'text', of: ({ metadata }) => metadata.run_id ?? undefined },
  { name: 'organisation', type: 'text', of: ({ metadata }) => metadata.organisation },
  { name: 'parent_run_id', type: 'text', of: ({ metadata }) => metadata.parent?.run_id ?? undefined },
  { name: 'parent_event_id', type: 'text', of: ({ metadata }) => metadata.parent?.event_id },
  { name: 'model_id', type: 'text', of: ({ model }) => textIn(model?.model_id) },
  { name: 'model_version', type: 'text', of: ({ model }) => textIn(model?.model_version) },
  { name: 'caller_id', type: 'text', of: ({ user }) => textIn(user?.caller_id) },
  { name: 'caller_type', type: 'text', of: ({ user }) => textIn(user?.['caller_type']) },
  { name: 'target_id', type: 'text', of: ({ target }) => textIn(target?.target_id) },
  { name: 'target_type', type: 'text', of: ({ target }) => textIn(target?.['target_type']) },
  { name: 'input_uri', type: 'text', of: ({ inputs }) => textIn(inputs?.input_uri) },
  { name: 'prompt', type: 'text', of: ({ inputs }) => textIn(inputs?.prompt) },
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
];

/** The number in a field, as the nearest double. */
export function numberIn(value: unknown): number | undefined {
  return numberOf(value);
}
