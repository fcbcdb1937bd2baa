/**
 * The peers of the scenario `rate`. Each starts on an empty directory and returns how many events it stored.
 */
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { Child, removeDirectory, temporaryDirectory } from './children.mjs';
import { sendFirstEvent } from './client.mjs';
import { Authority, writePair } from '../../packages/collector/test/running/certificates.ts';
import { PostgresServer } from '../../packages/postgres/test/running/postgres-server.ts';
import { collectorCommand, countByDoctor, startCollector, stopCollector } from './collector.mjs';

/** Issues a certificate. @returns the options that name it and its key. */
function certificateIn(directory) {
  return writePair(directory, new Authority().issue({ names: ['dns:localhost'] }));
}

function peer(title, script, { isOverTls = false } = {}) {
  const file = path.resolve(import.meta.dirname, '../peers', script);
  return {
    title,
    async start(directory, key) {
      const more = isOverTls ? certificateIn(directory) : [];
      const child = new Child(script, process.execPath, [file, directory, ...more]);
      const { port } = await child.json('stdout', (value) => 'port' in value);
      const scheme = isOverTls ? 'https' : 'http';
      await sendFirstEvent(port, key, scheme);
      return {
        pid: child.pid,
        port,
        scheme,
        /** Resolves with the number of stored events, or null if the peer stores none. */
        async stop() {
          const counted = child.json('stdout', (value) => 'stored' in value);
          counted.catch(() => undefined);
          const code = await child.stop();
          if (code !== 0) throw new Error(`${script} ended with ${code}: ${child.output.stderr}`);
          return (await counted).stored;
        },
      };
    },
  };
}

const DATABASE = { shared_buffers: '1GB', wal_compression: 'on', max_wal_size: '16GB' };

/**
 * @returns the options of a log with encrypted payloads, whose keys are on a PostgreSQL server of their own.
 */
function keysOn(server, directory) {
  const kek = path.join(directory, 'kek');
  fs.writeFileSync(kek, `${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
  return ['--encryption', 'on', '--encryption-keys', server.url(), '--kek', `file:${kek}`];
}

/** The collector on a log in PostgreSQL. The key that `start` returns is a key of that log. */
function onPostgres(title, { isReplicated = false, isEncrypted = false }) {
  return {
    title,
    async start(directory) {
      const { primary, standby } = isReplicated
        ? await PostgresServer.pair(DATABASE)
        : { primary: await PostgresServer.start(DATABASE) };
      const keys = isEncrypted ? await PostgresServer.start({}) : undefined;
      const store = ['--store', primary.url()];
      const durability = isReplicated ? 'replicated' : 'local';
      await collectorCommand('store', 'migrate', ...store, '--durability', durability);
      const made = await collectorCommand('keys', 'create', ...store, '--permissions', 'all', '--json');
      const { key } = JSON.parse(made);
      const encryption = isEncrypted ? keysOn(keys, directory) : [];
      const collector = await startCollector(directory, key, { more: [...store, ...encryption] });
      return {
        ...{ key, pid: collector.pid, port: collector.port },
        /** The p99 of the merge delay since the start, in milliseconds. */
        async mergeDelay() {
          const answer = await fetch(`http://127.0.0.1:${collector.management}/console/state.json`);
          return (await answer.json()).database.merge_delay_p99_ms;
        },
        async stop() {
          await stopCollector(collector);
          const [row] = await primary.query('SELECT count(*)::int AS events FROM collector.event_ids');
          for (const server of [primary, standby, keys]) await server?.remove();
          return row.events;
        },
      };
    },
  };
}

function embedded(title, { isOverTls = false, isEncrypted = true }) {
  return {
    title,
    async start(directory, key) {
      const certificates = isOverTls ? temporaryDirectory(path.dirname(directory), 'tls') : undefined;
      const more = [
        ...(isOverTls ? certificateIn(certificates) : []),
        ...['--encryption', isEncrypted ? 'on' : 'off'],
      ];
      const collector = await startCollector(directory, key, { more });
      return {
        pid: collector.pid,
        port: collector.port,
        scheme: isOverTls ? 'https' : 'http',
        async stop() {
          await stopCollector(collector);
          if (isOverTls) removeDirectory(certificates);
          return countByDoctor(directory);
        },
      };
    },
  };
}

/** In the order of the table in RESULTS.md. */
export const PEERS = {
  collector: embedded('collector', {}),
  'collector-plain': embedded('collector, plain', { isEncrypted: false }),
  'collector-postgres': onPostgres('collector, PostgreSQL, encrypted', { isEncrypted: true }),
  'collector-postgres-plain': onPostgres('collector, PostgreSQL, plain', {}),
  'collector-replicated': onPostgres('collector, PostgreSQL with a standby, plain', { isReplicated: true }),
  raw: peer('raw node:http', 'raw.mjs'),
  redis: peer('node:http + Redis, fsync always', 'redis.mjs'),
  'postgres-insert': peer('node:http + PostgreSQL INSERT', 'postgres-insert.mjs'),
  'fastify-pg': peer('Fastify + pg', 'fastify-pg.mjs'),
  'collector-tls': embedded('collector, HTTPS', { isOverTls: true }),
  'raw-tls': peer('raw node:https', 'raw.mjs', { isOverTls: true }),
};
