/** The statements of a connection, each prepared once and found by its text. Rows are arrays. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Value } from './columns.js';

export type Row = readonly Value[];

/** Prepares a statement whose rows are arrays. */
export function listing(database: DatabaseSync, sql: string): StatementSync {
  const statement = database.prepare(sql);
  statement.setReturnArrays(true);
  return statement;
}

export class Statements {
  readonly #made = new Map<string, StatementSync>();

  constructor(readonly database: DatabaseSync) {}

  first(sql: string, ...values: Value[]): Row | undefined {
    return this.#of(sql).get(...values) as unknown as Row | undefined;
  }

  all(sql: string, ...values: Value[]): Row[] {
    return this.#of(sql).all(...values) as unknown as Row[];
  }

  /** The rows of a statement. A second call with the same text ends the first iteration. */
  rows(sql: string, ...values: Value[]): IterableIterator<Row> {
    return this.#of(sql).iterate(...values) as unknown as IterableIterator<Row>;
  }

  run(sql: string, ...values: Value[]): void {
    this.#of(sql).run(...values);
  }

  #of(sql: string): StatementSync {
    let statement = this.#made.get(sql);
    if (statement === undefined) this.#made.set(sql, (statement = listing(this.database, sql)));
    return statement;
  }
}
