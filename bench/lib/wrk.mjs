/** The load generator. */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { Child } from './children.mjs';
import { templatesOf } from './loads.mjs';
import { endedChildrenCpuSeconds } from './procfs.mjs';

const SCRIPT = path.resolve(import.meta.dirname, '../load/events.lua');

/** @returns its version, or undefined if it is not installed. */
export function wrkVersion() {
  // Without a URL its exit code is 1.
  const { stdout, error } = spawnSync('wrk', ['-v'], { encoding: 'utf8' });
  return error ? undefined : /^wrk (\S+)/.exec(stdout)?.[1];
}

/** Starts the load. `result` resolves at the end of the time, or shortly after `stop`. */
export async function beginLoad({
  port,
  scheme = 'http',
  key,
  seed,
  seconds,
  connections,
  load,
  eventBytes,
}) {
  const templates = await templatesOf(load, eventBytes);
  const cpuBefore = endedChildrenCpuSeconds();
  const child = new Child('wrk', 'wrk', [
    ...['--threads', '1', '--connections', `${connections}`, '--duration', `${seconds}s`, '--timeout', '10s'],
    ...['--script', SCRIPT, `${scheme}://127.0.0.1:${port}`, '--', key, templates, `${seed}`],
  ]);
  const counted = child.json('stdout', (value) => 'latencyMs' in value);
  const result = counted.then(async (value) => {
    await child.exited;
    const { requests, errors } = value;
    const acked = requests - errors.status;
    return {
      ...value,
      acked,
      rate: acked / value.seconds,
      // wrk's share of a core. Near 1, the generator was the limit.
      generatorCpu: (endedChildrenCpuSeconds() - cpuBefore) / value.seconds,
    };
  });
  result.catch(() => undefined);
  return { result, stop: () => child.signal('SIGINT') };
}

/** Sends for this number of seconds. */
export async function load(options) {
  const { result } = await beginLoad(options);
  return result;
}

/** Counts answers other than 201, and requests without an answer. */
export function failuresIn({ errors }) {
  return errors.status + errors.connect + errors.read + errors.write + errors.timeout;
}
