// Ends the program in order when the npm that runs it has ended; the scripts of package.json load it first. npm passes
// on only SIGINT and SIGTERM. Another signal, such as SIGHUP of a closed terminal, ends npm and would leave the program
// running with its port and data directory.
import { isMainThread } from 'node:worker_threads';

const EVERY_MS = 500;

if (isMainThread) {
  const npm = process.ppid;
  const watching = setInterval(() => {
    if (process.ppid === npm) return;
    clearInterval(watching);
    process.kill(process.pid, 'SIGTERM');
  }, EVERY_MS).unref();
}
