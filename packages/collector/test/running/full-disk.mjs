// Loaded before a collector or a command: while the file that FULL_DISK names exists, no byte fits on any disk.
import fs from 'node:fs';

const flag = process.env.FULL_DISK ?? '';

function failing(owner, name) {
  const real = owner[name];
  owner[name] = function (target, ...rest) {
    const isOutput = target === 1 || target === 2;
    if (!isOutput && fs.existsSync(flag)) {
      const error = Object.assign(new Error(`ENOSPC: no space left on device, ${name}`), { code: 'ENOSPC' });
      const done = rest.at(-1);
      if (name === 'write' && owner === fs && typeof done === 'function')
        return void process.nextTick(done, error);
      if (owner === fs) throw error;
      return Promise.reject(error);
    }
    return real.call(this, target, ...rest);
  };
}

for (const name of ['write', 'writeSync', 'writevSync', 'writeFileSync', 'appendFileSync']) failing(fs, name);
const handle = await fs.promises.open('/dev/null', 'w');
for (const name of ['write', 'writev', 'writeFile', 'appendFile'])
  failing(Object.getPrototypeOf(handle), name);
await handle.close();
