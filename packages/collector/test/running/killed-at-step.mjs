// Loaded before a command: it is killed at the step that KILLED_AT counts, before what is then to be made durable or visible.
import fs from 'node:fs';

let left = Number(process.env.KILLED_AT);

function killing(owner, name) {
  const real = owner[name];
  owner[name] = function (...args) {
    if (--left === 0) process.kill(process.pid, 'SIGKILL');
    return real.apply(this, args);
  };
}

for (const name of ['openSync', 'fsyncSync', 'linkSync', 'renameSync', 'rmSync']) killing(fs, name);
const handle = await fs.promises.open('/dev/null', 'w');
for (const name of ['sync', 'datasync', 'writeFile']) killing(Object.getPrototypeOf(handle), name);
await handle.close();
