/** Where it is logged who read what of a PostgreSQL log: one row a line (src/store/contract.ts, AccessLogStore). */
import { AccessLogAltered, type AccessLogStore, type LineCursor } from '../contract.js';
import { type ReadingConnection, Refused } from './connection.js';

const APPEND = `
INSERT INTO access_lines (line, text) SELECT coalesce(max(line), 0) + 1, $1::text FROM access_lines`;
const LINES = 'SELECT line, text FROM access_lines WHERE line > $1 ORDER BY line LIMIT 1000';
const UNIQUE_VIOLATION = '23505';

export class PostgresAccessLog implements AccessLogStore {
  constructor(private readonly connection: Pick<ReadingConnection, 'query'>) {}

  async append(line: string): Promise<void> {
    for (;;) {
      try {
        await this.connection.query(APPEND, [line]);
        return;
      } catch (error) {
        // Another process has just taken the number.
        if (!(error instanceof Refused) || error.code !== UNIQUE_VIOLATION) throw error;
      }
    }
  }

  async *lines({ lines: from }: LineCursor = { lines: 0, at: 0 }): AsyncGenerator<Buffer, void> {
    for (let next = from + 1; ;) {
      const { rows } = await this.connection.query(LINES, [next - 1]);
      if (rows.length === 0) return;
      let text = '';
      for (const [line, each] of rows) {
        if (Number(line) !== next) throw new AccessLogAltered(`line ${next} is gone`);
        text += `${each ?? ''}\n`;
        next++;
      }
      yield Buffer.from(text);
    }
  }

  /** On stable storage at once. */
  flush(): Promise<void> {
    return Promise.resolve();
  }
}
