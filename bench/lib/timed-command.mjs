/** A command of the collector from the start of its process to its end. */
import path from 'node:path';
import { Child } from './children.mjs';
import { MAIN } from './collector.mjs';
import { boundTo } from './cores.mjs';

const USAGE_AT_EXIT = path.resolve(import.meta.dirname, '../preload/usage-at-exit.mjs');

/**
 * Runs `collector <name> <args>`, bound to a core if one is given. Resolves with its duration, which includes
 * the start of Node.js, its CPU time, its highest RSS and its standard output.
 * @throws if its exit code is not among the expected ones; by default only 0 is.
 */
export async function timedCommand(name, args, { core, codes = [0] } = {}) {
  const [file, ...rest] = boundTo(core, [process.execPath, '--import', USAGE_AT_EXIT, MAIN, name, ...args]);
  const since = performance.now();
  const child = new Child(`collector ${name}`, file, rest);
  const used = child.json('stderr', (value) => 'peakBytes' in value);
  used.catch(() => undefined);
  let stdout = '';
  child.onLine((stream, line) => {
    if (stream === 'stdout') stdout += `${line}\n`;
  });
  const code = await child.exited;
  const seconds = (performance.now() - since) / 1000;
  if (!codes.includes(code))
    throw new Error(`collector ${name} ended with ${code}: ${stdout}${child.output.stderr}`);
  return { seconds, ...(await used), stdout };
}
