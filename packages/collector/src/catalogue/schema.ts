/**
 * The tables and indexes of the catalogue, and the views for people who query it in SQL
 * (docs/guide/find-and-read.md). Times are in milliseconds since 1970, UTC.
 */
import { EVENT_KINDS } from '@clinical-events/protocol';
import { CALL_ENDINGS } from '../records/calls.js';
import { OUTCOME_WORDS } from '../records/vocabulary.js';
import { CALL_COLUMNS, CONFLICTS, LEVELS, MISSING, SUMMARY_COLUMNS } from './columns.js';

/** Increment it with every change of a table, or of the meaning of a row. */
export const VERSION = 12;

const CALL_INDEXES = ['model', 'target', 'user']
  .map((name) => `CREATE INDEX call_${name} ON call (${name}) WHERE ${name} IS NOT NULL;`)
  .join('\n  ');

/** Keeps each text once. */
export const NAME_INDEX = 'CREATE UNIQUE INDEX name_text ON name (text)';

const TABLES = `
  CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
  -- A text, or encrypted bytes.
  CREATE TABLE name (id INTEGER PRIMARY KEY, text ANY NOT NULL) STRICT;
  ${NAME_INDEX};
  -- A record. Its id is the sequence of one of its events.
  CREATE TABLE run (
    id INTEGER PRIMARY KEY, record BLOB NOT NULL, organisation INTEGER NOT NULL, is_run INTEGER NOT NULL,
    first_sequence INTEGER NOT NULL, last_sequence INTEGER NOT NULL, events INTEGER NOT NULL,
    -- Number of events that the following columns cover: 0 before the first summing, -1 if they are stale.
    summed INTEGER NOT NULL,
    parent INTEGER, circle INTEGER,
    ${SUMMARY_COLUMNS.map(({ name, type }) => `${name} ${type}`).join(', ')}
  ) STRICT;
  -- The place of the event in the log, and its size there. sent: null if its payload is unreadable.
  CREATE TABLE event (
    run INTEGER NOT NULL, sequence INTEGER NOT NULL, at INTEGER NOT NULL, size INTEGER NOT NULL,
    kind INTEGER NOT NULL, received INTEGER NOT NULL, sent INTEGER,
    PRIMARY KEY (run, sequence)
  ) STRICT, WITHOUT ROWID;
  -- The calls of a run with several calls. Number 0 is an ending that belongs to no call.
  CREATE TABLE call (
    run INTEGER NOT NULL, ${CALL_COLUMNS.map(({ name, type }) => `${name} ${type}`).join(', ')},
    PRIMARY KEY (run, number)
  ) STRICT, WITHOUT ROWID;
  ${CALL_INDEXES}
  -- Events that neither name nor open a run, with their records.
  CREATE TABLE runless (
    event BLOB NOT NULL, organisation INTEGER NOT NULL, parent BLOB, run INTEGER NOT NULL,
    PRIMARY KEY (event, organisation)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX runless_run ON runless (run);
  -- Parents that a record names and that are missing or have no run.
  CREATE TABLE awaited (
    event BLOB NOT NULL, organisation INTEGER NOT NULL, run INTEGER NOT NULL,
    PRIMARY KEY (event, organisation, run)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX awaited_run ON awaited (run);
  CREATE UNIQUE INDEX run_record ON run (record, organisation, is_run);
  CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;
  -- Number of runs that began in each hour since 1970, by the collector's clock.
  CREATE TABLE tally (
    hour INTEGER PRIMARY KEY, ${LEVELS.map((level) => `${level} INTEGER NOT NULL`).join(', ')},
    without_outcome INTEGER NOT NULL, orphan_events INTEGER NOT NULL
  ) STRICT;
`;

/** Conditions of partial indexes: a question must use the same text. */
export const IS = {
  contradicted: `outcome = ${OUTCOME_WORDS.indexOf('contradicted')}`,
  conflict: 'conflicts <> 0',
  failed: 'failed_calls > 0',
  incomplete: `level = ${LEVELS.indexOf('incomplete')}`,
  due: 'summed <> events',
} as const;

/**
 * The indexes. An update of most of a log makes them after all rows were summed, because each new row would
 * change random pages of them. A question names its index, so SQLite refuses the question while the index is
 * missing.
 */
export const INDEXES: readonly { readonly name: string; readonly sql: string }[] = Object.entries({
  first: '(first_sequence)',
  last: '(last_sequence)',
  received: '(began_received)',
  sender: '(began_sender)',
  organisation: '(organisation, began_received)',
  ...Object.fromEntries(
    ['target', 'user', 'model'].map((name) => [name, `(${name}, began_received) WHERE ${name} IS NOT NULL`]),
  ),
  ...Object.fromEntries(
    (['contradicted', 'conflict', 'failed', 'incomplete'] as const).map((name) => [
      name,
      `(began_received) WHERE ${IS[name]}`,
    ]),
  ),
  due: `(id) WHERE ${IS.due}`,
}).map(([name, columns]) => ({
  name: `run_${name}`,
  sql: `CREATE INDEX run_${name} ON run ${columns}`,
}));

/** A CASE for each word, by its position. */
function wordOf(column: string, words: readonly string[]): string {
  return `CASE ${column} ${words.map((word, place) => `WHEN ${place} THEN '${word}'`).join(' ')} END`;
}

/** The words of a mask, separated by spaces; null if there are none. */
function wordsOf(column: string, words: readonly string[]): string {
  const each = words.map((word, place) => `iif(${column} & ${2 ** place}, ' ${word}', '')`);
  return `nullif(ltrim(${each.join(' || ')}), '')`;
}

function uuidOf(column: string): string {
  const digits = `lower(hex(${column}))`;
  const parts = [
    [1, 8],
    [9, 4],
    [13, 4],
    [17, 4],
    [21, 12],
  ];
  return parts.map(([from, length]) => `substr(${digits}, ${from}, ${length})`).join(` || '-' || `);
}

function timeOf(column: string): string {
  return `strftime('%Y-%m-%dT%H:%M:%fZ', ${column} / 1000.0, 'unixepoch')`;
}

const nameOf = (column: string, of = 'run') => `(SELECT text FROM name WHERE id = ${of}.${column})`;

const VIEWS = `
  CREATE VIEW runs AS SELECT
    run.id AS run, ${uuidOf('record')} AS run_id, ${nameOf('organisation')} AS organisation,
    ${timeOf('began_received')} AS began, ${timeOf('began_sender')} AS began_by_sender,
    ${nameOf('model')} AS model, ${nameOf('version')} AS version, ${nameOf('application')} AS application,
    ${nameOf('user')} AS user, ${nameOf('target')} AS target,
    ${wordOf('level', LEVELS)} AS completeness, ${wordsOf('missing', MISSING)} AS missing,
    ${wordsOf('conflicts', CONFLICTS)} AS conflicts,
    ${wordOf('outcome', OUTCOME_WORDS)} AS outcome, ${timeOf('outcome_received')} AS outcome_at,
    feedbacks, thumbs_up, thumbs_down, rating_sum,
    starts AS calls, failed_calls,
    ${wordOf('ending', CALL_ENDINGS)} AS call, status, attempts, input_tokens, output_tokens, latency_ms,
    events, first_sequence, last_sequence,
    (SELECT ${uuidOf('above.record')} FROM run AS above
      WHERE above.id = run.parent AND above.is_run = 1) AS parent_run_id
  FROM run WHERE is_run = 1;
  CREATE VIEW calls AS SELECT
    run.id AS run, ${uuidOf('record')} AS run_id, ${nameOf('organisation')} AS organisation, 1 AS number,
    ${nameOf('model')} AS model, ${nameOf('version')} AS version, ${nameOf('user')} AS user,
    ${nameOf('target')} AS target,
    ${wordOf('ending', CALL_ENDINGS)} AS call, status, attempts, input_tokens, output_tokens
  FROM run WHERE is_run = 1 AND starts = 1 AND NOT EXISTS (SELECT 1 FROM call WHERE call.run = run.id)
  UNION ALL SELECT
    run.id, ${uuidOf('record')}, ${nameOf('organisation')}, number,
    ${['model', 'version', 'user', 'target'].map((column) => nameOf(column, 'call')).join(', ')},
    ${wordOf('call.ending', CALL_ENDINGS)}, call.status, call.attempts, call.input_tokens, call.output_tokens
  FROM call JOIN run ON run.id = call.run WHERE is_run = 1 AND number > 0;
  CREATE VIEW events AS SELECT
    run.id AS run, ${uuidOf('run.record')} AS run_id, sequence, ${wordOf('kind', EVENT_KINDS)} AS kind,
    ${timeOf('received')} AS received, ${timeOf('sent')} AS sent, size
  FROM event JOIN run ON run.id = event.run;
`;

/** Creates the tables in an empty file. */
export const SCHEMA = [TABLES, ...INDEXES.map(({ sql }) => sql), VIEWS].join(';\n');
