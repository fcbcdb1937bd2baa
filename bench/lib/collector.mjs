/** The commands of the collector, each in a process of its own. */
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { Child, run } from './children.mjs';
import { sendFirstEvent } from './client.mjs';
import { boundTo } from './cores.mjs';

export const DIST = path.resolve(import.meta.dirname, '../../packages/collector/dist');
export const MAIN = path.join(DIST, 'main.js');

export function collectorCommand(name, ...args) {
  return run(`collector ${name}`, process.execPath, [MAIN, name, ...args]);
}

/** Makes a key in the directory and resolves with `{ key, key_id }`. */
export async function createKey(dataDir) {
  const args = ['create', '--data-dir', dataDir, '--permissions', 'all', '--note', 'bench', '--json'];
  return JSON.parse(await collectorCommand('keys', ...args));
}

/** Counts the stored events. Reads and checks each of them. */
export async function countByDoctor(dataDir) {
  const { damaged, findings } = JSON.parse(await collectorCommand('doctor', '--data-dir', dataDir, '--json'));
  const found = findings.find(({ subject }) => subject === 'events')?.message;
  const events = /^(\d+) events?, each checked$/.exec(found)?.[1];
  if (damaged || events === undefined) {
    throw new Error(`doctor did not count the events: ${JSON.stringify(findings)}`);
  }
  return Number(events);
}

/** The same by the collector's reader, without the checks of `doctor`. */
export async function countByReading(dataDir) {
  const { openStore } = await import(pathToFileURL(path.join(DIST, 'store/open-to-read.js')));
  const log = openStore(dataDir).events;
  let events = 0;
  for await (const batch of log.scan({})) events += [...batch].length;
  await log.close();
  return events;
}

/**
 * Starts a collector and sends the first event. Resolves once that is answered, with the time since the start
 * of the process and with what the collector logged about its ledger.
 * @param more options of the collector.
 * @param core the core to which all its threads are bound; undefined to bind them to none.
 */
export async function startCollector(dataDir, key, { more = [], core } = {}) {
  const since = performance.now();
  const ports = ['--port', '0', '--management-port', '0'];
  const command = [process.execPath, MAIN, 'serve', ...ports, '--data-dir', dataDir, ...more];
  const [file, ...args] = boundTo(core, command);
  const child = new Child('the collector', file, args);
  let management;
  child.onLine((stream, line) => {
    if (stream === 'stderr' && line.includes('"msg":"management listening"'))
      management = JSON.parse(line).port;
  });
  const opened = child.json('stderr', ({ msg }) => msg === 'ledger open');
  const { port } = await child.json('stderr', ({ msg }) => msg === 'listening');
  const listeningMs = performance.now() - since;
  await sendFirstEvent(port, key, more.includes('--tls-cert') ? 'https' : 'http');
  const firstAnswerMs = performance.now() - since;
  const start = { listeningMs, firstAnswerMs };
  return { child, pid: child.pid, port, management, start, opened: await opened };
}

/** Sends SIGTERM. Resolves with the duration of the stop in milliseconds. */
export async function stopCollector({ child }) {
  const since = performance.now();
  const code = await child.stop();
  if (code !== 0) throw new Error(`the collector stopped with ${code}: ${child.output.stderr}`);
  return performance.now() - since;
}
