/** Resources of a process and its descendants, from /proc. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';

let ticks;
function ticksPerSecond() {
  ticks ??= Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));
  return ticks;
}

function statOf(pid) {
  let text;
  try {
    text = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined;
  }
  // The name in parentheses may contain spaces, so the fields are counted from its end.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return {
    pid: Number(pid),
    parent: Number(fields[1]),
    cpuTicks: Number(fields[11]) + Number(fields[12]),
    endedChildrenTicks: Number(fields[13]) + Number(fields[14]),
    startedAt: fields[19],
  };
}

/** The process and all its descendants. */
export function treeOf(pid) {
  const all = fs
    .readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(statOf)
    .filter((stat) => stat !== undefined);
  const tree = all.filter((stat) => stat.pid === pid);
  for (const parent of tree) tree.push(...all.filter((stat) => stat.parent === parent.pid));
  return tree;
}

/** Whether the process number still belongs to the same process. */
export function isSameProcess(stat) {
  return statOf(stat.pid)?.startedAt === stat.startedAt;
}

function memoryOf(pid) {
  let text;
  try {
    text = fs.readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return { rss: 0, anonymous: 0, peak: 0 };
  }
  const bytes = (name) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0) * 1024;
  return { rss: bytes('VmRSS'), anonymous: bytes('RssAnon'), peak: bytes('VmHWM') };
}

/**
 * Memory in bytes and CPU time in seconds of a process tree. Sums over processes: pages that several of them
 * share (PostgreSQL's buffers) count several times.
 */
export function usageOf(pid) {
  const sum = { rss: 0, anonymous: 0, peak: 0, cpuSeconds: 0 };
  for (const stat of treeOf(pid)) {
    const memory = memoryOf(stat.pid);
    sum.rss += memory.rss;
    sum.anonymous += memory.anonymous;
    sum.peak += memory.peak;
    sum.cpuSeconds += (stat.cpuTicks + stat.endedChildrenTicks) / ticksPerSecond();
  }
  return sum;
}

/** The CPU time of this process's children that have ended, in seconds. */
export function endedChildrenCpuSeconds() {
  return statOf(process.pid).endedChildrenTicks / ticksPerSecond();
}

/** Samples a process tree's RSS until stopped. */
export class RssSampler {
  samples = [];
  #timer;

  constructor(pid, everyMs = 250) {
    const since = performance.now();
    const sample = () => {
      const { rss } = usageOf(pid);
      if (rss > 0) this.samples.push({ ms: Math.round(performance.now() - since), rss });
    };
    sample();
    this.#timer = setInterval(sample, everyMs);
  }

  stop() {
    clearInterval(this.#timer);
    return this.samples;
  }
}

/** Each thread of a process by number: nanoseconds that it ran, and that it waited for a core. */
export function threadsOf(pid) {
  const ids = fs.readdirSync(`/proc/${pid}/task`);
  return new Map(
    ids.map((id) => {
      const read = (name) => fs.readFileSync(`/proc/${pid}/task/${id}/${name}`, 'utf8').trim();
      const [ran, waited] = read('schedstat').split(' ').map(Number);
      return [id, { name: read('comm'), ran, waited }];
    }),
  );
}

/** Use of all cores since the start of the machine, in ticks. */
export function coresUse() {
  const [line = ''] = fs.readFileSync('/proc/stat', 'utf8').split('\n');
  const names = ['user', 'nice', 'system', 'idle', 'iowait', 'irq', 'softirq', 'steal'];
  const ticks = line.split(/\s+/).slice(1).map(Number);
  return Object.fromEntries(names.map((name, i) => [name, ticks[i]]));
}
