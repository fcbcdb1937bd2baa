/*
 * The file calls of the writing thread, with faults ordered from outside: the thread imports this module, so the
 * test controls it through a file, named in the query of the module's URL. While that file exists it states, as
 * JSON, which call fails with which code, or how many milliseconds every sync takes.
 */
import * as fs from 'node:fs';

const control = new URL(import.meta.url).searchParams.get('control');
const asleep = new Int32Array(new SharedArrayBuffer(4));

function faulty(name) {
  return (...args) => {
    if (fs.existsSync(control)) {
      const { call, code, slow } = JSON.parse(fs.readFileSync(control, 'utf8'));
      if (call === name) throw Object.assign(new Error(`${code}: ${name}`), { code });
      if (slow && name === 'fsyncSync') Atomics.wait(asleep, 0, 0, slow);
    }
    return fs[name](...args);
  };
}

export const openSync = faulty('openSync');
export const writeSync = faulty('writeSync');
export const fdatasyncSync = faulty('fdatasyncSync');
export const fsyncSync = faulty('fsyncSync');
export const renameSync = faulty('renameSync');
export const unlinkSync = faulty('unlinkSync');
export const closeSync = faulty('closeSync');
