/**
 * Express and SQLite (node:sqlite): one INSERT a request in a transaction of its own, with a write-ahead log
 * and synchronous = FULL, so each is flushed before its answer. In its favour: no schema is checked.
 */
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import express from 'express';
import { announce, closeServer } from './peer.mjs';

const UNIQUE_VIOLATION = 2067;
const FULL = 2;

const [directory] = process.argv.slice(2);
const database = new DatabaseSync(path.join(directory, 'events.sqlite'));
database.exec(`PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE events (
  sequence    INTEGER PRIMARY KEY,
  event_id    TEXT NOT NULL UNIQUE,
  kind        TEXT NOT NULL,
  received_at INTEGER NOT NULL,
  body        TEXT NOT NULL
) STRICT`);
const { journal_mode: journalMode } = database.prepare('PRAGMA journal_mode').get();
const { synchronous } = database.prepare('PRAGMA synchronous').get();
if (journalMode !== 'wal' || synchronous !== FULL) throw new Error('SQLite did not take its settings');
const insert = database.prepare('INSERT INTO events (event_id, kind, received_at, body) VALUES (?, ?, ?, ?)');

const app = express();
app.disable('x-powered-by').disable('etag');
app.use(express.text({ type: 'application/json', limit: '2mb' }));
app.post('/event/:kind', (request, response) => {
  const { event_id: eventId } = JSON.parse(request.body);
  try {
    insert.run(eventId, request.params.kind, Date.now(), request.body);
  } catch (error) {
    if (error.errcode !== UNIQUE_VIOLATION) throw error;
    response.status(409).json({ error: 'conflict' });
    return;
  }
  response.status(201).json({ status: 'accepted' });
});

const server = app.listen({ host: '127.0.0.1', port: 0, backlog: 4096 }, (error) => {
  if (error) throw error;
  announce(server, async () => {
    await closeServer(server);
    const { events } = database.prepare('SELECT count(*) AS events FROM events').get();
    database.close();
    return events;
  });
});
