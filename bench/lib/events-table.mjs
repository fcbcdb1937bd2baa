/** One table of events in a PostgreSQL of its own, filled by one INSERT for each event. */
import pg from 'pg';
import { startPostgres } from './postgres.mjs';

const POOL = 16;
const UNIQUE_VIOLATION = '23505';
const INSERT = {
  name: 'insert-event',
  text: 'INSERT INTO events (event_id, kind, body) VALUES ($1, $2, $3)',
};

export async function openEventsTable(directory) {
  const postgres = await startPostgres(directory);
  const address = { host: '127.0.0.1', port: postgres.port, user: 'bench', database: 'postgres' };
  const pool = new pg.Pool({ ...address, max: POOL, min: POOL });
  let ending = false;
  // pool.end() does not wait for its connections to close, so PostgreSQL may end them first.
  pool.on('error', (error) => {
    if (!ending) throw error;
  });
  await pool.query(`CREATE TABLE events (
    sequence    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id    uuid NOT NULL UNIQUE,
    kind        text NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    body        text NOT NULL
  )`);
  const { rows } = await pool.query('SHOW synchronous_commit');
  if (rows[0].synchronous_commit !== 'on') throw new Error('synchronous_commit is not on');
  return {
    /** Resolves after the commit: true if the event is new, false if its id is taken. */
    async insert(eventId, kind, body) {
      try {
        await pool.query({ ...INSERT, values: [eventId, kind, body] });
        return true;
      } catch (error) {
        if (error.code !== UNIQUE_VIOLATION) throw error;
        return false;
      }
    },
    /** Stops the server. @returns the number of events in the table. */
    async close() {
      const { rows: counted } = await pool.query('SELECT count(*)::int AS events FROM events');
      ending = true;
      await pool.end();
      await postgres.stop();
      return counted[0].events;
    },
  };
}
