/** The load generator. */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { Child } from './children.mjs';
import { KIND, shapeOf } from './event.mjs';
import { endedChildrenCpuSeconds } from './procfs.mjs';

const SCRIPT = path.resolve(import.meta.dirname, '../load/events.lua');

/** @returns its version, or undefined when it is not installed. */
export function wrkVersion() {
  // It ends with 1 whenever it was not given a URL.
  const { stdout, error } = spawnSync('wrk', ['-v'], { encoding: 'utf8' });
  return error ? undefined : /^wrk (\S+)/.exec(stdout)?.[1];
}

/** Begins to send. `result` resolves when the time is up, or some moments after `stop`. */
export function beginLoad({ port, key, seed, seconds, connections, eventBytes }) {
  const { before, middle, padding, after } = shapeOf(eventBytes);
  const cpuBefore = endedChildrenCpuSeconds();
  const child = new Child('wrk', 'wrk', [
    ...['--threads', '1', '--connections', `${connections}`, '--duration', `${seconds}s`, '--timeout', '10s'],
    ...['--script', SCRIPT, `http://127.0.0.1:${port}/event/${KIND}`, '--'],
    ...[key, before, middle, `${padding}`, after, `${seed}`],
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
export function load(options) {
  return beginLoad(options).result;
}

/** Answers that were not 201, and requests without one. */
export function failuresIn({ errors }) {
  return errors.status + errors.connect + errors.read + errors.write + errors.timeout;
}
