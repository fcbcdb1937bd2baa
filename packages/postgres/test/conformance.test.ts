import { PostgresServer } from './running/postgres-server.js';
import { postgresConformance } from './conformance.js';

postgresConformance(async () => {
  const server = await PostgresServer.start();
  return { server, port: server.port, remove: () => server.remove() };
});
