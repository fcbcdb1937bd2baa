/** The receivers of OTLP. Each starts on an empty store and returns the number of stored events. */
import { once } from 'node:events';
import net from 'node:net';
import { freePort } from '../../test/free-port.ts';
import { removeDirectory, temporaryDirectory } from './children.mjs';
import { countByReading, createKey, startCollector, stopCollector } from './collector.mjs';
import { startOtelCollector } from './otel-collector.mjs';

/** Starts a collector with an OTLP listener. `stop` resolves with the number of stored events. */
export async function startOurs({ scratch, encrypted }) {
  const directory = temporaryDirectory(scratch, 'otlp');
  const { key } = await createKey(directory);
  const port = await freePort();
  const more = ['--otlp-port', `${port}`, '--encryption', encrypted ? 'on' : 'off'];
  const collector = await startCollector(directory, key, { more });
  const stop = async () => {
    await stopCollector(collector);
    // startCollector has sent one more event.
    const stored = (await countByReading(directory)) - 1;
    removeDirectory(directory);
    return stored;
  };
  return { pid: collector.pid, port, key, collector, stop };
}

/** Accepts connections and never answers, so that requests stay in the sender's queue. */
async function mute() {
  const sockets = new Set();
  const server = net.createServer((socket) => {
    sockets.add(socket.resume().on('error', () => undefined));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const close = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { port: server.address().port, close };
}

async function startPeer({ scratch }) {
  const directory = temporaryDirectory(scratch, 'otel-collector');
  const silent = await mute();
  const port = await freePort();
  const child = await startOtelCollector({ directory, port, target: silent.port, key: 'none' });
  const stop = async () => {
    // SIGTERM would wait for the server that does not answer.
    child.signal('SIGKILL');
    await child.exited;
    silent.close();
    removeDirectory(directory);
  };
  return { pid: child.pid, port, key: 'none', stop };
}

export const OTLP_PEERS = {
  'collector-encrypted': {
    title: 'collector',
    start: (options) => startOurs({ ...options, encrypted: true }),
  },
  collector: {
    title: 'collector, not encrypted',
    start: (options) => startOurs({ ...options, encrypted: false }),
    // One encoding is enough here; the encrypted side has all.
    loads: ['protobuf'],
  },
  'otel-collector': { title: 'OTel Collector, queue with fsync', start: startPeer },
};
