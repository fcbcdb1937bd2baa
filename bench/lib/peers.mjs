/** Who is measured: each starts on an empty directory and can be asked at the end what it stored. */
import path from 'node:path';
import { Child } from './children.mjs';
import { sendFirstEvent } from './client.mjs';
import { PostgresServer } from '../../packages/collector/test/running/postgres-server.ts';
import { collectorCommand, countByDoctor, startCollector, stopCollector } from './collector.mjs';

function peer(title, script) {
  const file = path.resolve(import.meta.dirname, '../peers', script);
  return {
    title,
    async start(directory, key) {
      const child = new Child(script, process.execPath, [file, directory]);
      const { port } = await child.json('stdout', (value) => 'port' in value);
      await sendFirstEvent(port, key);
      return {
        pid: child.pid,
        port,
        /** Resolves with the number of events stored, or null when it stores none. */
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

/** The collector on a log in PostgreSQL; `key` is one of its own. */
function onPostgres(title, { replicated }) {
  return {
    title,
    async start(directory) {
      const settings = { shared_buffers: '1GB', wal_compression: 'on', max_wal_size: '16GB' };
      const { primary, standby } = replicated
        ? await PostgresServer.pair(settings)
        : { primary: await PostgresServer.start(settings) };
      const store = ['--store', primary.url()];
      await collectorCommand(
        'store',
        'migrate',
        ...store,
        '--durability',
        replicated ? 'replicated' : 'local',
      );
      const made = await collectorCommand('keys', 'create', ...store, '--permissions', 'all', '--json');
      const { key } = JSON.parse(made);
      const collector = await startCollector(directory, key, { more: store });
      return {
        ...{ key, pid: collector.pid, port: collector.port },
        async stop() {
          await stopCollector(collector);
          const [row] = await primary.query('SELECT count(*)::int AS events FROM collector.event_ids');
          await primary.remove();
          await standby?.remove();
          return row.events;
        },
      };
    },
  };
}

export const PEERS = {
  collector: {
    title: 'collector',
    async start(directory, key) {
      const collector = await startCollector(directory, key);
      return {
        pid: collector.pid,
        port: collector.port,
        async stop() {
          await stopCollector(collector);
          return countByDoctor(directory);
        },
      };
    },
  },
  'collector-postgres': onPostgres('collector, PostgreSQL', { replicated: false }),
  'collector-replicated': onPostgres('collector, with standby', { replicated: true }),
  raw: peer('raw node:http', 'raw.mjs'),
  'fastify-pg': peer('Fastify + pg', 'fastify-pg.mjs'),
  'express-sqlite': peer('Express + SQLite', 'express-sqlite.mjs'),
};
