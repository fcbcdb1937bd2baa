/** Counts runs by name: SQLite groups them, so that memory does not grow with their number. */
import { queryOf, type RunFilter, type RunQuery, type Source } from './questions.js';
import { listing, type Row } from './statements.js';

/** Columns of each kind of name. */
const COLUMNS = {
  models: ['model'],
  versions: ['model', 'version'],
  apps: ['application'],
  users: ['user'],
  organisations: ['organisation'],
} as const;

export type NameKind = keyof typeof COLUMNS;
/** Names that differ between the calls of a run. */
const OF_CALLS: readonly NameKind[] = ['models', 'versions', 'users'];

export interface NamedRuns {
  /** For `versions` the model and the version, which is null for runs without one; otherwise one name. */
  readonly names: readonly (string | null)[];
  readonly runs: number;
  /** Number of names, regardless of the limit. */
  readonly of: number;
}

/** The most frequent names first. The order of the filter has no effect; its limit applies to names. */
export function* namedRuns(
  { statements, names }: Source,
  kind: NameKind,
  filter: RunFilter,
): Generator<NamedRuns> {
  const { limit, ...asked } = filter;
  const query = queryOf(asked, (text) => names.known(text));
  if (query === undefined) return;
  const columns = COLUMNS[kind].join(', ');
  const of = OF_CALLS.includes(kind) ? ofCalls(query, columns) : query.all(columns);
  const sql = `SELECT ${columns}, count(*) AS runs, count(*) OVER () FROM (${of})
    WHERE ${COLUMNS[kind][0]} IS NOT NULL GROUP BY ${columns} ORDER BY runs DESC, ${columns} LIMIT ?`;
  const rows = listing(statements.database, sql).iterate(...query.values, limit ?? -1);
  for (const row of rows as unknown as Iterable<Row>) {
    const ids = row.slice(0, -2);
    yield {
      names: ids.map((id) => (id === null ? null : names.nameOf(Number(id)))),
      runs: Number(row.at(-2)),
      of: Number(row.at(-1)),
    };
  }
}

/** A run counts once for each name of its calls. */
function ofCalls(query: RunQuery, columns: string): string {
  const called = columns.split(', ').map((column) => `call.${column}`);
  return `WITH asked AS (${query.all(`id, starts, ${columns}`)})
    SELECT ${columns} FROM asked WHERE starts < 2 UNION ALL SELECT ${columns} FROM (
      SELECT DISTINCT call.run, ${called.join(', ')}
      FROM asked JOIN call ON call.run = asked.id WHERE starts > 1)`;
}
