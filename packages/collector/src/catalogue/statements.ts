/** Statements of a connection, each made once and found by its text. Rows are lists. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Value } from './columns.js';

export type Row = readonly Value[];

/** A statement whose rows are lists. */
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

  /** Another question by the same text ends it. */
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
