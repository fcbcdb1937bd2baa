/** Who is measured: each starts on an empty directory and can be asked at the end what it stored. */
import path from 'node:path';
import { Child } from './children.mjs';
import { sendFirstEvent } from './client.mjs';
import { countByDoctor, startCollector, stopCollector } from './collector.mjs';

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
  raw: peer('raw node:http', 'raw.mjs'),
  'fastify-pg': peer('Fastify + pg', 'fastify-pg.mjs'),
  'express-sqlite': peer('Express + SQLite', 'express-sqlite.mjs'),
};
