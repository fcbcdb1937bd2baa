/**
 * Fastify and pg: one INSERT a request, each committed before its answer. PostgreSQL runs with its default
 * settings (synchronous_commit = on). In its favour: no schema is checked, the body is kept as text.
 */
import Fastify from 'fastify';
import pg from 'pg';
import { startPostgres } from '../lib/postgres.mjs';
import { announce } from './peer.mjs';

const POOL = 16;
const UNIQUE_VIOLATION = '23505';

const [directory] = process.argv.slice(2);
const postgres = await startPostgres(directory);
const pool = new pg.Pool({
  host: '127.0.0.1',
  port: postgres.port,
  user: 'bench',
  database: 'postgres',
  max: POOL,
  min: POOL,
});
let ending = false;
pool.on('error', (error) => {
  // pool.end() does not wait for its connections to close, and PostgreSQL may say goodbye first.
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

const INSERT = {
  name: 'insert-event',
  text: 'INSERT INTO events (event_id, kind, body) VALUES ($1, $2, $3)',
};

const app = Fastify({ logger: false });
app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) =>
  done(null, body),
);
app.post('/event/:kind', async (request, reply) => {
  const { event_id: eventId } = JSON.parse(request.body);
  try {
    await pool.query({ ...INSERT, values: [eventId, request.params.kind, request.body] });
  } catch (error) {
    if (error.code !== UNIQUE_VIOLATION) throw error;
    return reply.code(409).send({ error: 'conflict' });
  }
  return reply.code(201).send({ status: 'accepted' });
});

await app.listen({ host: '127.0.0.1', port: 0, backlog: 4096 });
announce(app.server, async () => {
  app.server.closeAllConnections();
  await app.close();
  const { rows: counted } = await pool.query('SELECT count(*)::int AS events FROM events');
  ending = true;
  await pool.end();
  await postgres.stop();
  return counted[0].events;
});
