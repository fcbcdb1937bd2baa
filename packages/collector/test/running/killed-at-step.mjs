// Loaded before a command: it is killed before the step of writing that KILLED_AT counts.
import fs from 'node:fs';

let left = Number(process.env.KILLED_AT);

function killing(owner, name, isStep = () => true) {
  const real = owner[name];
  owner[name] = function (...args) {
    if (isStep(...args) && --left === 0) process.kill(process.pid, 'SIGKILL');
    return real.apply(this, args);
  };
}

killing(fs, 'openSync', (_, flags = 'r') => flags !== 'r');
for (const name of ['fsyncSync', 'fdatasyncSync', 'linkSync', 'renameSync', 'rmSync']) killing(fs, name);
const handle = await fs.promises.open('/dev/null', 'w');
for (const name of ['sync', 'datasync', 'writeFile']) killing(Object.getPrototypeOf(handle), name);
await handle.close();
