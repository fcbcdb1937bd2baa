/** The load generator. */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { Child } from './children.mjs';
import { templatesOf } from './loads.mjs';
import { endedChildrenCpuSeconds } from './procfs.mjs';

const SCRIPT = path.resolve(import.meta.dirname, '../load/events.lua');

/** @returns its version, or undefined when it is not installed. */
export function wrkVersion() {
  // It ends with 1 whenever it was not given a URL.
  const { stdout, error } = spawnSync('wrk', ['-v'], { encoding: 'utf8' });
  return error ? undefined : /^wrk (\S+)/.exec(stdout)?.[1];
}

/** Begins to send. `result` resolves when the time is up, or some moments after `stop`. */
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
      // wrk's own share: near 1, the generator was the limit.
      generatorCpu: (endedChildrenCpuSeconds() - cpuBefore) / value.seconds,
    };
  });
  result.catch(() => undefined);
  return { result, stop: () => child.signal('SIGINT') };
}

/** Sends for so many seconds. */
export async function load(options) {
  const { result } = await beginLoad(options);
  return result;
}

/** Answers that were not 201, and requests without one. */
export function failuresIn({ errors }) {
  return errors.status + errors.connect + errors.read + errors.write + errors.timeout;
}
