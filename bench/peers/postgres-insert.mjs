/** node:http and pg: one INSERT a request, committed before the answer, without a framework. */
import { openEventsTable } from '../lib/events-table.mjs';
import { listenFor } from './one-route.mjs';
import { announce, closeServer } from './peer.mjs';

const events = await openEventsTable(process.argv[2]);
listenFor(events.insert, (server) => {
  announce(server, async () => {
    await closeServer(server);
    return events.close();
  });
});
