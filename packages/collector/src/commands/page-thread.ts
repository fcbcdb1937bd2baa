/** The thread that reads pages of a catalogue for a count (counting.ts), at one sequence. */
import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import { pageOf, type PageQuery, type PageRange } from '../catalogue/questions.js';
import { Statements } from '../catalogue/statements.js';

export interface PageThreadData {
  readonly file: string;
  readonly sequence: number;
  readonly query: PageQuery;
}

const { file, sequence, query } = workerData as PageThreadData;
const database = new DatabaseSync(file, { readOnly: true });
database.exec('BEGIN');
const statements = new Statements(database);
const at = statements.first("SELECT value FROM meta WHERE name = 'sequence'")?.[0];
const isSame = Number(at) === sequence;
// An error ends the thread: the count then reads the page itself and reports the fault.
parentPort?.on('message', (range: PageRange) => {
  parentPort?.postMessage({ answer: isSame ? pageOf(statements, query, range) : null });
});
