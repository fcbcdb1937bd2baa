/** The columns of a call, for CSV and Parquet (docs/reference/records.md). */
import { type CallOf, latencyOf } from '../calls.js';
import type { MemberName } from '../json-scan.js';
import { type PAYLOADS, type Sent, sentIn } from '../run-event.js';
import { modelVersionOf, NAMES, type RecordColumn, textOf } from './record-columns.js';

export type StartObject = (typeof PAYLOADS)['inference-start'][number];

/** An object of a call's start. */
export function startObject({ start: { body } }: CallOf, name: StartObject): Sent | undefined {
  return body && sentIn(body, name);
}

type CallColumn = Exclude<RecordColumn<CallOf>, { type: 'time' | 'texts' }>;

function startText(name: string, object: StartObject, member: MemberName): CallColumn {
  return { name, type: 'text', of: (call) => textOf(startObject(call, object), member) };
}

export const CALL_COLUMNS: readonly CallColumn[] = [
  startText('model_id', 'model_instance', NAMES.model_id),
  {
    name: 'model_version',
    type: 'text',
    of: (call) => modelVersionOf(startObject(call, 'model_instance') ?? null, call.ended),
  },
  startText('caller_id', 'user_identity', NAMES.caller_id),
  startText('target_id', 'target_identity', NAMES.target_id),
  startText('input_uri', 'inputs', NAMES.input_uri),
  { name: 'by', type: 'text', of: ({ ended }) => ended?.by },
  { name: 'ending', type: 'text', of: ({ ended }) => ended?.ending },
  { name: 'attempts', type: 'count', of: ({ ended }) => ended?.attempts },
  { name: 'status', type: 'count', of: ({ ended }) => ended?.status ?? undefined },
  { name: 'error', type: 'text', of: ({ ended }) => ended?.error_name ?? undefined },
  { name: 'response_model', type: 'text', of: ({ ended }) => ended?.response_model ?? undefined },
  { name: 'input_tokens', type: 'number', of: ({ ended }) => ended?.input_tokens ?? undefined },
  { name: 'output_tokens', type: 'number', of: ({ ended }) => ended?.output_tokens ?? undefined },
  { name: 'latency_ms', type: 'number', of: ({ start, events }) => latencyOf(start, events()) ?? undefined },
];
