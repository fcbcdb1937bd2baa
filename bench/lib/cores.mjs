/** Binding processes to cores, so that what makes the load cannot take the time of what is measured. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';

/** @returns the cores that this process may run on; none when no one can be bound to one (no `taskset`). */
export function coresToBindTo() {
  if (spawnSync('taskset', ['--version']).error) return [];
  const status = fs.readFileSync('/proc/self/status', 'utf8');
  const list = /^Cpus_allowed_list:\s+(\S+)/m.exec(status)[1];
  return list.split(',').flatMap((part) => {
    const [first, last = first] = part.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

/** The command, as one whose process runs on that core alone; unchanged when there is none. */
export function boundTo(core, command) {
  return core === undefined ? command : ['taskset', '--cpu-list', `${core}`, ...command];
}
