/*
 * The file calls of the writing thread, with faults ordered from outside: the thread imports this module, so the
 * test speaks to it through a file, named in the query of the module's URL. While that file exists it says, as
 * JSON, which call fails with which code, or how many milliseconds every sync takes.
 */
import * as fs from 'node:fs';

interface Fault {
  call?: string;
  code?: string;
  slow?: number;
}

const control = new URL(import.meta.url).searchParams.get('control') ?? '';
const asleep = new Int32Array(new SharedArrayBuffer(4));

function meet(call: string): void {
  if (!fs.existsSync(control)) return;
  const fault = JSON.parse(fs.readFileSync(control, 'utf8')) as Fault;
  if (fault.call === call)
    throw Object.assign(new Error(`${fault.code ?? ''}: ${call}`), { code: fault.code });
  if (fault.slow !== undefined && call === 'fsyncSync') Atomics.wait(asleep, 0, 0, fault.slow);
}

function faulty<A extends unknown[], R>(name: string, call: (...args: A) => R): (...args: A) => R {
  return (...args) => {
    meet(name);
    return call(...args);
  };
}

export const openSync = faulty('openSync', fs.openSync);
export const writeSync = faulty('writeSync', fs.writeSync as (...args: unknown[]) => number);
export const fdatasyncSync = faulty('fdatasyncSync', fs.fdatasyncSync);
export const fsyncSync = faulty('fsyncSync', fs.fsyncSync);
export const renameSync = faulty('renameSync', fs.renameSync);
export const unlinkSync = faulty('unlinkSync', fs.unlinkSync);
export const closeSync = fs.closeSync;
