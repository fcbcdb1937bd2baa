// Events and fields to test with, written from the specification and not from the schemas, so that a mistake in
// a schema shows.
import type { EventKind, Profile } from '../src/index.js';

export type JsonObject = Record<string, unknown>;

const BASE = {
  event_id: '2f1d7c3a-9b4e-4e0f-8c61-5a7d0b3e9f12',
  timestamp: '2026-03-02T09:31:44.182+01:00',
  protocol_version: '0.0.1',
  system_metadata: {},
};

const SMALLEST: Record<Profile, Record<EventKind, JsonObject>> = {
  minimum: {
    'inference-start': {},
    'internal-artifact': { artifact: { artifact_type: 'other', artifact_uri: 'urn:x:1' } },
    'human-output': { output: {} },
    outcome: { outcome: {} },
    'user-feedback': { feedback: {} },
  },
  full: {
    'inference-start': { model_instance: {}, user_identity: {}, target_identity: {}, inputs: {} },
    'internal-artifact': { artifact: { artifact_type: 'other', artifact_uri: 'urn:x:1' } },
    'human-output': { output: { output_uri: 'somewhere' } },
    outcome: { outcome: { outcome_type: 'unknown' } },
    'user-feedback': { feedback: { feedback_type: 'text' } },
  },
};

/** An event with the required fields only. */
export function smallestEvent(kind: EventKind, profile: Profile): JsonObject {
  return structuredClone({ ...BASE, ...SMALLEST[profile][kind] });
}

/** The type of a field: valid values, invalid values, and the message of a refusal. */
interface FieldType {
  readonly good: readonly unknown[];
  readonly bad: readonly unknown[];
  readonly message: string;
}

const NO_STRINGS = [5, true, null, [], ['x'], {}, { x: 'x' }];
const UUIDS = [
  '2f1d7c3a-9b4e-4e0f-8c61-5a7d0b3e9f12',
  '2F1D7C3A-9B4E-1E0F-8C61-5A7D0B3E9F12',
  '00000000-0000-0000-0000-000000000000',
];
const NO_UUIDS = ['', 'x', '2f1d7c3a9b4e4e0f8c615a7d0b3e9f12', '{2f1d7c3a-9b4e-4e0f-8c61-5a7d0b3e9f12}'];

const string: FieldType = { good: ['', 'x', 'é🙂', '\0'], bad: NO_STRINGS, message: 'must be a string' };
const object: FieldType = {
  good: [],
  bad: ['x', '', 0, 5, true, false, null, [], [{}]],
  message: 'must be an object',
};
const uuid: FieldType = { good: UUIDS, bad: [...NO_STRINGS, ...NO_UUIDS], message: 'must be a UUID' };
const uuidOrNull: FieldType = {
  good: [...UUIDS, null],
  bad: [5, true, [], {}, ...NO_UUIDS, 'null'],
  message: 'must be a UUID or null',
};
const dateTime: FieldType = {
  good: ['2024-02-29T23:59:60Z', '1985-04-12t23:20:50.52z', '2026-03-02T09:31:44-00:00'],
  bad: [
    ...NO_STRINGS,
    '',
    '2026-03-02',
    '2026-03-02T09:31:44',
    '2026-02-29T09:31:44Z',
    '2026-03-02 09:31:44Z',
  ],
  message: 'must be an RFC 3339 date-time with an offset from UTC',
};
const nonEmpty: FieldType = {
  good: ['0.0.1', ' ', 'any text'],
  bad: [...NO_STRINGS, ''],
  message: 'must be a non-empty string',
};
const int32: FieldType = {
  good: [0, -0, 1, -1, 2147483647, -2147483648],
  bad: [2147483648, -2147483649, 1.5, 1e300, 4294967296.5, '1', null, true, [], {}],
  message: 'must be an integer from -2147483648 to 2147483647',
};
const uri: FieldType = {
  good: ['https://a.example/b?c#d', 'urn:uuid:x', 's3://bucket/key', 'file:///x'],
  bad: [...NO_STRINGS, '', 'x', '/x', '//a/b', 'https://a.example/a b', 'http://[::1', 'a:%zz'],
  message: 'must be an absolute URI (RFC 3986)',
};
const rating: FieldType = {
  good: [0, 5, 2.5],
  bad: [-0.1, 5.01, '3', null, true, [], {}],
  message: 'must be a number from 0 to 5',
};
const oneOf = (...words: readonly string[]): FieldType => ({
  good: words,
  bad: [...NO_STRINGS, '', 'x', words.join(), (words[0] ?? '').toUpperCase()],
  message: `must be one of ${words.join(', ')}`,
});

/** A named field: its place, its type, and the profiles that know it and require it. */
export interface Field {
  readonly pointer: string;
  readonly kinds: readonly EventKind[];
  readonly type: FieldType;
  readonly known: readonly Profile[];
  readonly required: readonly Profile[];
}

const EVERY: readonly EventKind[] = [
  'inference-start',
  'internal-artifact',
  'human-output',
  'outcome',
  'user-feedback',
];
const BOTH: readonly Profile[] = ['minimum', 'full'];
const FULL: readonly Profile[] = ['full'];
const NONE: readonly Profile[] = [];

type Row = readonly [
  pointer: string,
  type: FieldType,
  required: readonly Profile[],
  known?: readonly Profile[],
];

const ROWS: readonly (readonly [readonly EventKind[], readonly Row[]])[] = [
  [
    EVERY,
    [
      ['/event_id', uuid, BOTH],
      ['/run_id', uuid, NONE],
      ['/parent_event_id', uuidOrNull, NONE],
      ['/timestamp', dateTime, BOTH],
      ['/protocol_version', nonEmpty, BOTH],
      ['/system_metadata', object, BOTH],
      ['/system_metadata/hostname', string, NONE],
      ['/system_metadata/app_name', string, NONE],
      ['/system_metadata/proc_id', string, NONE],
      ['/system_metadata/latency_ms', int32, NONE],
    ],
  ],
  [
    ['inference-start'],
    [
      ['/model_instance', object, FULL],
      ['/model_instance/model_id', string, NONE],
      ['/model_instance/model_version', string, NONE],
      ['/model_instance/model_card_url', string, NONE],
      ['/model_instance/data_sheet_url', string, NONE],
      ['/user_identity', object, FULL],
      ['/user_identity/caller_id', string, NONE],
      ['/user_identity/caller_type', oneOf('clinician', 'patient', 'admin', 'service'), NONE, FULL],
      ['/target_identity', object, FULL],
      ['/target_identity/target_id', string, NONE],
      ['/target_identity/target_type', oneOf('patient', 'document', 'claim', 'none'), NONE, FULL],
      ['/inputs', object, FULL],
      ['/inputs/prompt', string, NONE],
      ['/inputs/input_uri', string, NONE],
    ],
  ],
  [
    ['internal-artifact'],
    [
      ['/artifact', object, BOTH],
      [
        '/artifact/artifact_type',
        oneOf('text_chunk', 'reasoning_trace', 'tool_call', 'explanation', 'other'),
        BOTH,
      ],
      ['/artifact/artifact_uri', uri, BOTH],
      ['/artifact/mime_type', string, NONE],
      ['/artifact/description', string, NONE],
    ],
  ],
  [
    ['human-output'],
    [
      ['/output', object, BOTH],
      ['/output/output_uri', string, FULL],
      ['/output/summary', string, NONE],
      ['/output/output_type', oneOf('text', 'image', 'video', 'audio', 'other'), NONE, FULL],
    ],
  ],
  [
    ['outcome'],
    [
      ['/outcome', object, BOTH],
      ['/outcome/outcome_type', oneOf('validated', 'contradicted', 'partial', 'unknown'), FULL, FULL],
      ['/outcome/occurred_at', dateTime, NONE, FULL],
      ['/outcome/description', string, NONE, FULL],
      ['/outcome/evidence_uri', string, NONE, FULL],
    ],
  ],
  [
    ['user-feedback'],
    [
      ['/feedback', object, BOTH],
      ['/feedback/feedback_type', oneOf('rating', 'thumbs', 'text', 'survey'), FULL, FULL],
      ['/feedback/rating_value', rating, NONE, FULL],
      ['/feedback/comment', string, NONE, FULL],
    ],
  ],
];

export const FIELDS: readonly Field[] = ROWS.flatMap(([kinds, rows]) =>
  rows.map(([pointer, type, required, known = BOTH]) => ({ pointer, kinds, type, known, required })),
);

/** The event with the field at the pointer set, or removed when the value is undefined. Changes the event. */
export function withField(event: JsonObject, pointer: string, value: unknown): JsonObject {
  const names = pointer.slice(1).split('/');
  const last = names.pop() ?? '';
  let holder = event;
  for (const name of names) holder = (holder[name] ??= {}) as JsonObject;
  if (value === undefined) Reflect.deleteProperty(holder, last);
  else holder[last] = value;
  return event;
}
