/** Who is measured: each starts on an empty directory and can be asked at the end what it stored. */
import path from 'node:path';
import { Child, removeDirectory, temporaryDirectory } from './children.mjs';
import { sendFirstEvent } from './client.mjs';
import { Authority, writePair } from '../../packages/collector/test/running/certificates.ts';
import { PostgresServer } from '../../packages/postgres/test/running/postgres-server.ts';
import { collectorCommand, countByDoctor, startCollector, stopCollector } from './collector.mjs';

/** @returns the options that name a new certificate and its key. */
function certificateIn(directory) {
  return writePair(directory, new Authority().issue({ names: ['dns:localhost'] }));
}

function peer(title, script, { overTls = false } = {}) {
  const file = path.resolve(import.meta.dirname, '../peers', script);
  return {
    title,
    async start(directory, key) {
      const more = overTls ? certificateIn(directory) : [];
      const child = new Child(script, process.execPath, [file, directory, ...more]);
      const { port } = await child.json('stdout', (value) => 'port' in value);
      const scheme = overTls ? 'https' : 'http';
      await sendFirstEvent(port, key, scheme);
      return {
        pid: child.pid,
        port,
        scheme,
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
        /** From the commit of a batch to the checkpoint over it: the p99 in milliseconds, of all since the start. */
        async mergeDelay() {
          const answer = await fetch(`http://127.0.0.1:${collector.management}/console/state.json`);
          return (await answer.json()).database.merge_delay_p99_ms;
        },
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

function embedded(title, { overTls = false, encrypted = false }) {
  return {
    title,
    async start(directory, key) {
      const certificates = overTls ? temporaryDirectory(path.dirname(directory), 'tls') : undefined;
      const more = [
        ...(overTls ? certificateIn(certificates) : []),
        ...['--encryption', encrypted ? 'on' : 'off'],
      ];
      const collector = await startCollector(directory, key, { more });
      return {
        pid: collector.pid,
        port: collector.port,
        scheme: overTls ? 'https' : 'http',
        async stop() {
          await stopCollector(collector);
          if (overTls) removeDirectory(certificates);
          return countByDoctor(directory);
        },
      };
    },
  };
}

export const PEERS = {
  collector: embedded('collector', {}),
  'collector-encrypted': embedded('collector, payloads encrypted', { encrypted: true }),
  'collector-tls': embedded('collector, HTTPS', { overTls: true }),
  'collector-postgres': onPostgres('collector, PostgreSQL', { replicated: false }),
  'collector-replicated': onPostgres('collector, with standby', { replicated: true }),
  raw: peer('raw node:http', 'raw.mjs'),
  'raw-tls': peer('raw node:https', 'raw.mjs', { overTls: true }),
  'fastify-pg': peer('Fastify + pg', 'fastify-pg.mjs'),
  'express-sqlite': peer('Express + SQLite', 'express-sqlite.mjs'),
};
