/**
 * How many times as much processor time `work` takes for eight times the size: about 8 where it is linear, about 64 where
 * it is quadratic, on any machine. The quickest of several runs counts, so that other processes do not matter.
 */
export function growth(work: (size: number) => void, size: number): number {
  return quickest(() => work(8 * size)) / quickest(() => work(size));
}

/** The clock of a thread may go in steps of some milliseconds: each time is that of as many runs as take many steps. */
function quickest(work: () => void): number {
  const times = Array.from({ length: 3 }, () => {
    let [runs, used] = [0, 0];
    for (const before = process.threadCpuUsage(); used < 50_000; runs++) {
      work();
      const { user, system } = process.threadCpuUsage(before);
      used = user + system;
    }
    return used / runs;
  });
  return Math.min(...times);
}

/** Between linear and quadratic, with room for a cold cache and a just-in-time compiler. */
export const LINEAR = 24;
