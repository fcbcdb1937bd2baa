// docs/reference/record-fields.md: the members of a record by their schema, and the columns of CSV and Parquet.
import { readFileSync } from 'node:fs';
import { CALL_ROW_COLUMNS, CSV_COLUMNS } from '../../packages/collector/dist/records/exports/csv.js';
import { RECORD_COLUMNS } from '../../packages/collector/dist/records/exports/record-columns.js';
import { GENERATED, table } from './table.mjs';

const SCHEMA = JSON.parse(
  readFileSync(new URL('../../packages/protocol/schemas/record.json', import.meta.url), 'utf8'),
);
const TYPES = {
  ...{ text: 'text', number: 'number', count: 'whole number', flag: 'true or false', time: 'time' },
  texts: 'list of text',
};
/** Columns that are not a member of `metadata` of the same name. */
const COLUMNS = {
  parent_run_id: 'run that this run is nested in',
  parent_event_id: 'event that this run was started from',
  model_id: '`model.model_id`',
  model_version: '`model.model_version`, or else the model that answered',
  caller_id: '`user.caller_id`',
  caller_type: '`user.caller_type`',
  target_id: '`target.target_id`',
  target_type: '`target.target_type`',
  input_uri: '`inputs.input_uri`',
  prompt: '`inputs.prompt`',
  completeness: '`metadata.completeness.level`',
  missing: '`metadata.completeness.missing`',
  conflicts: '`metadata.conflicts`, as `kind` or `kind:rule`',
  event_count: 'number of events',
  numbers_in_text: 'number of `metadata.completeness.numbers_in_text`',
  replaced_text: 'number of `metadata.completeness.replaced_text`',
  call_by: 'instrumentation that reported the last call',
  call_ending: 'ending of the last call',
  call_attempts: 'attempts of the last call',
  call_status: 'HTTP status of the last call if it failed',
  call_error: 'error name of the last call if it failed',
  response_model: 'model that answered the last call',
  input_tokens: '`metadata.tokens.input`, of all calls',
  output_tokens: '`metadata.tokens.output`, of all calls',
  call_count: 'number of calls',
  failed_calls: 'number of calls that failed',
  models: 'model of each call, each once: `model_id` or `model_id@model_version`',
  app_name: '`system_metadata.app_name` of the start, or of the first event that has it',
  hostname: '`system_metadata.hostname`, likewise',
  environment: '`system_metadata.environment`, likewise; the protocol does not define it',
  sampling_rate: '[sampling](sampling.md): `rate` of the start',
  sampling_selected: '`selected` of the start',
  sampling_after_model_change: '`after_model_change` of the start',
  sampling_trigger: 'first `trigger` of the events',
  not_captured_runs: 'sum of `not_captured.runs` of the events',
  not_captured_events: 'sum of `not_captured.events` of the events',
  artifact_count: 'number of artifacts',
  output_count: 'number of outputs',
  last_output_uri: 'last output: `output_uri`',
  last_output_summary: 'last output: `summary`',
  outcome_count: 'number of outcomes',
  last_outcome_type: 'last outcome: `outcome_type`',
  last_outcome_at: 'last outcome: `occurred_at`',
  last_outcome_description: 'last outcome: `description`',
  feedback_count: 'number of feedback events',
  last_feedback_type: 'last feedback: `feedback_type`',
  last_rating: 'last feedback: `rating_value`',
  last_comment: 'last feedback: `comment`',
};
const CALL_COLUMNS = {
  record_id: 'joins the row to the record',
  organisation: 'organisation of the record',
  call_number: 'number of the call in its run, from 1',
  call_event_id: 'id of the start',
  timestamp: "sender's time of the start",
  received_at: "collector's time of the start",
  parent_event_id: 'parent of the start',
  by: 'instrumentation that reported the ending',
  ending: 'ending of the call',
  attempts: 'number of attempts',
  status: 'HTTP status of a failure',
  error: 'name of the error',
  response_model: 'model that answered',
  input_tokens: 'tokens of the input',
  output_tokens: 'tokens of the output',
  latency_ms: 'milliseconds from the start to the first output of the call',
};

function resolved(node) {
  const name = /^#\/\$defs\/(\w+)$/.exec(node.$ref ?? '')?.[1];
  return name === undefined ? node : { ...SCHEMA.$defs[name], ...node };
}

function typeOf(node) {
  const { type, anyOf, $ref } = resolved(node);
  if (anyOf !== undefined) return [...new Set(anyOf.map(typeOf))].join(' or ');
  if (type === undefined) return $ref === undefined ? 'any' : 'object';
  return [type].flat().join(' or ');
}

/** The members of an object, of its lists and of what it may be, as rows. */
function membersOf(node, at) {
  const { properties = {}, anyOf = [], items } = resolved(node);
  if (items !== undefined) return membersOf(items, `${at}[]`);
  const own = Object.entries(properties).flatMap(([name, member]) => {
    const place = at === '' ? name : `${at}.${name}`;
    const { description } = resolved(member);
    if (description === undefined && member.$ref === undefined)
      throw new Error(`record.json has no description of ${place}`);
    return [[`\`${place}\``, typeOf(member), description ?? 'as sent'], ...membersOf(member, place)];
  });
  return [...own, ...anyOf.flatMap((each) => membersOf(each, at))];
}

function rowsOf(columns, described) {
  const { properties } = SCHEMA.properties.metadata;
  return columns.map(({ name, type }) => {
    const what = described[name] ?? properties[name]?.description;
    if (what === undefined)
      throw new Error(`scripts/reference/record-fields.mjs does not describe the column ${name}`);
    return [`\`${name}\``, TYPES[type], what];
  });
}

export function recordFields() {
  const heads = ['column', 'type', 'content'];
  const own = CSV_COLUMNS.filter(({ name }) => !RECORD_COLUMNS.some((column) => column.name === name));
  return `# Fields of a record

${GENERATED}

The members of a record by \`packages/protocol/schemas/record.json\`, and the columns of CSV and Parquet. [Records](records.md) explains how a record is made.

## Members

${table(['member', 'type', 'content'], membersOf(SCHEMA, ''))}

## Columns

CSV and Parquet have these columns. A value of another type than its column's is left out; Parquet has it in the JSON beside. A number that was sent as a text is a number here.

${table(heads, rowsOf(RECORD_COLUMNS, COLUMNS))}

## Further columns of CSV

${table(heads, rowsOf(own, COLUMNS))}

## Columns of a call

A row of \`--format csv-calls\` is one call of a run.

${table(heads, rowsOf(CALL_ROW_COLUMNS, { ...COLUMNS, ...CALL_COLUMNS }))}
`;
}
