/** Where it is logged who read what of a PostgreSQL log: one row a line (src/store/contract/, AccessLogStore). */
import {
  AccessLogAltered,
  type AccessLogStore,
  type LineCursor,
} from '@clinical-events/collector/store/contract/access-log';
import { type ReadingConnection, Refused } from './connection.js';

const APPEND = 'SELECT append_access_line($1)';
const LINES = 'SELECT line, text FROM access_lines WHERE line > $1 ORDER BY line LIMIT 1000';
/** Of the row that a line is in: one that no function has written may hold several. */
const WRITER = `
SELECT written_by FROM (
  SELECT written_by, sum(1 + length(text) - length(replace(text, chr(10), ''))) OVER (ORDER BY line) AS last
  FROM access_lines) l WHERE last >= $1 ORDER BY last LIMIT 1`;
const UNIQUE_VIOLATION = '23505';

export class PostgresAccessLog implements AccessLogStore {
  /** How many rows the lines have come from that were read last. */
  #read = { lines: 0, rows: 0 };

  constructor(private readonly connection: Pick<ReadingConnection, 'query'>) {}

  /** @throws RangeError where the line is not of the form that the database asks for. */
  async append(line: string): Promise<void> {
    for (;;) {
      try {
        const { rows } = await this.connection.query(APPEND, [line]);
        if (rows[0]?.[0] === 't') return;
        throw new RangeError('the database takes no such line into the access log');
      } catch (error) {
        // Another process has just taken the number.
        if (!(error instanceof Refused) || error.code !== UNIQUE_VIOLATION) throw error;
      }
    }
  }

  async *lines({ lines: from }: LineCursor = { lines: 0, at: 0 }): AsyncGenerator<Buffer, void> {
    let { lines, rows: row } = this.#read.lines === from ? this.#read : { lines: 0, rows: 0 };
    for (;;) {
      const { rows } = await this.connection.query(LINES, [row]);
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
    const { rows } = await this.connection.query(WRITER, [line]);
    return rows[0]?.[0] ?? undefined;
  }

  /** On stable storage at once. */
  flush(): Promise<void> {
    return Promise.resolve();
  }
}
