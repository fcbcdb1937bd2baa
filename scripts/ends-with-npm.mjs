// Loaded before the program by the scripts of package.json: ends the program in order when the npm that runs the script
// has ended. npm passes on SIGINT and SIGTERM alone; any other signal, as that of a closed terminal, ends npm and would
// leave the program with its port and data directory.
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
