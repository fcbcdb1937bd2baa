/**
 * Loaded into a command by `node --import`: at its end it prints its usage to standard error, as one line of
 * JSON.
 *
 * The peak is the kernel's VmHWM. That of getrusage begins with what the parent had at the fork.
 */
import fs from 'node:fs';
import { isMainThread } from 'node:worker_threads';

if (isMainThread) {
  process.on('exit', () => {
    const peak = /^VmHWM:\s+(\d+) kB/m.exec(fs.readFileSync('/proc/self/status', 'utf8'))[1];
    const { user, system } = process.cpuUsage();
    const used = { peakBytes: Number(peak) * 1024, cpuSeconds: (user + system) / 1e6 };
    fs.writeSync(2, `${JSON.stringify(used)}\n`);
  });
}
