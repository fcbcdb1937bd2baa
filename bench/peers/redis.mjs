/**
 * node:http and Redis: one SET NX a request. Redis flushes its append-only file before it answers
 * (appendfsync always), once for all commands that it has read together.
 */
import path from 'node:path';
import { createClient } from 'redis';
import { startRedis } from '../lib/redis.mjs';
import { listenFor } from './one-route.mjs';
import { announce, closeServer } from './peer.mjs';

const redis = await startRedis(process.argv[2]);
const client = createClient({ socket: { path: path.join(process.argv[2], redis.socket) } });
await client.connect();
const store = async (eventId, _kind, body) => (await client.set(eventId, body, { NX: true })) === 'OK';
listenFor(store, (server) => {
  announce(server, async () => {
    await closeServer(server);
    const events = await client.dbSize();
    await client.close();
    await redis.stop();
    return events;
  });
});
