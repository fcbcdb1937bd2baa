/** A command of the collector from the start of its process to its end. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { Child } from './children.mjs';
import { MAIN } from './collector.mjs';

const USAGE_AT_EXIT = path.resolve(import.meta.dirname, '../preload/usage-at-exit.mjs');

/** @returns a core that this process may run on, or undefined when nobody can be bound to one (no `taskset`). */
export function coreToPinTo() {
  if (spawnSync('taskset', ['--version']).error) return undefined;
  const status = fs.readFileSync('/proc/self/status', 'utf8');
  return Number(/^Cpus_allowed_list:\s+(\d+)/m.exec(status)[1]);
}

/**
 * Runs `collector <name> <args>`, on that core alone if one is given. Resolves with its time, Node's own start
 * included, its CPU time, its highest RSS, and what it wrote to standard output.
 * @throws when it ends with none of the codes; by default only 0 will do.
 */
export async function timedCommand(name, args, { core, codes = [0] } = {}) {
  const pin = core === undefined ? [] : ['taskset', '--cpu-list', `${core}`];
  const [file, ...rest] = [...pin, process.execPath, '--import', USAGE_AT_EXIT, MAIN, name, ...args];
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
