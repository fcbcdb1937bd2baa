/** Binds processes to cores, so that the load generator takes no time from the measured process. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';

/** @returns the cores of this process, or an empty list without `taskset`. */
export function coresToBindTo() {
  if (spawnSync('taskset', ['--version']).error) return [];
  const status = fs.readFileSync('/proc/self/status', 'utf8');
  const list = /^Cpus_allowed_list:\s+(\S+)/m.exec(status)[1];
  return list.split(',').flatMap((part) => {
    const [first, last = first] = part.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

/** @returns the command, bound to that core by `taskset`; unchanged without a core. */
export function boundTo(core, command) {
  return core === undefined ? command : ['taskset', '--cpu-list', `${core}`, ...command];
}
