/**
 * The access log of a PostgreSQL log: one row for each line (AccessLogStore of the collector's
 * store/contract).
 */
import {
  AccessLogAltered,
  type AccessLogStore,
  type LineCursor,
} from '@clinical-events/collector/store/contract/access-log';
import { type ReadingConnection, Refused } from './connection.js';
import { sql } from './sql.js';

const UNIQUE_VIOLATION = '23505';

export class PostgresAccessLog implements AccessLogStore {
  /** The end of the last read: lines, and the rows that held them. */
  #read = { lines: 0, rows: 0 };

  constructor(private readonly connection: Pick<ReadingConnection, 'query'>) {}

  /** @throws RangeError if the database refuses the form of the line. */
  async append(line: string): Promise<void> {
    for (;;) {
      try {
        const { rows } = await this.connection.query(sql('append_access_line'), [line]);
        if (rows[0]?.[0] === 't') return;
        throw new RangeError('the database refuses this line of the access log');
      } catch (error) {
        // Another process took the number first.
        if (!(error instanceof Refused) || error.code !== UNIQUE_VIOLATION) throw error;
      }
    }
  }

  async *lines({ lines: from }: LineCursor = { lines: 0, at: 0 }): AsyncGenerator<Buffer, void> {
    let { lines, rows: row } = this.#read.lines === from ? this.#read : { lines: 0, rows: 0 };
    for (;;) {
      const { rows } = await this.connection.query(sql('access_lines'), [row]);
      if (rows.length === 0) return;
      let text = '';
      for (const [number, each] of rows) {
        if (Number(number) !== ++row) throw new AccessLogAltered(`line ${row} is gone`);
        for (const line of (each ?? '').split('\n')) if (++lines > from) text += `${line}\n`;
      }
      this.#read = { lines, rows: row };
      if (text !== '') yield Buffer.from(text);
    }
  }

  async writerOf(line: number): Promise<string | undefined> {
    const { rows } = await this.connection.query(sql('writer_of_line'), [line]);
    return rows[0]?.[0] ?? undefined;
  }

  /** Does nothing: each append is durable. */
  flush(): Promise<void> {
    return Promise.resolve();
  }
}
