/**
 * Fastify and pg: one INSERT a request, committed before the answer. PostgreSQL has its default settings
 * (synchronous_commit = on). It does less than the collector: no schema is checked, and the body is kept as
 * text.
 */
import Fastify from 'fastify';
import { openEventsTable } from '../lib/events-table.mjs';
import { announce } from './peer.mjs';

const events = await openEventsTable(process.argv[2]);
const app = Fastify({ logger: false });
app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) =>
  done(null, body),
);
app.post('/event/:kind', async (request, reply) => {
  const { event_id: eventId } = JSON.parse(request.body);
  const isNew = await events.insert(eventId, request.params.kind, request.body);
  return isNew ? reply.code(201).send({ status: 'accepted' }) : reply.code(409).send({ error: 'conflict' });
});

await app.listen({ host: '127.0.0.1', port: 0, backlog: 4096 });
announce(app.server, async () => {
  app.server.closeAllConnections();
  await app.close();
  return events.close();
});
